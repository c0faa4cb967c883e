"""The comparison of RocksDB with the queue files, from whatever the two are read.

Offsets count messages of a queue, positions bytes of the log, times are Unix time in
milliseconds. Source: RocketMQ 5.3.3, AdminBrokerProcessor.doCheckRocksdbCqWriteProgress.
Deviations: units that stand for messages that are gone are not compared, for they have no rows;
the time to check from is looked up in the files, lest a hole in the rows hides itself; and what
is missing before the first row is told as well.
"""

from collections.abc import Callable, Generator
from typing import Final, Protocol

from ..._layouts import BLANK_SIZE, UNIT_BYTES, unpack_unit
from ..._search import first_offset
from ...derive._compare import as_good_units, same_units
from ._diff_report import Difference, PlacedUnit, QueueDiff

CHUNK_UNITS: Final = 4096


class UnitsView(Protocol):
    """One queue in RocksDB or in files."""

    @property
    def min(self) -> int:
        """Offset of the first message that the log still has; ``end`` without any."""

    @property
    def end(self) -> int:
        """Offset behind the last message."""

    def read(self, offset: int, count: int) -> bytes | bytearray:
        """Return up to ``count`` units of 20 bytes from an offset on, to the first that is
        missing."""


StoreTime = Callable[[int], int]
"""Log position of a message -> its store time; -1 where it is gone from the log."""


def at_once(steps: Generator[int, None, QueueDiff]) -> QueueDiff:
    """Take all steps of a comparison; returns its result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: QueueDiff = stop.value
            return result


def diff_queue(
    topic: str,
    queue_id: int,
    *,
    files: UnitsView,
    rows: UnitsView,
    store_time_ms: StoreTime,
    check_from_ms: int = 0,
    committed: int | None = None,
) -> Generator[int, None, QueueDiff]:
    """Compare a queue in steps, yielding the units of each, so that a broker can work in between.

    Messages stored before ``check_from_ms`` do not keep a queue from being ready, nor does a
    queue whose newest is older. ``committed`` is the smallest offset that a group of consumers
    has committed. Messages put meanwhile are not looked at. Raises ``OSError``.
    """
    files_min, files_end = files.min, files.end
    rows_min, rows_end = rows.min, rows.end
    begin = max(rows_min, files_min) if rows_min < rows_end else files_min
    checked_from = max(begin, _offset_at(files, check_from_ms, store_time_ms, files_end))
    # The two loops are one comparison, but for what the reference does not look at.
    difference = yield from _first_difference(files, rows, checked_from, files_end)
    older = None
    if difference is None:
        older = yield from _first_difference(files, rows, begin, min(checked_from, files_end))
    first = _first_real(files, files_min, files_end)
    return QueueDiff(
        topic=topic,
        queue_id=queue_id,
        files_min=files_min,
        files_end=files_end,
        rows_min=rows_min,
        rows_end=rows_end,
        files_first=first,
        files_last=_unit(files, files_end - 1) if files_min < files_end else None,
        rows_first=_unit(rows, rows_min) if rows_min < rows_end else None,
        rows_last=_unit(rows, rows_end - 1) if rows_min < rows_end else None,
        checked_from=checked_from,
        difference=difference,
        older_difference=older,
        kv_starts_at=(
            rows_min if first is not None and first.queue_offset < rows_min < rows_end else None
        ),
        committed=committed,
    )


def _unit(view: UnitsView, offset: int) -> PlacedUnit | None:
    data = view.read(offset, 1)
    return PlacedUnit(offset, *unpack_unit(data, 0)) if data else None


def _first_real(files: UnitsView, begin: int, end: int) -> PlacedUnit | None:
    offset = begin
    while offset < end:
        data = files.read(offset, min(CHUNK_UNITS, end - offset))
        if not data:
            return None
        blanks = _blanks(data, 0)
        if blanks * UNIT_BYTES < len(data):
            return PlacedUnit(offset + blanks, *unpack_unit(data, blanks * UNIT_BYTES))
        offset += blanks
    return None


def _blanks(data: bytes | bytearray, number: int) -> int:
    """Count the units from a number on that stand for messages that are gone."""
    count, total = 0, len(data) // UNIT_BYTES
    while number + count < total:
        if unpack_unit(data, (number + count) * UNIT_BYTES)[1] != BLANK_SIZE:
            break
        count += 1
    return count


def _offset_at(files: UnitsView, time_ms: int, store_time_ms: StoreTime, end: int) -> int:
    """Return the offset of the first message stored at or after a time; ``end`` without any."""

    def is_late_enough(offset: int) -> bool:
        unit = _unit(files, offset)
        return (
            unit is not None
            and unit.size_bytes != BLANK_SIZE
            and store_time_ms(unit.log_position) >= time_ms
        )

    return files.min if time_ms <= 0 else first_offset(files.min, end, is_late_enough)


def _first_difference(
    files: UnitsView, rows: UnitsView, begin: int, end: int
) -> Generator[int, None, Difference | None]:
    at = begin
    while at < end:
        count = min(CHUNK_UNITS, end - at)
        from_files, from_rows = files.read(at, count), rows.read(at, count)
        same = same_units(from_files, from_rows)
        if same < count:
            same = as_good_units(from_rows, from_files)
            if same == count:
                at += same
                yield same
                continue
            blanks = _blanks(from_files, same)
            if not blanks:
                return Difference(
                    at + same, _placed(from_files, same, at), _placed(from_rows, same, at)
                )
            same += blanks
        at += same
        yield same
    return None


def _placed(data: bytes | bytearray, number: int, at: int) -> PlacedUnit | None:
    if (number + 1) * UNIT_BYTES > len(data):
        return None
    return PlacedUnit(at + number, *unpack_unit(data, number * UNIT_BYTES))
