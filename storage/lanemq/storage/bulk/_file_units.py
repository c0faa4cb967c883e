"""Units of all queue files, window by window of the log.

A window is a part of one log file. Every record of it has a unit in its queue, so that the sizes
of the units of a window add up to the window: where they do not, or where a unit does not fit
its record, the log has to be read itself.
"""

from collections.abc import Callable, Iterator
from typing import final

from lanemq.wire import LMQ_PREFIX

from .._layouts import BLANK_SIZE, UNIT_BYTES
from ..rocks import QueueKeys
from ..tools._directory import StoreDirectory
from ..tools._queue_files import QueueFiles
from ..tools._scan import blank_at
from ._heads import (
    LOW_COUNT,
    RUN_UNITS_MAX,
    UNIT_POSITION,
    LogMap,
    UnitsDamaged,
    has_blanks,
    make_values,
    sizes_sum,
)
from ._sorted_table import SortedTable

Newest = dict[tuple[bytes, int], tuple[int, int]]
"""Topic and queue id -> log position and offset of the newest message."""


@final
class FileQueue:
    """Where the conversion is in one queue. Offsets count messages, positions log bytes."""

    __slots__ = ("end", "next", "position", "queue_id", "topic")

    def __init__(self, topic: str, queue_id: int, end: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.end = end
        """Offset behind the last unit that counts."""
        self.next = 0
        """Offset of the next unit to be converted."""
        self.position = -1
        """Log position of its message."""


@final
class FileUnits:
    """The queues of a store, sorted as their rows are."""

    def __init__(self, store: StoreDirectory, queues: list[FileQueue]) -> None:
        self._store = store
        self._queues = sorted(
            queues, key=lambda queue: (len(queue.topic.encode()), queue.topic, queue.queue_id)
        )
        self._at = -1

    def seek(self, position: int) -> None:
        """Go on with the messages at or behind a log position. Raises ``OSError``."""
        if self._at == position:
            return
        for queue in self._queues:
            files = self._store.queue(queue.topic, queue.queue_id)
            queue.next = files.first_from(position, queue.end)
            _note_position(queue, files)
            files.close()
        self._at = position

    def write(
        self,
        begin: int,
        end: int,
        log: LogMap,
        table: SortedTable,
        progress: Callable[[int], None],
    ) -> Newest:
        """Write the rows of a window to a table; where each queue is then.

        ``progress`` is told how many bytes of the window are done.

        Raises ``UnitsDamaged``, and ``OSError``.
        """
        self.seek(begin)
        self._at = -1  # until all is done
        total, last_end = 0, begin
        newest: Newest = {}
        for queue in self._queues:
            if not begin <= queue.position < end:
                continue
            files = self._store.queue(queue.topic, queue.queue_id)
            is_light = queue.topic.startswith(LMQ_PREFIX)
            data = queue.topic.encode()
            keys = QueueKeys(data, queue.queue_id)
            for first, units in _runs(queue, files, end):
                table.put(
                    keys,
                    first,
                    make_values(
                        units,
                        log,
                        queue_id=queue.queue_id,
                        first_offset=first,
                        is_light=is_light,
                    ),
                )
                last = units[-UNIT_BYTES:]
                position = int.from_bytes(last[:8], "big")
                newest[data, queue.queue_id] = position, first + len(units) // UNIT_BYTES - 1
                last_end = max(last_end, position + int.from_bytes(last[8:12], "big"))
                if not is_light:
                    total += sizes_sum(units)
                progress(total)
            _note_position(queue, files)
            files.close()
        if total != last_end - begin or (
            last_end != end and not blank_at(self._store.log, last_end)
        ):
            raise UnitsDamaged("some records have no units")
        self._at = end
        return newest


def _note_position(queue: FileQueue, files: QueueFiles) -> None:
    queue.position = -1
    for offset, unit in files.units(queue.next, queue.end):
        if unit.size_bytes != BLANK_SIZE:
            queue.next, queue.position = offset, unit.log_position
            return


def _runs(queue: FileQueue, files: QueueFiles, end: int) -> Iterator[tuple[int, bytes]]:
    """First offset and units of each run before a log position, from where the queue is."""
    while queue.next < queue.end:
        room = LOW_COUNT - queue.next % LOW_COUNT
        units = files.read(queue.next, min(RUN_UNITS_MAX, room, queue.end - queue.next))
        if not units:
            raise UnitsDamaged("a file is missing or too short")
        first, count = queue.next, len(units) // UNIT_BYTES
        if has_blanks(units):
            yield from _runs_between_blanks(queue, units, end)
            if queue.next < first + count:
                return
            continue
        if _position(units, count - 1) < end:
            queue.next += count
            yield first, units
            continue
        low, high = 0, count - 1
        while low < high:
            middle = (low + high) // 2
            if _position(units, middle) >= end:
                high = middle
            else:
                low = middle + 1
        if low:
            queue.next += low
            yield first, units[: low * UNIT_BYTES]
        return


def _position(units: bytes, number: int) -> int:
    position: int = UNIT_POSITION.unpack_from(units, number * UNIT_BYTES)[0]
    return position


def _runs_between_blanks(queue: FileQueue, units: bytes, end: int) -> Iterator[tuple[int, bytes]]:
    begin = queue.next
    start = 0
    for number in range(len(units) // UNIT_BYTES):
        at = number * UNIT_BYTES
        is_blank = int.from_bytes(units[at + 8 : at + 12], "big") == BLANK_SIZE
        if is_blank or _position(units, number) >= end:
            if start < at:
                yield begin + start // UNIT_BYTES, units[start:at]
            if not is_blank:
                queue.next = begin + number
                return
            start = at + UNIT_BYTES
    queue.next = begin + len(units) // UNIT_BYTES
    if start < len(units):
        yield begin + start // UNIT_BYTES, units[start:]
