"""Topics as a stream: Spark's checkpoint holds the offsets, and asks from there to there."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any, final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from lanemq.sdk.admin import AdminClient, queues_of

from .._errors import SourceError
from ._cluster import put_offset, queue_name
from ._offsets import LATEST, Known, Offsets, limited, lost_starts, merged, ranges, resolve, split
from ._plan import Plan
from ._read import READ_ANYWAY, RangePart, RangeReader


@final
class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream of a query.

    Offsets are ``{topic: {queue: offset}}`` in its checkpoint. A queue that comes while it runs is
    read from its first message on; one that is gone keeps its offset.
    """

    def __init__(
        self,
        plan: Plan,
        reader: RangeReader,
        *,
        least: int,
        most: int | None,
        fewest: int | None,
        longest_delay_s: float,
        group: str | None,
    ) -> None:
        self._plan = plan
        self._reader = reader
        self._least = least
        self._most = most
        self._fewest = fewest
        self._longest_delay_s = longest_delay_s
        self._last_batch_s = time.monotonic()
        self._group = group
        self._target: Offsets | None = None
        self._is_checked = False

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        return self._plan.cluster.run(self._start)

    async def _start(self, admin: AdminClient) -> Offsets:
        known = await self._plan.checked(admin)
        start = await self._plan.start(admin, known)
        self._reader.check_offsets(lost_starts(start, known))
        return start

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        return ReadAllAvailable() if self._most is None else ReadMaxRows(self._most)

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802 - pyspark's name
        known = self._known()
        start = self._without_lost(start, known)
        end = resolve(LATEST, known, otherwise=LATEST)
        if self._target is not None:
            end = {
                topic: {
                    queue: min(offset, end.get(topic, {}).get(queue, offset))
                    for queue, offset in queues.items()
                }
                for topic, queues in self._target.items()
            }
        elif self._waits_for_more(start, known, end):
            return start
        if isinstance(limit, ReadMaxRows):
            end = limited(_with_new(start, known), end, limit.max_rows)
        return merged(start, end)

    def _waits_for_more(self, start: Offsets, known: Known, end: Offsets) -> bool:
        """Return whether a batch would be too small, and the last one is not long ago."""
        now_s = time.monotonic()
        if self._fewest is not None and now_s - self._last_batch_s < self._longest_delay_s:
            there = ranges(_with_new(start, known), end)
            if sum(one.end - one.begin for one in there) < self._fewest:
                return True
        self._last_batch_s = now_s
        return False

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take the present ends of the queues as the end of the query."""
        self._target = resolve(LATEST, self._known(), otherwise=LATEST)

    def reportLatestOffset(self) -> Offsets:  # noqa: N802 - Spark's name
        return resolve(LATEST, self._known(), otherwise=LATEST)

    def _known(self) -> Known:
        # A query that continues from its checkpoint asks for no initial offsets.
        look = self._plan.known if self._is_checked else self._plan.checked
        known = self._plan.cluster.run(look)
        self._is_checked = True
        return known

    def _without_lost(self, start: Offsets, known: Known) -> Offsets:
        """Return ``start`` without the queues that end before it: they are new ones.

        Raises ``SourceError`` where a loss is to be an error.
        """
        ends = {
            topic: {queue: known[topic][queue].end for queue in queues if queue in known[topic]}
            for topic, queues in start.items()
            if topic in known
        }
        for topic, queues in ends.items():
            for queue, end in queues.items():
                if end < start[topic][queue] and self._reader.fail_on_data_loss:
                    raise SourceError(
                        f"rocketmq: queue {queue} of {topic} ends at {end}, before the offset"
                        f" {start[topic][queue]} where the query is. Its broker lost messages, or"
                        f" the topic was made again; {READ_ANYWAY}"
                    )
        return _kept(start, ends)

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        start = _kept(start, end)
        if any(queue not in start.get(topic, {}) for topic in end for queue in end[topic]):
            start = _with_new(start, self._known())
        return [RangePart(one) for one in split(ranges(start, end), self._least)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._reader.read_part(partition)

    def commit(self, end: Offsets) -> None:
        """Tell the brokers how far the group ``groupId`` is, for tools that show its lag."""
        if self._group is not None:
            self._plan.cluster.run(partial(_put_offsets, group=self._group, end=end))


def _kept(start: Offsets, end: Offsets) -> Offsets:
    """Return ``start`` without the queues that end before it."""
    return {
        topic: {
            queue: offset
            for queue, offset in queues.items()
            if offset <= end.get(topic, {}).get(queue, offset)
        }
        for topic, queues in start.items()
    }


def _with_new(start: Offsets, known: Known) -> Offsets:
    """Return ``start`` with the first offsets of the queues that it lacks."""
    result = {topic: dict(queues) for topic, queues in start.items()}
    for topic, queues in known.items():
        for queue, bounds in queues.items():
            result.setdefault(topic, {}).setdefault(queue, bounds.first)
    return result


async def _put_offsets(admin: AdminClient, group: str, end: Offsets) -> None:
    for topic, queues in end.items():
        for address, queue in queues_of(await admin.route(topic), topic):
            if queue_name(queue) in queues:
                await put_offset(admin, address, group, queue, queues[queue_name(queue)])
