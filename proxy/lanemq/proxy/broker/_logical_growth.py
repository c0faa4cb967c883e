"""A further message queue for a logical queue (415 takes one there is, 416 makes one).

Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor.
"""

import logging
from dataclasses import replace

from lanemq.storage import StoreUnwritable
from lanemq.wire import Frame, RequestCode, TopicConfig
from lanemq.wire.logical import (
    CreateQueueForLogicalQueue,
    ReuseLogicalQueue,
    Segment,
    SegmentState,
)

from .._dispatch import Handlers
from .._session import Session
from ..logical import TopicMapping, check_reusable, check_state, new_segment, refusal
from ._context import BrokerContext
from ._logical_mapping import decoded, require_ordinary
from ._logical_view import known_end

LOGGER = logging.getLogger("lanemq.proxy.broker.logical")


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Both requests; their answer is the new segment."""
    logical = broker.logical

    async def reuse(frame: Frame, session: Session) -> Frame:
        """Begin a segment behind all that a message queue has."""
        asked = decoded(ReuseLogicalQueue, frame)
        topic, queue_id, index = asked.topic, asked.queue_id, asked.logical_index
        config, mapping = broker.topics.get(topic), logical.get(topic)
        if mapping is None or config is None:
            raise refusal("queue route data not found")
        if not 0 <= queue_id < config.write_queue_nums:
            raise refusal("found no queue")
        check(mapping, queue_id, index, asked.state)
        async with logical.operation(topic, index, ("reuse", queue_id)):
            delta = await begin(topic, index, asked.state, asked.delta)
            try:  # the offset it begins at must not be lost again
                await broker.store.flushed(broker.store.max_position)
            except StoreUnwritable as error:
                raise refusal(f"the queue cannot be used: {error}") from error
            made: list[Segment] = []

            def change(mapping: TopicMapping) -> TopicMapping:
                check(mapping, queue_id, index, asked.state)
                made.append(segment(mapping, queue_id, index, asked.state, delta))
                return mapping.put(made[0])

            await logical.change(topic, change)
        return await answer(frame, made[0])

    def check(mapping: TopicMapping, queue_id: int, index: int, state: SegmentState) -> None:
        check_reusable(
            mapping, queue_id, index, readable_too=broker.config.logical_queue_reuse_readable
        )
        check_state(mapping, index, state)
        latest = mapping.latest(queue_id)
        if latest is not None and logical.end_offset(mapping.topic, queue_id) < latest.offset_max:
            raise refusal(f"message queue {queue_id} has lost its end")

    async def create(frame: Frame, session: Session) -> Frame:
        """Add a queue to a topic, which is made where it is missing."""
        asked = decoded(CreateQueueForLogicalQueue, frame)
        topic, index = asked.topic, asked.logical_index
        require_ordinary(broker, topic)
        grown(topic)
        mapping = logical.get(topic)
        if mapping is not None:
            check_state(mapping, index, asked.state)
        async with logical.operation(topic, index, ("create", object())):
            delta = await begin(topic, index, asked.state, asked.delta)
            made: list[Segment] = []

            def change(mapping: TopicMapping) -> TopicMapping:
                check_state(mapping, index, asked.state)
                queue_id = grown(topic).write_queue_nums - 1
                made.append(segment(mapping, queue_id, index, asked.state, delta))
                return mapping.put(made[0])

            await logical.change(topic, change, config=lambda: grown(topic))
        return await answer(frame, made[0])

    def grown(topic: str) -> TopicConfig:
        """The settings of a topic with one more queue. Raises ``Refused``."""
        config = broker.topics.get(topic)
        if config is None:
            config = TopicConfig(topic, 0, 0, broker.config.broker_permission)
        if config.write_queue_nums > 0 and logical.get(topic) is None:
            raise refusal("topic not enable logical queue")
        # Behind the queues of readers too: whoever shrinks a topic leaves those with messages.
        queues = max(config.read_queue_nums, config.write_queue_nums) + 1
        return replace(config, read_queue_nums=queues, write_queue_nums=queues)

    async def begin(topic: str, index: int, state: SegmentState, given: int | None) -> int:
        """Where a Normal segment begins: where the logical queue ended, wherever that was."""
        if state is not SegmentState.NORMAL:
            return 0
        end, is_open = await known_end(broker, topic, index)
        if is_open:
            raise refusal("multiple writable queue")
        if given is not None and given < end:
            raise refusal(f"logicalQueueDelta {given} is below {end}, where offsets end")
        return end if given is None else given

    def segment(
        mapping: TopicMapping, queue_id: int, index: int, state: SegmentState, delta: int
    ) -> Segment:
        return new_segment(
            mapping,
            queue_id,
            index,
            state,
            end_offset=logical.end_offset(mapping.topic, queue_id),
            delta=delta,
            address=logical.address,
        )

    async def answer(frame: Frame, made: Segment) -> Frame:
        LOGGER.info("%s begins", made)
        await broker.announced()
        return frame.reply(body=made.encode())

    handlers.add(RequestCode.REUSE_TOPIC_LOGICAL_QUEUE, reuse)
    handlers.add(RequestCode.CREATE_MESSAGE_QUEUE_FOR_LOGICAL_QUEUE, create)
