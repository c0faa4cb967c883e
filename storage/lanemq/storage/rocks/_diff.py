"""Whether RocksDB has what the queue files have: the comparison, whatever the two are read from.

Offsets count messages of a queue, positions bytes of the log, times are Unix time in
milliseconds. Source: RocketMQ 5.3.3, AdminBrokerProcessor.doCheckRocksdbCqWriteProgress.
Deviations: units that stand for messages that are gone are not compared, for they have no rows;
the time to check from is looked up in the files, lest a hole in the rows hides itself; and what
is missing before the first row is told as well.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, final

from .._consume_queue import unpack_unit
from .._layouts import BLANK_SIZE, UNIT_BYTES

CHUNK_UNITS: Final = 4096


class UnitsView(Protocol):
    """One queue in one of the two."""

    @property
    def min(self) -> int:
        """Offset of the first message that the log still has; ``end`` without any."""

    @property
    def end(self) -> int:
        """Offset behind the last message."""

    def read(self, offset: int, count: int) -> bytes | bytearray:
        """Up to ``count`` units of 20 bytes from an offset on, to the first that is missing."""


StoreTime = Callable[[int], int]
"""Log position of a message -> when it was stored; -1 where the log has it no more."""


class PlacedUnit(NamedTuple):
    """A unit and its slot."""

    queue_offset: int
    log_position: int
    size_bytes: int
    tags_code: int

    def __str__(self) -> str:
        """As the reference prints one."""
        return (
            f"CqUnit{{queueOffset={self.queue_offset}, size={self.size_bytes},"
            f" pos={self.log_position}, batchNum=1, tagsCode={self.tags_code},"
            " compactedOffset=0}"
        )


class Difference(NamedTuple):
    """The first message whose two units are not the same; None for one that is missing."""

    queue_offset: int
    files: PlacedUnit | None
    rows: PlacedUnit | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDiff:
    """What the comparison of one queue found."""

    topic: str
    queue_id: int
    files_min: int
    files_end: int
    rows_min: int
    rows_end: int
    files_first: PlacedUnit | None
    files_last: PlacedUnit | None
    rows_first: PlacedUnit | None
    rows_last: PlacedUnit | None
    checked_from: int
    """Units from here on decide whether the queue is ready; ``files_end`` for an old queue."""
    difference: Difference | None
    """The first from ``checked_from`` on."""
    older_difference: Difference | None
    """The first between ``rows_min`` and ``checked_from``, if there is none behind that."""
    kv_starts_at: int | None
    """Where the rows begin, if the files begin before that; None if nothing is missing there."""
    committed: int | None
    """The smallest offset that a group committed; None where none is known."""

    @property
    def is_ready(self) -> bool:
        """What the reference calls ready: no difference in what was to be checked."""
        return self.difference is None

    @property
    def is_safe_to_switch(self) -> bool:
        """Whether readers who go on where they are would miss nothing in RocksDB."""
        if self.difference is not None or self.older_difference is not None:
            return False
        wanted = max(self.files_min, self.committed if self.committed is not None else 0)
        return self.files_min >= self.files_end or self.rows_min <= wanted

    @property
    def first_missing(self) -> int | None:
        """The first offset that RocksDB lacks or has otherwise, of all that the files have."""
        if self.kv_starts_at is not None:
            return self.files_min
        found = self.older_difference or self.difference
        return found.queue_offset if found is not None else None

    def describe(self) -> str:
        """The lines that the reference prints for a queue, its slip in the last label included."""
        return (
            f"[topic: {self.topic}, queue:  {self.queue_id}] \n"
            f"  kvEarliest : {_text(self.rows_first)} |  kvLatest : {_text(self.rows_last)} \n"
            f" fileEarliest: {_text(self.files_first)} | fileEarliest: {_text(self.files_last)} \n"
        )


def _text(unit: PlacedUnit | None) -> str:
    return str(unit) if unit is not None else "null"


@final
@dataclass(frozen=True, slots=True)
class DiffReport:
    """What the comparison of many queues found."""

    queues: tuple[QueueDiff, ...]

    @property
    def is_ready(self) -> bool:
        return all(queue.is_ready for queue in self.queues)

    @property
    def is_safe_to_switch(self) -> bool:
        return all(queue.is_safe_to_switch for queue in self.queues)

    def describe(self, topics_now: int | None = None) -> str:
        """The line that the reference prints for all topics.

        ``topics_now`` counts topics after the comparison; those compared if not given.
        """
        topics = {queue.topic for queue in self.queues}
        failed = {queue.topic for queue in self.queues if not queue.is_ready}
        now = topics_now if topics_now is not None else len(topics)
        found = (
            f"success/all : {len(topics) - len(failed)}/{len(topics)}"
            if failed
            else f"all topic is ready, checkSize: {len(topics)}"
        )
        return f"check all topic finish, {found}, currentQueueNum: {now}"


def diff_queue(
    topic: str,
    queue_id: int,
    *,
    files: UnitsView,
    rows: UnitsView,
    store_time_ms: StoreTime,
    check_from_ms: int = 0,
    committed: int | None = None,
) -> QueueDiff:
    """Compare a queue at once; see ``diff_queue_stepwise``."""
    steps = diff_queue_stepwise(
        topic,
        queue_id,
        files=files,
        rows=rows,
        store_time_ms=store_time_ms,
        check_from_ms=check_from_ms,
        committed=committed,
    )
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: QueueDiff = stop.value
            return result


def diff_queue_stepwise(
    topic: str,
    queue_id: int,
    *,
    files: UnitsView,
    rows: UnitsView,
    store_time_ms: StoreTime,
    check_from_ms: int = 0,
    committed: int | None = None,
) -> Generator[int, None, QueueDiff]:
    """Compare a queue, yielding how many units the last step took: a broker has more to do.

    Messages stored before ``check_from_ms`` do not keep a queue from being ready, nor does a
    queue whose newest is older. ``committed`` is the smallest offset that a group of consumers
    has committed. What is put meanwhile is not looked at. Raises ``OSError``.
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


