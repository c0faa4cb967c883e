"""Consume time spans (303): a group's place in its logical queues, by store times.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.queryConsumeTimeSpan.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, final

from attrs import define

from lanemq.wire import PullSysFlag, Refused, RequestCode, ResponseCode, SystemGroup
from lanemq.wire.bodies import QueryConsumeTimeSpanBody, QueueTimeSpan
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import PullMessage, QueryConsumeTimeSpan
from lanemq.wire.logical import READER_FIELD, SEGMENT_FIELD
from lanemq.wire.message import iter_messages

from ....net._dispatch import Handlers, typed
from ....net._session import Session
from ....net._turns import encode_beside, in_turns
from ....sessions.values._results import Found
from ..brokers._brokers import Brokers
from ..brokers._views import TopicView
from ..port._context import ListenerContext
from ..port._queues import SeenQueues
from ._offsets import Offsets
from ._progress import ListenerProgress

UNKNOWN: Final = -1
"""The time of a message that is not there."""


@final
@define(eq=False, kw_only=True, repr=False)
class Spans:
    """The handler of one port."""

    _brokers: Brokers
    _now_ms: Callable[[], int]
    _offsets: Offsets
    _progress: ListenerProgress
    _queues: SeenQueues

    async def answer(self, header: QueryConsumeTimeSpan, frame: Frame, session: Session) -> Frame:
        """Answer the store times of each logical queue's begin and end, and of the group's
        offset."""
        view = await self._queues.view(header.topic)
        spans = [
            await self._span(view, header.group, header.topic, index, session)
            async for index in in_turns(self._queues.seen(view))
        ]
        body = QueryConsumeTimeSpanBody(tuple(spans))
        return frame.reply(body=await encode_beside(session, body, len(spans)))

    async def _span(
        self, view: TopicView, group: str, topic: str, index: int, session: Session
    ) -> QueueTimeSpan:
        end = await self._offsets.max_offset(topic, index)
        consumed = await self._progress.find(group, topic, index) or 0
        first_ms = await self._offsets.earliest_time_ms(topic, index)
        consumed_ms, delay_ms = first_ms, 0
        if consumed > 0:
            consumed_ms = await self._time_ms(topic, index, consumed - 1, session)
        if consumed < end:
            next_ms = await self._time_ms(topic, index, consumed, session)
            delay_ms = self._now_ms() - next_ms if next_ms > 0 else 0
        return QueueTimeSpan(
            message_queue=self._queues.queue_of(view, topic, index),
            min_time_stamp=first_ms,
            max_time_stamp=await self._time_ms(topic, index, end - 1, session),
            consume_time_stamp=consumed_ms,
            delay_time=delay_ms,
        )

    async def _time_ms(self, topic: str, index: int, offset: int, session: Session) -> int:
        """Return the store time of the message at a logical offset, for which its broker has to
        send it."""
        view, chain = await self._queues.chain(topic, index)
        located = chain.locate(offset) if offset >= 0 else None
        if located is None or not located.is_legal:
            return UNKNOWN
        segment = located.segment
        header = PullMessage(
            consumer_group=SystemGroup.TOOLS_CONSUMER,
            topic=topic,
            queue_id=segment.queue_id,
            queue_offset=located.queue_offset,
            max_msg_nums=1,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
        )
        fields = header.to_fields() | {READER_FIELD: "true", SEGMENT_FIELD: segment.meant}
        asked, name = request(RequestCode.PULL_MESSAGE, fields), segment.broker_name
        try:
            answer = await self._brokers.ask(name, view.address(name), asked, session)
        except Refused:
            return UNKNOWN
        match answer:
            case Found(body) | Frame(code=ResponseCode.SUCCESS, body=body):
                messages = tuple(islice(iter_messages(body), 2))  # however many there are
            case _:
                return UNKNOWN
        is_it = [one.queue_offset for one in messages] == [located.queue_offset]
        return messages[0].store_timestamp_ms if is_it else UNKNOWN


def register(
    handlers: Handlers, listener: ListenerContext, offsets: Offsets, progress: ListenerProgress
) -> None:
    """Register request 303."""
    spans = Spans(
        brokers=listener.brokers,
        now_ms=listener.host.now_ms,
        offsets=offsets,
        progress=progress,
        queues=listener.queues,
    )
    handlers.add(RequestCode.QUERY_CONSUME_TIME_SPAN, typed(QueryConsumeTimeSpan, spans.answer))
