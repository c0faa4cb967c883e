"""Making units from records of the log, where there are no usable rows."""

from collections.abc import Callable, Iterable
from typing import Final, final

from ..._layouts import BLANK_SIZE, pack_unit
from ...derive._sequence import Sequences
from ...derive._units import DerivedUnit
from ...log._records import Record
from ...log._segments import Segments
from ...queues._slots import expected_at, holds_message
from ...queues.files._consume_queue import FileConsumeQueue
from ...tools.reading._pieces import Pieces
from ..checks._survey import names_message
from ..units._log_units import NEVER, Demands
from ._shadow import ShadowFiles

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
    """The writer of units, in the order of the log. Raises ``OSError``."""

    def __init__(
        self,
        open_queue: Callable[[str, int], FileConsumeQueue],
        demands: Demands,
        *,
        log: Pieces,
    ) -> None:
        self._open_queue = open_queue
        self._demands = demands
        self._log = log
        self._targets: dict[tuple[str, int], _Target] = {}
        self._waiting = 0
        self._sequences = Sequences(
            self._pass_over, expected=self._expected, is_known=self._is_known
        )
        self.blanks = 0
        """Number of blank slots that were added, less those that were filled."""

    def run(self, records: Iterable[Record]) -> None:
        """Add the missing units of records, and write them out."""
        units = self._demands.derivation.walk(records)
        for unit in self._sequences.confirmed(filter(self._is_wanted, units)):
            self._put(unit)
            if self._waiting >= TAILS_MAX:
                self._write_out()
        self._write_out()
        for target in self._targets.values():
            target.queue.cut(target.queue.end)  # nobody may take remains for units
            target.queue.close()

    def _is_wanted(self, unit: DerivedUnit) -> bool:
        target = self._targets.get(unit[:2]) or self._open(unit.topic, unit.queue_id)
        return target is not None and unit.log_position >= target.since

    def _expected(self, unit: DerivedUnit) -> tuple[int, int] | None:
        queue, log = self._targets[unit[:2]].queue, self._log

        def is_right(offset: int) -> bool:
            known = queue.unit(offset)
            return known is not None and names_message(log, *unit[:2], offset, known.log_position)

        return expected_at(queue, unit.log_position, log_begin=log.begin, is_right=is_right)

    def _is_known(self, unit: DerivedUnit) -> bool:
        queue = self._targets[unit[:2]].queue
        is_there = holds_message(queue, unit.queue_offset, unit.log_position)
        return is_there or self._demands.is_known(unit)

    def _pass_over(self, unit: DerivedUnit, slot: int | None) -> None:
        """Keep the place of a message whose offset is damaged; the check of the result tells."""
        queue = self._targets[unit[:2]].queue
        if slot == queue.end:
            queue.append_blanks(1)
            self.blanks += 1

    def _put(self, unit: DerivedUnit) -> None:
        topic, queue_id, offset, position, size, code, _ = unit
        target = self._targets[topic, queue_id]
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
        since = self._demands.since(topic, queue_id)
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
        """Prepare an existing slot for ``data``; return whether its unit is to be added then or is
        in place."""
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
        """Number of units added, or put where a blank was."""
        return sum(target.written for target in self._targets.values())

    @property
    def queues(self) -> set[tuple[str, int]]:
        """Number of queues that got units."""
        return {name for name, target in self._targets.items() if target.written}

    def _write_out(self) -> None:
        for target in self._targets.values():
            target.queue.write_out()
        self._waiting = 0


def queue_at(files: ShadowFiles, topic: str, queue_id: int, file_bytes: int) -> FileConsumeQueue:
    """Return a queue's files, not loaded yet."""
    directory = files.directory / topic / str(queue_id)
    return FileConsumeQueue(topic, queue_id, Segments(files, directory, file_bytes))
