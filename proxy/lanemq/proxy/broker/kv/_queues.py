"""The logical queues that are the logs of partitions, and are made with them."""

from collections.abc import Awaitable, Callable
from typing import Final, final

from attrs import define

from lanemq.storage import KvStates
from lanemq.storage.kv import KvMeta
from lanemq.wire import Permission, Refused, ResponseCode
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.headers import KvWrite
from lanemq.wire.kv import kv_topic, partition_name
from lanemq.wire.logical import Segment, SegmentState

from ...logical.rules._map_changes import map_queue
from ...logical.rules._mapping import TopicMapping
from ..logical.state._state import LogicalState
from ..logical.state._view import LogicalView
from ..state._topics import Topics

FIRST_QUEUE: Final = 0


@final
@define(eq=False, kw_only=True, repr=False)
class PartitionQueues:
    """Makes the queues of new partitions."""

    _announced: Callable[[], Awaitable[None]]
    _logical: LogicalState
    _states: KvStates
    _topics: Topics
    _view: LogicalView

    async def make(self, header: KvWrite) -> None:
        """Make a partition, empty, with a queue that is the beginning of its log.

        Whatever interrupts it, the same again finishes it. Raises ``OSError``, ``StoreError`` and
        ``Refused``.
        """
        topic, partition = kv_topic(header.namespace), header.partition
        name = partition_name(header.namespace, partition)
        async with self._logical.operation(topic, partition, ("make", partition)):
            segment = await self._mapped(topic, partition)
            await self._states.make(
                name,
                KvMeta(
                    partition=partition,
                    partitions=header.partitions,
                    queue_id=segment.queue_id,
                    shift=-segment.offset_delta,
                ),
            )
        await self._announced()

    async def map_first(self, topic: str) -> None:
        """Map the log of a namespace that is older than partitions to a logical queue.

        Raises ``Refused``.
        """
        async with self._logical.operation(topic, 0, ("make", 0)):
            await self._mapped(topic, 0)

    async def _mapped(self, topic: str, partition: int) -> Segment:
        """Return the open segment that is the beginning of a partition's log."""
        segment = self._begun(topic, partition)
        if segment is not None:
            return segment
        end, last, is_open = await self._view.known_end(topic, partition)
        if end or last or is_open:
            remark = f"name servers list partition {partition} of {topic} at another broker"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        mapping = self._logical.get(topic)
        config = self._topics.get(topic)
        if mapping is None and config is not None:
            queue_id, new = FIRST_QUEUE, config
        else:
            queue_id = 0 if config is None else config.queue_count
            self._topics.check_queues(queue_id + 1)
            new = TopicConfig(topic, queue_id + 1, queue_id + 1, Permission.READ)

        def change(mapping: TopicMapping) -> TopicMapping:
            return map_queue(mapping, queue_id, partition, address=self._logical.address)[0]

        await self._logical.change(topic, change, config=lambda: new)
        segment = self._begun(topic, partition)
        assert segment is not None, "it was mapped"
        return segment

    def _begun(self, topic: str, partition: int) -> Segment | None:
        """Return the open segment of a partition that never was anywhere else.

        Raises ``Refused`` for a partition that is there already.
        """
        mapping = self._logical.get(topic)
        chain = mapping.chain(partition) if mapping is not None else ()
        for segment in chain:
            is_first = segment.state is SegmentState.NORMAL and not segment.delta
            if is_first and mapping is not None and mapping.is_own(segment):
                return segment
        if len(chain):
            remark = f"partition {partition} of {topic} is there already; try again in a moment"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        return None
