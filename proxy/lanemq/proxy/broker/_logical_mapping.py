"""Which topic has logical queues, and on which message queues they begin (411, 413, 422).

Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor.
"""

import logging
from typing import Final, Protocol, TypeVar

from lanemq.wire import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    DeleteLogicalQueueMapping,
    Frame,
    QueryLogicalQueueMapping,
    RemoteProtocolError,
    RequestCode,
    TopicConfig,
)
from lanemq.wire.logical import UpdateLogicalQueueMapping

from .._dispatch import Handlers, typed
from .._session import Session
from ..logical import (
    DELETED,
    TopicMapping,
    check_deletable,
    map_queue,
    refusal,
    unmap_queue,
)
from ._context import BrokerContext

LOGGER = logging.getLogger("lanemq.proxy.broker.logical")

NO_TOPIC: Final = "topic not exist"

BodyT = TypeVar("BodyT", covariant=True)


class _Body(Protocol[BodyT]):
    def decode(self, data: bytes, /) -> BodyT: ...


def decoded(body: _Body[BodyT], frame: Frame, remark: str = "decode error") -> BodyT:
    """The body of a request. Raises ``Refused`` with ``remark`` for one that cannot be read."""
    try:
        return body.decode(frame.body)
    except RemoteProtocolError as error:
        LOGGER.warning("request %d has a bad body: %s", frame.code, error)
        raise refusal(remark) from None


def existing(broker: BrokerContext, topic: str) -> TopicConfig:
    """The settings of a topic. Raises ``Refused`` (SYSTEM_ERROR)."""
    config = broker.topics.get(topic)
    if config is None:
        raise refusal(NO_TOPIC)
    return config


def require_ordinary(broker: BrokerContext, topic: str) -> None:
    """Topics that the broker itself writes to and reads from have no logical queues."""
    if broker.topics.is_system(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        raise refusal(f"the topic[{topic}] cannot have logical queues")


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """The requests that begin and end logical queues, and the one that shows them."""
    logical = broker.logical

    async def update(frame: Frame, session: Session) -> Frame:
        """Map a message queue to a logical queue; a negative index takes it out."""
        asked = decoded(UpdateLogicalQueueMapping, frame, "decode null")
        topic, queue_id, index = asked.topic, asked.queue_id, asked.logical_index
        config = existing(broker, topic)
        LOGGER.info("%s: message queue %d to logical queue %d", topic, queue_id, index)
        if index >= 0:
            return await set_up(frame, config, queue_id, index)
        mapping = logical.get(topic)
        latest = mapping and mapping.latest(queue_id)
        if latest is not None:
            name = "unmap", queue_id
            async with logical.operation(topic, latest.logical_index, name):
                await logical.change(
                    topic, lambda mapping: unmapped(mapping, queue_id, forced=bool(asked.force))
                )
        await broker.announced()
        return frame.reply(remark=DELETED)

    async def set_up(frame: Frame, config: TopicConfig, queue_id: int, index: int) -> Frame:
        topic, remark = config.topic_name, ""
        require_ordinary(broker, topic)
        queues = max(config.read_queue_nums, config.write_queue_nums)
        if not 0 <= queue_id < queues:
            raise refusal(f"message queue {queue_id} is none of the {queues} of the topic")

        def change(mapping: TopicMapping) -> TopicMapping:
            nonlocal remark
            changed, remark = map_queue(mapping, queue_id, index, address=logical.address)
            return changed

        async with logical.operation(topic, index, ("map", queue_id)):
            await logical.change(topic, change)
        await broker.announced()
        return frame.reply(remark=remark)

    def unmapped(mapping: TopicMapping, queue_id: int, *, forced: bool) -> TopicMapping:
        end_offset = logical.end_offset(mapping.topic, queue_id)
        return unmap_queue(mapping, queue_id, end_offset=end_offset, forced=forced)

    def query(header: QueryLogicalQueueMapping, frame: Frame, session: Session) -> Frame:
        """Answer all that is known of a topic; ``null`` where it has no logical queues."""
        queues = logical.queues(header.topic)
        return frame.reply(body=b"null" if queues is None else queues.encode())

    async def delete(header: DeleteLogicalQueueMapping, frame: Frame, session: Session) -> Frame:
        mapping = logical.get(header.topic)
        if mapping is None:
            return frame.reply(remark="already deleted")
        check_deletable(mapping)
        LOGGER.info("%s has no logical queues any more", header.topic)
        await logical.forget(header.topic)
        await broker.announced()
        return frame.reply(remark=DELETED)

    handlers.add(RequestCode.UPDATE_TOPIC_LOGICAL_QUEUE_MAPPING, update)
    handlers.add(
        RequestCode.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING, typed(QueryLogicalQueueMapping, query)
    )
    handlers.add(
        RequestCode.DELETE_TOPIC_LOGICAL_QUEUE_MAPPING, typed(DeleteLogicalQueueMapping, delete)
    )
