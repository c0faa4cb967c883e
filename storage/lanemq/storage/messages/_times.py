"""The store times of messages, and the search of a queue by them.

Source: RocketMQ 4.9.8, ConsumeQueue.getOffsetInQueueByTime; 5.3.3 for the boundaries.
"""

from typing import final

from .._layouts import BLANK_SIZE, Unit
from .._search import first_offset
from ..log._commit_log import CommitLog
from ..log._records import HEAD_BYTES_MAX, store_timestamp_ms
from ..queues._queues import Queues
from ._messages import Boundary


@final
class StoreTimes:
    """The store times of the messages in queues."""

    def __init__(self, *, log: CommitLog, queues: Queues) -> None:
        self._log = log
        self._queues = queues

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
            """Return the time of the message there; in a gap that of the next one."""
            found = queue.unit_from(offset)
            return self._unit_time_ms(found[1] if found is not None else None)

        first = first_offset(begin, end, lambda offset: time_at(offset) >= timestamp_ms)
        if boundary is Boundary.LOWER:
            return first
        if boundary is Boundary.UPPER:
            behind = first_offset(first, end, lambda offset: time_at(offset) > timestamp_ms)
            return max(behind - 1, begin)
        if first == end or (
            first > begin
            and time_at(first) != timestamp_ms
            and timestamp_ms - time_at(first - 1) <= time_at(first) - timestamp_ms
        ):
            return first - 1
        return first