def diff_report(queues: Iterable[QueueDiff]) -> DiffReport:
    """All of them, sorted by topic and queue."""
    return DiffReport(tuple(sorted(queues, key=lambda queue: (queue.topic, queue.queue_id))))


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
    """How many units from that number on stand for messages that are gone."""
    count, total = 0, len(data) // UNIT_BYTES
    while number + count < total:
        if unpack_unit(data, (number + count) * UNIT_BYTES)[1] != BLANK_SIZE:
            break
        count += 1
    return count


def _offset_at(files: UnitsView, time_ms: int, store_time_ms: StoreTime, end: int) -> int:
    """Offset of the first message that was stored at or after a time; ``end`` without any."""
    low, high = files.min, end
    if time_ms <= 0:
        return low
    while low < high:
        middle = (low + high) // 2
        unit = _unit(files, middle)
        if (
            unit is not None
            and unit.size_bytes != BLANK_SIZE
            and store_time_ms(unit.log_position) >= time_ms
        ):
            high = middle
        else:
            low = middle + 1
    return low


def _first_difference(
    files: UnitsView, rows: UnitsView, begin: int, end: int
) -> Generator[int, None, Difference | None]:
    at = begin
    while at < end:
        count = min(CHUNK_UNITS, end - at)
        from_files, from_rows = files.read(at, count), rows.read(at, count)
        same = same_units(from_files, from_rows)
        if same < count:
            blanks = _blanks(from_files, same)
            if not blanks:
                return Difference(
                    at + same, _placed(from_files, same, at), _placed(from_rows, same, at)
                )
            same += blanks
        at += same
        yield same
    return None


def same_units(one: bytes | bytearray, other: bytes | bytearray) -> int:
    """How many units at the begin are the same in both."""
    if one == other:
        return len(one) // UNIT_BYTES
    low, high = 0, min(len(one), len(other)) // UNIT_BYTES
    while low < high:  # the longest common prefix, by halves
        middle = (low + high + 1) // 2
        if one[: middle * UNIT_BYTES] == other[: middle * UNIT_BYTES]:
            low = middle
        else:
            high = middle - 1
    return low


def _placed(data: bytes | bytearray, number: int, at: int) -> PlacedUnit | None:
    if (number + 1) * UNIT_BYTES > len(data):
        return None
    return PlacedUnit(at + number, *unpack_unit(data, number * UNIT_BYTES))
