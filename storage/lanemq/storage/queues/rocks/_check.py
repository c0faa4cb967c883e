"""The check that RocksDB has what the queue files of an open store have.

Source: RocketMQ 5.3.3, AdminBrokerProcessor.doCheckRocksdbCqWriteProgress.
"""

from typing import final

import trio

from ...log._commit_log import CommitLog
from ...log._records import HEAD_BYTES_MAX, store_timestamp_ms
from ...tables._offset_tables import OffsetTable
from .._queues import QueueTable
from ..files._consume_queue import FileConsumeQueue
from ._diff import diff_queue
from ._diff_report import DiffReport, QueueDiff, diff_report
from ._writer import RocksIndex


@final
class RocksCheck:
    """A comparison queue by queue, which lets other tasks work in between."""

    def __init__(
        self, *, queues: QueueTable, rocks: RocksIndex, log: CommitLog, offsets: OffsetTable
    ) -> None:
        self._queues = queues
        self._rocks = rocks
        self._log = log
        self._offsets = offsets

    async def run(self, topic: str, check_from_ms: int) -> DiffReport:
        """Compare the queues of a topic, or all where it is empty. Raises ``OSError``.

        History that is still being filled in is missing.
        """
        found: list[QueueDiff] = []
        committed: dict[int, int] = {}
        committed_of = ""
        for name, queue_id in sorted(self._queues.keys()):
            queue = self._queues.find(name, queue_id)
            if queue is None or (topic and name != topic):
                continue
            if name != committed_of:
                committed_of, committed = name, self._committed(name)
            compared = await self._queue(queue, check_from_ms, committed.get(queue_id))
            if self._queues.find(name, queue_id) is queue:  # else it was deleted meanwhile
                found.append(compared)
        return diff_report(found)

    async def _queue(
        self, queue: FileConsumeQueue, check_from_ms: int, committed: int | None
    ) -> QueueDiff:
        from ._rocks_units import RocksUnits

        while self._rocks.write_some():  # dispatched messages must be in both
            pass
        rows = RocksUnits(
            self._rocks.rows, queue.topic, queue.queue_id, log_begin=self._log.segments.begin
        )
        steps = diff_queue(
            queue.topic,
            queue.queue_id,
            files=queue,
            rows=rows,
            store_time_ms=self._store_time_ms,
            check_from_ms=check_from_ms,
            committed=committed,
        )
        while True:
            await trio.lowlevel.checkpoint()
            try:
                next(steps)
            except StopIteration as stop:
                found: QueueDiff = stop.value
                return found

    def _committed(self, topic: str) -> dict[int, int]:
        """Return queue id -> the smallest offset that a group has committed."""
        smallest: dict[int, int] = {}
        for group in self._offsets.groups_of(topic):
            for queue_id, offset in self._offsets.queues(group, topic).items():
                smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
        return smallest

    def _store_time_ms(self, log_position: int) -> int:
        if log_position < self._log.segments.begin:
            return -1
        size = self._log.read(log_position, 4)
        if size is None:
            return -1
        length = min(int.from_bytes(size, "big"), HEAD_BYTES_MAX)
        head = self._log.read(log_position, length)
        return store_timestamp_ms(head) if head is not None else -1
