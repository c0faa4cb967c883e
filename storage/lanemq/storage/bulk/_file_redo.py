"""Units made from records of the log, where rows do not tell."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from .._consume_queue import FileConsumeQueue, pack_unit
from .._files import RealFiles
from .._layouts import BLANK_SIZE
from .._places import Place, Places
from .._records import Record
from .._segments import Segments
from .._tags import TagsCodes
from ..tools._pieces import Pieces
from ._log_units import NEVER, Since
from ._survey import names_message

TAILS_MAX: Final = 1 << 20  # units in memory


@final
class _Target:
    __slots__ = ("queue", "since", "written")

    def __init__(self, queue: FileConsumeQueue, since: int) -> None:
        self.queue = queue
        self.since = since
        self.written = 0


@final
class LogToFiles:
    """Takes records in the order of the log. Raises ``OSError``."""

    def __init__(
        self,
        open_queue: Callable[[str, int], FileConsumeQueue],
        *,
        places: Places,
        tags: TagsCodes,
        since: Since,
        log: Pieces,
    ) -> None:
        self._open_queue = open_queue
        self._places = places
        self._tags = tags
        self._since = since
        self._log = log
        self._targets: dict[tuple[str, int], _Target] = {}
        self._waiting = 0
        self.blanks = 0
        """Blank slots that were added, less those that were filled."""

    def take(self, record: Record) -> None:
        """Give the record its units, where they are not there."""
        places = self._places.of(record)
        if not places:
            return
        code = self._tags.code(record.topic, record.properties, record.store_timestamp_ms)
        for place in places:
            self._put(place, record, code)
        if self._waiting >= TAILS_MAX:
            self.write_out()

    def _put(self, place: Place, record: Record, code: int) -> None:
        topic, queue_id, offset = place
        target = self._targets.get((topic, queue_id))
        if target is None:
            target = self._open(topic, queue_id)
        position, size = record.position, record.size_bytes
        if target is None or position < target.since:
            return
        queue = target.queue
        if offset != queue.end:
            if queue.end and offset < queue.file_begin:
                return  # nothing can be put before the first file
            if offset > queue.end:
                if queue.min >= queue.end:
                    queue.restart_at(offset)
                self.blanks += offset - queue.end
                queue.append_blanks(offset - queue.end)
            elif not self._make_room(queue, offset, pack_unit(position, size, code), position):
                return
        if offset == queue.end:
            queue.append(position, size, code)
            self._waiting += 1
        target.written += 1

    def _open(self, topic: str, queue_id: int) -> "_Target | None":
        since = self._since(topic, queue_id)
        if since == NEVER:
            return None
        queue = self._open_queue(topic, queue_id)
        queue.correct_min(self._log.begin)
        target = _Target(queue, since)
        self._targets[topic, queue_id] = target
        return target

    def _make_room(
        self, queue: FileConsumeQueue, offset: int, data: bytes, log_position: int
    ) -> bool:
        """Whether a unit of ``data`` is wanted in a slot that is there; a blank becomes it."""
        unit = queue.unit(offset)
        if unit is None:
            queue.cut(offset)
            return True
        if unit.size_bytes == BLANK_SIZE:
            queue.patch(offset, data)
            self.blanks -= 1
            return True
        if data == pack_unit(*unit):
            return False
        if unit.log_position < log_position:
            queue.cut(offset)  # the queue was deleted and made again, or the slots are shifted
            return True
        place = queue.topic, queue.queue_id, offset
        if names_message(self._log, *place, unit.log_position):
            return False  # it comes later, with all of the queue that was made again
        queue.patch(offset, data)
        return True

    @property
    def written(self) -> int:
        """Units that were added, or put where a blank was."""
        return sum(target.written for target in self._targets.values())

    @property
    def queues(self) -> set[tuple[str, int]]:
        """Queues that got units."""
        return {name for name, target in self._targets.items() if target.written}

    def write_out(self) -> None:
        """Write what waits."""
        for target in self._targets.values():
            target.queue.write_out()
        self._waiting = 0

    def close(self) -> None:
        """Write the rest."""
        self.write_out()
        for target in self._targets.values():
            target.queue.cut(target.queue.end)  # nobody may take remains for units
            target.queue.close()


def queue_at(consume_queue: Path, topic: str, queue_id: int, file_bytes: int) -> FileConsumeQueue:
    """A queue's files, not looked at yet."""
    directory = consume_queue / topic / str(queue_id)
    return FileConsumeQueue(topic, queue_id, Segments(RealFiles(), directory, file_bytes))
