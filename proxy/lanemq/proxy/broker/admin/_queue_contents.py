"""Operators' questions about message queues: times, lowest offsets, entries.

Source: RocketMQ 4.9.8, AdminBrokerProcessor, ConsumerOffsetManager.queryMinOffsetInAllGroup.
"""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Final, final

from attrs import define

from lanemq.storage import OffsetTable, Store
from lanemq.wire import LONG_MAX, Refused, RequestCode, ResponseCode, listed
from lanemq.wire.bodies import (
    ConsumeQueueData,
    QueryConsumeQueueBody,
    QueueTimeSpan,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    QueryConsumeQueue,
    QueryConsumeTimeSpan,
    QueryCorrectionOffset,
)

from ...acl import reads_group
from ...net._dispatch import Handlers, typed
from ...net._long_answer import LongAnswer
from ...net._session import Session
from ...net._turns import for_turns, reply_with
from ...sessions.state._clients import ClientRegistry
from ...sessions.values._rights import RightsOf
from ..context._context import BrokerContext
from ..state._topics import Topics
from ._own_queues import OwnQueues
from ._telling import may_tell

UNITS_MAX: Final = 4_096  # of one answer: reading them takes a few milliseconds


@final
@define(eq=False, kw_only=True, repr=False)
class QueueContents:
    """The contents of message queues, and where groups stand in them."""

    _clients: ClientRegistry[Session]
    _now_ms: Callable[[], int]
    _offsets: OffsetTable
    _queues: OwnQueues
    _rights: RightsOf
    _store: Store
    _topics: Topics

    async def time_span(
        self, header: QueryConsumeTimeSpan, frame: Frame, session: Session
    ) -> Frame:
        """Answer the store times of each queue's begin and end and of the group's offset."""
        async with LongAnswer.begin(session, frame.code) as answer:
            topic = self._queues.topic(header.topic)
            spans, now_ms = [], self._now_ms()
            for queue_ids in for_turns(self._topics.queue_ids(topic.write_queue_nums)):
                found = [self._span(header, number, now_ms) for number in queue_ids]
                spans.append(await answer.items(found))
            written = await answer.array(spans)
            return frame.reply(body=await answer.body({"consumeTimeSpanSet": written}))

    def _span(self, header: QueryConsumeTimeSpan, queue_id: int, now_ms: int) -> QueueTimeSpan:
        group, topic = header.group, header.topic
        end = self._store.bounds(topic, queue_id)[1]
        consumed = self._offsets.get(group, topic, queue_id) or 0
        first_ms = self._store.earliest_time_ms(topic, queue_id)
        consumed_ms = first_ms
        if consumed > 0:
            consumed_ms = self._queues.store_time_ms(topic, queue_id, consumed - 1)
        delay_ms = 0
        if consumed < end:
            next_ms = self._queues.store_time_ms(topic, queue_id, consumed)
            # Without a store time (the message is gone) the reference counts from 1970.
            delay_ms = now_ms - next_ms if next_ms > 0 else 0
        return QueueTimeSpan(
            message_queue=self._queues.named(topic, queue_id),
            min_time_stamp=first_ms,
            max_time_stamp=self._queues.store_time_ms(topic, queue_id, end - 1),
            consume_time_stamp=consumed_ms,
            delay_time=delay_ms,
        )

    async def correction(
        self, header: QueryCorrectionOffset, frame: Frame, session: Session
    ) -> Frame:
        """Answer the lowest offset of any group in each queue, leaving out some groups, and those
        that the sender may not read.

        Where the compared group is ahead of it the answer is the largest long, "no correction".
        """
        topic = header.topic
        left_out = frozenset(listed("filterGroups", header.filter_groups or "", ","))
        lowest: dict[int, int] = {}
        first = cache(lambda queue_id: self._store.bounds(topic, queue_id)[0])
        async with LongAnswer.begin(session, frame.code) as answer:
            rights = self._rights(frame, session)
            for group in self._offsets.groups_of(topic):
                if group in left_out or not await may_tell(answer, rights, reads_group(group)):
                    continue
                for some in for_turns(list(self._offsets.queues(group, topic).items())):
                    for queue_id, offset in some:
                        if offset >= first(queue_id):
                            lowest[queue_id] = min(offset, lowest.get(queue_id, LONG_MAX))
                    await answer.look(len(some))
            for queue_id, compared in self._offsets.queues(header.compare_group, topic).items():
                if lowest.get(queue_id, LONG_MAX) > compared:
                    lowest[queue_id] = LONG_MAX
            members = [await answer.members(dict(some)) for some in for_turns(list(lowest.items()))]
            table = await answer.object(members)
            return frame.reply(body=await answer.body({"correctionOffsets": table}))

    def queue_units(
        self, header: QueryConsumeQueue, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        """Answer entries of a queue: position in the log, size, tags."""
        topic, queue_id = header.topic or "", header.queue_id
        config = self._topics.get(topic)
        if config is None or not 0 <= queue_id < config.queue_count:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        subscription, filter_data = None, None
        if header.consumer_group:
            group = self._clients.consumer_group(header.consumer_group)
            subscription = group.subscriptions.get(topic) if group is not None else None
            filter_data = "null"  # as Apache writes that there is no filter by properties
            if subscription is None:
                filter_data = f"{header.consumer_group}@{topic} is not online!"
        first, end = self._store.bounds(topic, queue_id)
        body = QueryConsumeQueueBody(
            subscription_data=subscription,
            filter_data=filter_data,
            queue_data=tuple(
                ConsumeQueueData(unit.log_position, unit.size_bytes, unit.tags_code)
                for unit in self._store.units(
                    topic, queue_id, header.index, min(max(header.count, 0), UNITS_MAX)
                )
            ),
            max_queue_index=end,
            min_queue_index=first,
        )
        return reply_with(frame, session, body, len(body.queue_data))


def register(handlers: Handlers, broker: BrokerContext, *, queues: OwnQueues) -> None:
    """Register the requests about time spans, lowest offsets and entries of queues."""
    queue_contents = QueueContents(
        clients=broker.clients,
        now_ms=broker.now_ms,
        offsets=broker.store.tables.consumer_offsets,
        queues=queues,
        rights=broker.rights,
        store=broker.store,
        topics=broker.topics,
    )
    handlers.add(
        RequestCode.QUERY_CONSUME_TIME_SPAN, typed(QueryConsumeTimeSpan, queue_contents.time_span)
    )
    handlers.add(
        RequestCode.QUERY_CORRECTION_OFFSET, typed(QueryCorrectionOffset, queue_contents.correction)
    )
    handlers.add(
        RequestCode.QUERY_CONSUME_QUEUE, typed(QueryConsumeQueue, queue_contents.queue_units)
    )
