"""Bringing one queue's file up to its rows: equal units stay, the rest is written.

A slot without a row keeps the unit that the file has for it; one that has neither becomes blank,
so that no message moves into the place of another. Offsets count messages.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, final

from ..._layouts import BLANK_SIZE, UNIT_BYTES, unpack_unit
from ...derive._compare import same_units
from ...queues.files._consume_queue import FileConsumeQueue
from ...queues.rocks._queue_rows import QueueRows
from ...tools.reading._pieces import Pieces
from ..checks._survey import names_message

BLOCK_UNITS: Final = 8192


class RowsStale(Exception):  # noqa: N818 - a state of the rows
    """The rows are of a deleted queue, which was made again, as the files show."""


@final
@dataclass(slots=True)
class Merged:
    """The changes made to a queue."""

    compared: int = 0
    written: int = 0
    blanks: int = 0
    """Blank slots that were made, or found where rows are missing: the log may have more."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """The ranges of the gaps, without the end."""


@final
class FileMerge:
    """The merge of one queue; ``begin`` and ``end`` are the offsets of its first valid row and
    behind its last."""

    def __init__(
        self,
        queue: FileConsumeQueue,
        rows: QueueRows,
        begin: int,
        end: int,
        *,
        log: Pieces,
        progress: Callable[[int], None],
    ) -> None:
        self._queue = queue
        self._rows = rows
        self._begin = begin
        self._end = end
        self._log = log
        self._progress = progress
        self._merged = Merged()

    def run(self) -> Merged:
        """Write all units of the queue's rows, unsynced.

        Raises ``RowsStale``, and ``OSError``.
        """
        queue, begin = self._queue, self._begin
        queue.correct_min(self._log.begin)
        if queue.end and begin < queue.file_begin:
            queue.clear()
        if queue.end == 0:
            queue.begin_at(begin)
        elif begin > queue.end:
            if queue.min >= queue.end:
                queue.restart_at(begin)
            self._gap(queue.end, begin)
        self._compare()
        self._append()
        queue.cut(queue.end)  # nobody may take remains for units
        return self._merged

    def _gap(self, begin: int, end: int) -> None:
        if begin < end:
            self._merged.gaps.append((begin, end))
            self._merged.blanks += end - begin
            if end > self._queue.end:
                self._queue.append_blanks(end - self._queue.end)

    def _compare(self) -> None:
        queue, at = self._queue, max(self._begin, self._queue.file_begin)
        end = min(queue.end, self._end)
        while at < end:
            count = min(BLOCK_UNITS, end - at)
            from_file = queue.read(at, count)
            from_rows = self._rows.read_units(queue.topic_data, queue.queue_id, at, count)
            same = same_units(from_file, from_rows)
            self._merged.compared += same
            at += same
            self._progress(at)
            if same == count:
                continue
            if same * UNIT_BYTES < len(from_rows):
                same *= UNIT_BYTES
                if self._is_newer(from_file[same:], from_rows[same:], at):
                    raise RowsStale
                queue.cut(at)
                return
            following = self._next_row(at)
            self._note_blanks(at, min(following, end))
            at = following

    def _is_newer(self, from_file: bytes | bytearray, from_row: bytes, offset: int) -> bool:
        """Return whether a unit of the file is of a newer message of that offset than the row."""
        if not from_file:
            return False  # the file ends where another should go on
        position = unpack_unit(from_file, 0)[0]
        if position <= unpack_unit(from_row, 0)[0]:
            return False
        queue = self._queue
        return names_message(self._log, queue.topic, queue.queue_id, offset, position)

    def _note_blanks(self, begin: int, end: int) -> None:
        """Note slots without rows: the file's own units stay there, and the rest is blank."""
        for offset in range(begin, end):
            unit = self._queue.unit(offset)
            if unit is None or unit.size_bytes == BLANK_SIZE:
                self._merged.gaps.append((offset, offset + 1))
                self._merged.blanks += 1

    def _append(self) -> None:
        queue = self._queue
        while queue.end < self._end:
            units = self._rows.read_units(
                queue.topic_data, queue.queue_id, queue.end, min(BLOCK_UNITS, self._end - queue.end)
            )
            if units:
                queue.extend(units)
                queue.write_out()
                self._merged.written += len(units) // UNIT_BYTES
                self._progress(queue.end)
            else:
                self._gap(queue.end, self._next_row(queue.end))

    def _next_row(self, offset: int) -> int:
        queue = self._queue
        found = self._rows.next_unit(queue.topic_data, queue.queue_id, offset)
        return min(found, self._end) if found is not None else self._end
