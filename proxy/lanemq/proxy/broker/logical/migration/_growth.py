"""Requests for a further message queue of a logical queue: an existing one (415), or a new one
(416).

Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import final

from lanemq.local import get_logger
from lanemq.storage import Store, StoreUnwritable
from lanemq.wire import KV_PREFIX, Permission, RequestCode
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.frame import Frame
from lanemq.wire.logical import (
    CreateQueueForLogicalQueue,
    ReuseLogicalQueue,
    Segment,
    SegmentState,
)

from ....logical.rules._growth import check_reusable, check_state, new_segment
from ....logical.rules._mapping import TopicMapping
from ....logical.rules._refusals import NOT_ENABLED, refusal
from ....net._dispatch import Handlers
from ....net._session import Session
from ...context._context import BrokerContext
from ...settings._config import BrokerConfig
from ...state._topics import Topics
from ..state._state import LogicalState
from ..state._view import LogicalView
from ._requests import decoded, require_no_partitions, require_ordinary

LOGGER = get_logger("lanemq.proxy.broker.logical", by_peers=True)


@final
class GrowthRequests:
    """The requests for a further message queue, which answer the new segment."""

    def __init__(
        self,
        *,
        announced: Callable[[], Awaitable[None]],
        config: BrokerConfig,
        logical: LogicalState,
        store: Store,
        topics: Topics,
        view: LogicalView,
    ) -> None:
        self._announced = announced
        self._config = config
        self._logical = logical
        self._store = store
        self._topics = topics
        self._view = view

    async def reuse(self, frame: Frame, session: Session) -> Frame:
        """Begin a segment at the end of an existing message queue."""
        asked = decoded(ReuseLogicalQueue, frame)
        topic, queue_id, index = asked.topic, asked.queue_id, asked.logical_index
        config, mapping = self._topics.get(topic), self._logical.get(topic)
        if mapping is None or config is None:
            raise refusal("queue route data not found")
        if not 0 <= queue_id < config.write_queue_nums:
            raise refusal("found no queue")
        self._check(mapping, queue_id, index, asked.state)
        async with self._logical.operation(topic, index, ("reuse", queue_id)):
            delta, last = await self._begin(topic, index, asked.state, asked.delta)
            try:  # the offset it begins at must not be lost again
                await self._store.flushed(self._store.max_position)
            except StoreUnwritable as error:
                raise refusal(f"the queue cannot be used: {error}") from error
            made: list[Segment] = []

            def change(mapping: TopicMapping) -> TopicMapping:
                self._check(mapping, queue_id, index, asked.state)
                made.append(self._segment(mapping, queue_id, index, asked.state, delta, last))
                return mapping.put(made[0])

            await self._logical.change(topic, change)
        return await self._answer(frame, made[0])

    def _check(self, mapping: TopicMapping, queue_id: int, index: int, state: SegmentState) -> None:
        check_reusable(
            mapping,
            queue_id,
            index,
            readable_too=self._config.logical_queue_reuse_readable,
            is_young=self._logical.times.sealed_lately,
        )
        check_state(mapping, index, state)
        latest = mapping.latest(queue_id)
        end_offset = self._logical.end_offset(mapping.topic, queue_id)
        if latest is not None and end_offset < latest.offset_max:
            raise refusal(
                f"message queue {queue_id} ends at {end_offset}, before the end of its segment"
                f" ({latest.offset_max})"
            )

    async def create(self, frame: Frame, session: Session) -> Frame:
        """Add a queue to a topic, which is made where it is missing."""
        asked = decoded(CreateQueueForLogicalQueue, frame)
        topic, index = asked.topic, asked.logical_index
        self._require_possible(topic)
        self._grown(topic)
        mapping = self._logical.get(topic)
        if mapping is not None:
            check_state(mapping, index, asked.state)
        async with self._logical.operation(topic, index, ("create", object())):
            delta, last = await self._begin(topic, index, asked.state, asked.delta)
            made: list[Segment] = []

            def change(mapping: TopicMapping) -> TopicMapping:
                check_state(mapping, index, asked.state)
                queue_id = self._grown(topic).write_queue_nums - 1
                made.append(self._segment(mapping, queue_id, index, asked.state, delta, last))
                return mapping.put(made[0])

            await self._logical.change(topic, change, config=lambda: self._grown(topic))
        return await self._answer(frame, made[0])

    def _require_possible(self, topic: str) -> None:
        if not topic.startswith(KV_PREFIX):
            require_ordinary(self._topics, topic)
        elif self._store.kv is None:
            raise refusal(f"broker {self._config.broker_name} keeps no keys (kvEnable=false)")

    def _grown(self, topic: str) -> TopicConfig:
        """Return the settings of a topic with one more queue. Raises ``Refused``."""
        config = self._topics.get(topic)
        if config is None:
            is_log = topic.startswith(KV_PREFIX)
            perm = Permission.READ if is_log else self._config.broker_permission
            config = TopicConfig(topic, 0, 0, perm)
        if config.write_queue_nums > 0 and self._logical.get(topic) is None:
            raise refusal(NOT_ENABLED)
        # Behind the queues of readers too: whoever shrinks a topic leaves those with messages.
        queues = config.queue_count + 1
        self._topics.check_queues(queues)
        return replace(config, read_queue_nums=queues, write_queue_nums=queues)

    async def _begin(
        self, topic: str, index: int, state: SegmentState, given: int | None
    ) -> tuple[int, int]:
        """Return the logical offset at which a Normal segment begins: the end of the logical queue,
        wherever it was.

        With the number of the last migration that anybody knows of.
        """
        if state is not SegmentState.NORMAL:
            return 0, 0
        require_no_partitions(topic)
        end, last, is_open = await self._view.known_end(topic, index)
        if is_open:
            raise refusal("multiple writable queue")
        if given is not None and given < end:
            raise refusal(f"logicalQueueDelta {given} is below {end}, where offsets end")
        return end if given is None else given, last

    def _segment(
        self,
        mapping: TopicMapping,
        queue_id: int,
        index: int,
        state: SegmentState,
        delta: int,
        last: int,
    ) -> Segment:
        return new_segment(
            mapping,
            queue_id,
            index,
            state,
            end_offset=self._logical.end_offset(mapping.topic, queue_id),
            delta=delta,
            address=self._logical.address,
            last_migration=last,
        )

    async def _answer(self, frame: Frame, made: Segment) -> Frame:
        LOGGER.info("%s begins", made)
        await self._announced()
        return frame.reply(body=made.encode())


def register(handlers: Handlers, broker: BrokerContext, *, view: LogicalView) -> None:
    """Register the use of an existing message queue (415) and of a new one (416)."""
    requests = GrowthRequests(
        announced=broker.announced,
        config=broker.config,
        logical=broker.logical,
        store=broker.store,
        topics=broker.topics,
        view=view,
    )
    handlers.add(RequestCode.REUSE_TOPIC_LOGICAL_QUEUE, requests.reuse)
    handlers.add(RequestCode.CREATE_MESSAGE_QUEUE_FOR_LOGICAL_QUEUE, requests.create)
