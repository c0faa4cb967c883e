"""The read path: from a place in a queue to records.

Source: RocketMQ 4.9.8, DefaultMessageStore.getMessage and ConsumeQueue.getOffsetInQueueByTime;
5.3.3 for the boundaries of a search by time.
"""

from collections.abc import Callable
from typing import Final, TypeAlias, final

from ._commit_log import CommitLog
from ._consume_queue import Unit, iter_units
from ._index import Index, keys_of
from ._layouts import BLANK_SIZE
from ._messages import Boundary, GetStatus, Got, QueryResult
from ._queues import ConsumeQueue, Queues
from ._records import HEAD_BYTES_MAX, Record, check_record, store_timestamp_ms
from ._statistics import Counters

Matches: TypeAlias = Callable[[bytes], bool]
"""Judges a whole record."""

SCAN_UNITS: Final = 800
WARM_COUNT_MAX: Final = 32
WARM_BYTES_MAX: Final = 262_144
COLD_COUNT_MAX: Final = 8
COLD_BYTES_MAX: Final = 65_536
QUERY_COUNT_MAX: Final = 64


@final
class Reader:
    """Sees what is committed. No method waits, but a cold read may wait for the disk."""

    def __init__(
        self,
        *,
        log: CommitLog,
        queues: Queues,
        index: Index | None,
        counters: Counters,
        cold_bytes: int,
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._counters = counters
        self._cold_bytes = cold_bytes

    def is_cold(self, log_position: int) -> bool:
        return self._log.end - log_position > self._cold_bytes

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None,
        matches: Matches | None,
    ) -> Got:
        got = self._get(topic, queue_id, queue_offset, max_count, max_bytes, tag_codes, matches)
        counters = self._counters
        if got.records:
            counters.get_found += 1
            counters.got_messages += len(got.records)
            counters.got_bytes += sum(map(len, got.records))
        else:
            counters.get_missed += 1
        return got

    def _get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None,
        matches: Matches | None,
    ) -> Got:
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return Got(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [])
        begin, end = queue.min, queue.end
        if end == 0:
            return Got(GetStatus.NO_MESSAGE_IN_QUEUE, 0, begin, end, [])
        if offset < begin:
            return Got(GetStatus.OFFSET_TOO_SMALL, begin, begin, end, [])
        if offset == end:
            return Got(GetStatus.OFFSET_OVERFLOW_ONE, offset, begin, end, [])
        if offset > end:
            return Got(GetStatus.OFFSET_OVERFLOW_BADLY, end, begin, end, [])
        return self._scan(queue, offset, max_count, max_bytes, tag_codes, matches)

    def _scan(
        self,
        queue: ConsumeQueue,
        offset: int,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None,
        matches: Matches | None,
    ) -> Got:
        log = self._log
        cold_below = log.end - self._cold_bytes
        records: list[bytes] = []
        total = scanned = gone_below = 0
        status = GetStatus.NO_MATCHED_MESSAGE
        filtered = tag_codes is not None or matches is not None
        # Some may be gone; and each has its price where they are rows of a database.
        scan = max(SCAN_UNITS, max_count) if filtered else 2 * min(max_count, WARM_COUNT_MAX)
        units = queue.read(offset, max(scan, 1))
        if not units:
            resume_at = queue.resume_at(offset)
            return Got(GetStatus.OFFSET_FOUND_NULL, resume_at, queue.min, queue.end, [])
        for position, size, code in iter_units(units):
            if records:
                count_max, bytes_max = WARM_COUNT_MAX, WARM_BYTES_MAX
                if position < cold_below:
                    count_max, bytes_max = COLD_COUNT_MAX, COLD_BYTES_MAX
                if (
                    len(records) >= max_count
                    or len(records) >= count_max
                    or total + size > bytes_max
                    or total + size > max_bytes
                ):
                    break
            scanned += 1
            if position < gone_below:
                continue
            if tag_codes is not None and code not in tag_codes:
                continue
            record = log.read(position, size) if size != BLANK_SIZE else None
            if record is None:
                if not records:
                    status = GetStatus.MESSAGE_WAS_REMOVING
                gone_below = log.segments.begin  # nothing before the log's begin is worth a try
                continue
            if matches is not None and not matches(record):
                if not records:
                    status = GetStatus.NO_MATCHED_MESSAGE
                continue
            records.append(record)
            total += size
        if records:
            status = GetStatus.FOUND
        return Got(status, offset + scanned, queue.min, queue.end, records)

    def units(self, topic: str, queue_id: int, start: int, count: int) -> list[Unit]:
        queue = self._queues.find(topic, queue_id)
        if queue is None or start < queue.min:
            return []
        data = queue.read(start, count)
        return [Unit(*fields) for fields in iter_units(data)]

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        queue = self._queues.find(topic, queue_id)
        return (queue.min, queue.end) if queue is not None else (0, 0)

    # By time

    def store_time_ms(self, topic: str, queue_id: int, queue_offset: int) -> int:
        queue = self._queues.find(topic, queue_id)
        if queue is None or not queue.min <= queue_offset < queue.end:
            return -1
        return self._unit_time_ms(queue.unit(queue_offset))

    def _unit_time_ms(self, unit: Unit | None) -> int:
        if unit is None or unit.size_bytes == BLANK_SIZE:
            return -1
        head = self._log.read(unit.log_position, min(unit.size_bytes, HEAD_BYTES_MAX))
        return store_timestamp_ms(head) if head is not None else -1

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary
    ) -> int:
        queue = self._queues.find(topic, queue_id)
        if queue is None or queue.min >= queue.end:
            return 0 if queue is None else queue.end
        begin, end = queue.min, queue.end

        def time_at(offset: int) -> int:
            return self._unit_time_ms(queue.unit(offset))

        first = _first(begin, end, lambda offset: time_at(offset) >= timestamp_ms)
        if boundary is Boundary.LOWER:
            return first
        if boundary is Boundary.UPPER:
            behind = _first(first, end, lambda offset: time_at(offset) > timestamp_ms)
            return max(behind - 1, begin)
        if first == end or (
            first > begin
            and time_at(first) != timestamp_ms
            and timestamp_ms - time_at(first - 1) <= time_at(first) - timestamp_ms
        ):
            return first - 1
        return first

    # By position and by key

    def record_at(self, log_position: int) -> bytes | None:
        if not max(self._log.min_position, 0) <= log_position < self._log.end:
            return None
        head = self._log.read(log_position, 4)
        if head is None:
            return None
        size = int.from_bytes(head, "big", signed=True)
        record = self._log.read(log_position, size)
        if record is None:
            return None
        found = check_record(record, 0, log_position, size, check_crc=False)
        return record if isinstance(found, Record) else None

    def query(
        self, topic: str, key: str, *, max_count: int, begin_ms: int, end_ms: int
    ) -> QueryResult:
        records: list[bytes] = []
        if self._index is None:
            return QueryResult(records, 0, 0)
        limit = min(max_count, QUERY_COUNT_MAX)
        for position in self._index.positions(topic, key, begin_ms, end_ms):
            if len(records) >= limit:
                break
            record = self.record_at(position)
            if record is not None and _has_key(record, position, topic, key, begin_ms, end_ms):
                records.append(record)
        return QueryResult(records, *self._index.newest)


def _has_key(data: bytes, position: int, topic: str, key: str, begin_ms: int, end_ms: int) -> bool:
    record = check_record(data, 0, position, len(data), check_crc=False)
    assert isinstance(record, Record)
    return (
        record.topic == topic
        and begin_ms <= record.store_timestamp_ms <= end_ms
        and key in keys_of(record.properties)
    )


def _first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first offset from ``low`` on for which it holds; ``high`` if there is none."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
