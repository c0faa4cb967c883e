"""Units of all queue files, window by window of the log.

A window is a part of one log file. Every record of it has a unit in its queue, so that the sizes
of the units of a window add up to the window: where they do not, or where a unit does not fit
its record, the log has to be read itself.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol, final

from lanemq.wire import LMQ_PREFIX

from ..._layouts import BLANK_SIZE, UNIT_BYTES
from ...log._records import is_blank
from ...queues.rocks._row_format import QueueKeys
from ...tools.reading._pieces import Pieces
from ...tools.reading._units import Units
from ...tools.rebuild._losses import OpenUnits
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

Newest = dict[tuple[bytes, int], tuple[int, int]]
"""Topic and queue id -> log position and offset of the newest message."""


class Share(NamedTuple):
    """Units of one queue, by the offsets of the first and behind the last."""

    topic: str
    queue_id: int
    begin: int
    end: int


@final
@dataclass(slots=True)
class Written:
    """The rows that were written of a window."""

    newest: Newest = field(default_factory=dict)
    sizes_sum: int = 0
    """Bytes of the log that their records take."""
    last_end: int = -1
    """Position behind the last of these records; -1 without any."""

    def add(self, following: "Written") -> None:
        """Add rows whose keys come after those so far."""
        self.newest |= following.newest
        self.sizes_sum += following.sizes_sum
        self.last_end = max(self.last_end, following.last_end)


class Table(Protocol):
    """A receiver of rows whose offsets follow each other."""

    def put(self, keys: QueueKeys, first_offset: int, values: bytes) -> None: ...


@final
class FileQueue:
    """The progress of a conversion in one queue. Offsets count messages, positions log bytes."""

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

    def __init__(self, log: Pieces, open_units: OpenUnits, queues: list[FileQueue]) -> None:
        self._log = log
        self._open_units = open_units
        self._queues = sorted(
            queues, key=lambda queue: (len(queue.topic.encode()), queue.topic, queue.queue_id)
        )
        self._at = -1

    def seek(self, position: int) -> None:
        """Move to the messages at or behind a log position. Raises ``OSError``."""
        if self._at == position:
            return
        for queue in self._queues:
            files = self._open_units(queue.topic, queue.queue_id)
            queue.next = files.first_from(position, queue.end)
            _note_position(queue, files)
            files.close()
        self._at = position

    def write(
        self,
        begin: int,
        end: int,
        log: LogMap,
        table: Table,
        progress: Callable[[int], None],
    ) -> Newest:
        """Write the rows of a window to a table; returns the newest message of each queue.

        ``progress`` is told how many bytes of the window are done.

        Raises ``UnitsDamaged``, and ``OSError``.
        """
        self.seek(begin)
        self._at = -1  # until all is done
        written = Written()
        for queue in self._queues:
            if begin <= queue.position < end:
                files = self._open_units(queue.topic, queue.queue_id)
                _write_queue(queue, files, end, log, table, written, progress)
                _note_position(queue, files)
                files.close()
        self._check(begin, end, written)
        self._at = end
        return written.newest

    def shares(self, begin: int, end: int) -> Iterator[Share]:
        """Move to a window, and iterate over the units that queues have in it, in the order of
        their rows. Raises ``OSError``."""
        self.seek(begin)
        for queue in self._queues:
            if begin <= queue.position < end:
                files = self._open_units(queue.topic, queue.queue_id)
                stop = max(queue.next, files.first_from(end, queue.end))
                files.close()
                yield Share(queue.topic, queue.queue_id, queue.next, stop)

    def pass_over(self, begin: int, end: int, shares: Iterable[Share], written: Written) -> None:
        """Go on behind a window whose ``shares`` were written elsewhere.

        Raises ``UnitsDamaged`` where they are not all of it, and ``OSError``.
        """
        self._check(begin, end, written)
        stops = {(share.topic, share.queue_id): share.end for share in shares}
        self._at = -1  # until all is done
        for queue in self._queues:
            stop = stops.get((queue.topic, queue.queue_id))
            if stop is not None:
                queue.next = stop
                files = self._open_units(queue.topic, queue.queue_id)
                _note_position(queue, files)
                files.close()
        self._at = end

    def _check(self, begin: int, end: int, written: Written) -> None:
        last_end = max(begin, written.last_end)
        if written.sizes_sum != last_end - begin or (
            last_end != end and not is_blank(self._log, last_end)
        ):
            raise UnitsDamaged("some records have no units")


def write_shares(
    shares: Iterable[Share], open_units: OpenUnits, end: int, log: LogMap, table: Table
) -> Written:
    """Write the rows of shares of a window that ends at a position.

    Raises ``UnitsDamaged``, and ``OSError``.
    """
    written = Written()
    for share in shares:
        queue = FileQueue(share.topic, share.queue_id, share.end)
        queue.next = share.begin
        files = open_units(share.topic, share.queue_id)
        _write_queue(queue, files, end, log, table, written, lambda _: None)
        files.close()
    return written


def _write_queue(
    queue: FileQueue,
    files: Units,
    end: int,
    log: LogMap,
    table: Table,
    written: Written,
    progress: Callable[[int], None],
) -> None:
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
        offset = first + len(units) // UNIT_BYTES - 1
        written.newest[data, queue.queue_id] = position, offset
        written.last_end = max(written.last_end, position + int.from_bytes(last[8:12], "big"))
        if not is_light:
            written.sizes_sum += sizes_sum(units)
        progress(written.sizes_sum)


def _note_position(queue: FileQueue, files: Units) -> None:
    queue.position = -1
    for offset, unit in files.units(queue.next, queue.end):
        if unit.size_bytes != BLANK_SIZE:
            queue.next, queue.position = offset, unit.log_position
            return


def _runs(queue: FileQueue, files: Units, end: int) -> Iterator[tuple[int, bytes]]:
    """Iterate over the runs before a log position, each as first offset and units."""
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
        before = bisect_left(range(count - 1), end, key=partial(_position, units))
        if before:
            queue.next += before
            yield first, units[: before * UNIT_BYTES]
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
