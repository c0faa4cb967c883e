"""Requests that map message queues to logical queues, and show the mapping (411, 413, 422).

Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor.
"""

from collections.abc import Awaitable
from typing import final

from lanemq.local import get_logger
from lanemq.wire import RequestCode
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.frame import Frame
from lanemq.wire.headers import DeleteLogicalQueueMapping, QueryLogicalQueueMapping
from lanemq.wire.logical import LogicalQueues, SegmentState, UpdateLogicalQueueMapping

from ....logical.rules._map_changes import DELETED, check_deletable, map_queue, unmap_queue
from ....logical.rules._mapping import TopicMapping
from ....logical.rules._refusals import refusal
from ....net._dispatch import Handlers, typed
from ....net._session import Session
from ....net._turns import LONG_PARTS, make_beside
from ...context._context import BrokerContext
from ._requests import decoded, existing, require_no_partitions, require_ordinary
from ._seal import SealingRequests, Seals

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)


@final
class MappingRequests(SealingRequests):
    """The requests that begin and end logical queues, and the one that shows them."""

    async def update(self, frame: Frame, session: Session) -> Frame:
        """Map a message queue to a logical queue; a negative index takes it out."""
        asked = decoded(UpdateLogicalQueueMapping, frame, "decode null")
        topic, queue_id, index = asked.topic, asked.queue_id, asked.logical_index
        config = existing(self._topics, topic)
        LOGGER.info("%s: message queue %d to logical queue %d", topic, queue_id, index)
        if index >= 0:
            remark = await self._map(config, queue_id, index)
        else:
            await self._unmap(topic, queue_id, forced=bool(asked.force))
            remark = DELETED
        await self._announced()
        return frame.reply(remark=remark)

    async def _map(self, config: TopicConfig, queue_id: int, index: int) -> str:
        """Map a message queue; return a remark for the operator, if any."""
        topic, remark = config.topic_name, ""
        require_ordinary(self._topics, topic)
        queues = config.queue_count
        if not 0 <= queue_id < queues:
            raise refusal(f"message queue {queue_id} is not one of the {queues} of the topic")

        def change(mapping: TopicMapping) -> TopicMapping:
            nonlocal remark
            changed, remark = map_queue(mapping, queue_id, index, address=self._logical.address)
            return changed

        async with self._logical.operation(topic, index, ("map", queue_id)):
            await self._logical.change(topic, change)
        return remark

    async def _unmap(self, topic: str, queue_id: int, *, forced: bool) -> None:
        logical = self._logical
        mapping = logical.get(topic)
        latest = mapping and mapping.latest(queue_id)
        if latest is None:
            return
        if latest.state is not SegmentState.WRITE_ONLY:
            require_no_partitions(topic)

        def change(mapping: TopicMapping) -> TopicMapping:
            end_offset = logical.end_offset(mapping.topic, queue_id)
            return unmap_queue(mapping, queue_id, end_offset=end_offset, forced=forced)

        name = "unmap", queue_id
        async with (
            logical.operation(topic, latest.logical_index, name),
            self._seals.sealing(latest),  # whether it is empty is known once nobody writes
        ):
            await logical.change(topic, change)

    def query(
        self, header: QueryLogicalQueueMapping, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        """Answer everything known of a topic; ``null`` where it has no logical queues."""
        queues = self._logical.queues(header.topic)
        if queues is None:
            return frame.reply(body=b"null")
        if queues.count < LONG_PARTS:
            return frame.reply(body=queues.encode())
        return self._query_later(queues, frame, session)

    async def _query_later(self, queues: LogicalQueues, frame: Frame, session: Session) -> Frame:
        return frame.reply(body=await make_beside(session, queues.encode, queues.count))

    async def delete(
        self, header: DeleteLogicalQueueMapping, frame: Frame, session: Session
    ) -> Frame:
        mapping = self._logical.get(header.topic)
        if mapping is None:
            return frame.reply(remark="already deleted")
        check_deletable(mapping)
        LOGGER.info("%s no longer has logical queues", header.topic)
        await self._logical.forget(header.topic)
        await self._announced()
        return frame.reply(remark=DELETED)


def register(handlers: Handlers, broker: BrokerContext, *, seals: Seals) -> None:
    """Register the requests that map, show and unmap (411, 413, 422)."""
    requests = MappingRequests.of(broker, seals)
    handlers.add(RequestCode.UPDATE_TOPIC_LOGICAL_QUEUE_MAPPING, requests.update)
    handlers.add(
        RequestCode.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING,
        typed(QueryLogicalQueueMapping, requests.query),
    )
    handlers.add(
        RequestCode.DELETE_TOPIC_LOGICAL_QUEUE_MAPPING,
        typed(DeleteLogicalQueueMapping, requests.delete),
    )
