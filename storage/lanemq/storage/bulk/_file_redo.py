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
from ._log_units import Belongs

TAILS_MAX: Final = 1 << 20  # units in memory


@final
class LogToFiles:
    """Takes records in the order of the log. Raises ``OSError``."""

    def __init__(
        self,
        open_queue: Callable[[str, int], FileConsumeQueue],
        *,
        places: Places,
        tags: TagsCodes,
        belongs: Belongs,
        log_begin: int,
    ) -> None:
        self._open_queue = open_queue
        self._places = places
        self._tags = tags
        self._belongs = belongs
        self._log_begin = log_begin
        self._queues: dict[tuple[str, int], FileConsumeQueue] = {}
        self._waiting = 0
        self.written = 0
        """Units that were added, or put where a blank was."""
        self.blanks = 0
        """Blank slots that were added, less those that were filled."""
        self.queues: set[tuple[str, int]] = set()
        """Queues that got units."""

    def take(self, record: Record) -> None:
        """Give the record its units, where they are not there."""
        code = None
        for place in self._places.of(record):
            if not self._belongs(place, record.position):
                continue
            if code is None:
                code = self._tags.code(record.topic, record.properties, record.store_timestamp_ms)
            self._put(place, record, code)
        if self._waiting >= TAILS_MAX:
            self.write_out()

    def _put(self, place: Place, record: Record, code: int) -> None:
        queue = self._queues.get((place.topic, place.queue_id))
        if queue is None:
            queue = self._open_queue(place.topic, place.queue_id)
            queue.correct_min(self._log_begin)
            self._queues[place.topic, place.queue_id] = queue
        offset, size = place.queue_offset, record.size_bytes
        if queue.end and offset < queue.file_begin:
            return  # nothing can be put before the first file
        if offset < queue.end:
            unit = queue.unit(offset)
            if unit is not None and unit.size_bytes == BLANK_SIZE:
                queue.patch(offset, pack_unit(record.position, size, code))
                self.blanks -= 1
                self._count(place)
                return
            if unit is not None and unit.log_position >= record.position:
                return  # it is there; or the topic was deleted and made again behind it
            queue.cut(offset)
        elif offset > queue.end:
            if queue.min >= queue.end:
                queue.restart_at(offset)
            self.blanks += offset - queue.end
            queue.append_blanks(offset - queue.end)
        queue.append(record.position, size, code)
        self._waiting += 1
        self._count(place)

    def _count(self, place: Place) -> None:
        self.written += 1
        self.queues.add((place.topic, place.queue_id))

    def write_out(self) -> None:
        """Write what waits."""
        for queue in self._queues.values():
            queue.write_out()
        self._waiting = 0

    def close(self) -> None:
        """Write the rest."""
        self.write_out()
        for queue in self._queues.values():
            queue.close()


def queue_at(consume_queue: Path, topic: str, queue_id: int, file_bytes: int) -> FileConsumeQueue:
    """A queue's files, not looked at yet."""
    directory = consume_queue / topic / str(queue_id)
    return FileConsumeQueue(topic, queue_id, Segments(RealFiles(), directory, file_bytes))
