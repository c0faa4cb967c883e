"""Units as the log says they have to be, against those that a queue has."""

from collections.abc import Iterator
from typing import Final, Protocol, final

from lanemq.wire import LMQ_PREFIX, Property, SystemTopic, get_property

from .._consume_queue import iter_units, pack_unit, unpack_unit
from .._layouts import BLANK_SIZE, UNIT_BYTES
from .._records import Record
from ._queue_files import QueueFiles
from ._tally import QueueSpan

EXT_ADDRESS_MAX: Final = -2147483649
"""A tags code up to this is an address in ``consumequeue_ext`` instead."""
RUN_BYTES: Final = 4096 * UNIT_BYTES
MULTI_DISPATCH: Final = Property.INNER_MULTI_DISPATCH.encode()
MULTI_OFFSETS: Final = Property.INNER_MULTI_QUEUE_OFFSET.encode()


class Rows(Protocol):
    """The queues in a RocksDB, as far as checking them goes."""

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int] | None:
        """Offset of a queue's first row, and behind its last; None without rows."""

    def values(
        self, topic: str, queue_id: int, offset: int, count: int
    ) -> Iterator[tuple[int, bytes]]:
        """Offsets and values of the rows from ``offset`` on, for ``count`` offsets at most."""

    def pack(self, log_position: int, size_bytes: int, tags_code: int, store_ms: int) -> bytes:
        """The value that a message's row has to have."""


@final
class QueueCheck:
    """The units of one queue, given one after another as the records come, compared in runs."""

    def __init__(
        self, topic: str, queue_id: int, first: int, files: QueueFiles | None, rows: Rows | None
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.next = first
        self.span = QueueSpan(first, first)
        self._files = files
        self._rows = rows
        self._start = first
        self._units = bytearray()
        self._values: list[bytes] = []

    def add(self, record: Record, offset: int, code: int) -> None:
        """The unit of the record has to be at ``offset``."""
        if offset != self.next:
            self._jump(record, offset)
        self._units += pack_unit(record.position, record.size_bytes, code)
        if self._rows is not None:
            self._values.append(
                self._rows.pack(record.position, record.size_bytes, code, record.store_timestamp_ms)
            )
        self.next = offset + 1
        if len(self._units) >= RUN_BYTES:
            self.flush()

    def _jump(self, record: Record, offset: int) -> None:
        self.flush()
        span = self.span
        if offset > self.next:
            span.gaps.add(self.next, record.position, count=offset - self.next)
        else:
            # The topic was deleted and made again: its older messages are not reachable.
            self.span = QueueSpan(offset, offset, restarts=span.restarts)
            self.span.restarts.add(offset, record.position)
        self._start = self.next = offset

    def flush(self) -> None:
        """Compare what was added since the last time."""
        units = bytes(self._units)
        if not units:
            return
        self._units.clear()
        count = len(units) // UNIT_BYTES
        span = self.span
        span.records += count
        span.next = self._start + count
        span.last_position = unpack_unit(units, len(units) - UNIT_BYTES)[0]
        if self._files is not None:
            if self._files.read(self._start, count) == units:
                span.files.same += count
            else:
                self._differ_from_files(units)
        if self._rows is not None:
            self._compare_rows(self._rows, units)
            self._values.clear()
        self._start += count

    def _differ_from_files(self, units: bytes) -> None:
        files, check = self._files, self.span.files
        assert files is not None
        begin = end = 0
        if len(files.pieces):
            begin, end = files.begin, files.written_end()
        data = files.read(self._start, len(units) // UNIT_BYTES)
        for number, wanted in enumerate(iter_units(units)):
            offset, position = self._start + number, wanted[0]
            at = number * UNIT_BYTES
            if offset < begin or not end:
                (check.before if end else check.behind).add(offset, position)
            elif offset >= end:
                check.behind.add(offset, position)
            elif at >= len(data):
                check.missing.add(offset, position, "its file is gone")
            else:
                found = unpack_unit(data, at)
                if found == wanted or self._is_as_good(found, wanted):
                    check.same += 1
                elif found[1] == BLANK_SIZE or not any(found):
                    check.missing.add(offset, position)
                else:
                    check.wrong.add(offset, position, _difference(found, wanted))

    def _is_as_good(self, found: tuple[int, int, int], wanted: tuple[int, int, int]) -> bool:
        """Whether only the tags code differs, and that for a reason.

        It is a time of delivery where the broker's delay levels decide, or the address of a unit
        with more about the message.
        """
        return found[:2] == wanted[:2] and (
            self.topic == SystemTopic.SCHEDULE or found[2] <= EXT_ADDRESS_MAX
        )

    def _compare_rows(self, rows: Rows, units: bytes) -> None:
        check, wanted = self.span.rows, self._values
        start, end = self._start, self._start + len(wanted)
        try:
            found = list(rows.values(self.topic, self.queue_id, start, len(wanted)))
        except OSError as error:
            position = unpack_unit(units, 0)[0]
            check.wrong.add(start, position, f"cannot be read: {error.strerror}", len(wanted))
            return
        if len(found) == len(wanted) and [value for _, value in found] == wanted:
            check.same += len(wanted)
            return
        by_offset = dict(found)
        bounds = rows.bounds(self.topic, self.queue_id)
        first, last = bounds if bounds is not None else (end, start)
        for number, fields in enumerate(iter_units(units)):
            offset, position = start + number, fields[0]
            value = by_offset.get(offset)
            if value is None:
                if offset >= last:
                    check.behind.add(offset, position)
                elif offset < first:
                    check.before.add(offset, position)
                else:
                    check.missing.add(offset, position)
            elif value == wanted[number]:
                check.same += 1
            else:
                row = unpack_unit(value, 0)
                if (
                    self._is_as_good(row, fields)
                    and value[UNIT_BYTES:] == wanted[number][UNIT_BYTES:]
                ):
                    check.same += 1
                else:
                    check.wrong.add(offset, position, _difference(row, fields))

    def close(self) -> QueueSpan:
        """Compare the rest; returns what was found."""
        self.flush()
        if self._files is not None:
            self._files.close()
        return self.span


def _difference(found: tuple[int, int, int], wanted: tuple[int, int, int]) -> str:
    if found[0] != wanted[0]:
        return f"it leads to position {found[0]}"
    if found[1] != wanted[1]:
        return f"it says {found[1]} bytes, the record has {wanted[1]}"
    if found[2] != wanted[2]:
        return f"its tags code is {found[2]}, that of the tags {wanted[2]}"
    return "its store time is not the record's"


def dispatched_queues(properties: bytes) -> Iterator[tuple[str, int]]:
    """Light message queues that have a unit of a record too, with its offset there.

    Source: RocketMQ 5.3.3, MultiDispatchUtils; queue id 0 in each.
    """
    if MULTI_DISPATCH not in properties:
        return
    names = (get_property(properties, MULTI_DISPATCH) or b"").decode("utf-8", "replace")
    offsets = (get_property(properties, MULTI_OFFSETS) or b"").decode("utf-8", "replace")
    for name, offset in zip(names.split(","), offsets.split(","), strict=False):
        if name.startswith(LMQ_PREFIX) and offset.isascii() and offset.isdigit():
            yield name, int(offset)
