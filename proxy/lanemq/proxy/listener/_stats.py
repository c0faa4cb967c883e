"""How far logical queues and their readers have come: what operators ask (202, 208, 222)."""

from typing import Final, final

from lanemq.wire import (
    ConsumeStats,
    Frame,
    MessageQueue,
    OffsetWrapper,
    Refused,
    RequestCode,
    ResetOffsetBody,
    ResponseCode,
    TopicOffset,
    TopicStatsTable,
    request,
)
from lanemq.wire.headers import GetConsumeStats, GetTopicStatsInfo, ResetOffset
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER, Chain

from .._dispatch import Handlers, typed
from .._session import Session
from ._context import ListenerContext
from ._offsets import Offsets
from ._progress import Progress, placed
from ._routes import TopicView

END: Final = -1
"""The time that means "behind everything"."""


@final
class Stats:
    """The handlers of one listener."""

    def __init__(self, listener: ListenerContext, offsets: Offsets, progress: Progress) -> None:
        self._listener = listener
        self._offsets = offsets
        self._progress = progress

    async def topic(self, header: GetTopicStatsInfo, frame: Frame, session: Session) -> Frame:
        """Answer the bounds of each logical queue, and when it was last written."""
        view = await self._listener.view(header.topic)
        last_ms = await self._last_times(header.topic, view, session)
        table = {}
        for index, chain in view.queues.items():
            first = await self._offsets.min_offset(header.topic, index, session)
            end = await self._offsets.max_offset(header.topic, index, session)
            table[queue_of(header.topic, index)] = TopicOffset(first, end, _last(chain, last_ms))
        return frame.reply(body=TopicStatsTable(table, 0.0).encode())

    async def _last_times(
        self, topic: str, view: TopicView, session: Session
    ) -> dict[MessageQueue, int]:
        """Physical queue -> when it was last written, as far as its broker tells."""
        fields = GetTopicStatsInfo(topic=topic).to_fields()
        times: dict[MessageQueue, int] = {}
        for name in {segment.broker_name for segment in view.queues.segments}:
            try:
                answer = await self._listener.ask(
                    view, name, request(RequestCode.GET_TOPIC_STATS_INFO, fields), session
                )
            except Refused:
                continue
            if answer.code == ResponseCode.SUCCESS:
                stats = TopicStatsTable.decode(answer.body)
                times |= {
                    queue: place.last_update_timestamp
                    for queue, place in stats.offset_table.items()
                }
        return times

    async def group(self, header: GetConsumeStats, frame: Frame, session: Session) -> Frame:
        """Answer how far a group has come in a topic, or in all it subscribes to."""
        members = self._listener.broker.clients.consumer_group(header.consumer_group)
        topics = (
            [header.topic] if header.topic else sorted(members.subscriptions if members else ())
        )
        table: dict[MessageQueue, OffsetWrapper] = {}
        for topic in topics:
            view = await self._listener.routes.find(topic)
            if view is None:
                continue
            last_ms = await self._last_times(topic, view, session)
            for index, chain in view.queues.items():
                consumed = await self._progress.find(header.consumer_group, topic, index, session)
                if consumed is None and not header.topic:
                    continue
                end = await self._offsets.max_offset(topic, index, session)
                table[queue_of(topic, index)] = OffsetWrapper(
                    end, consumed or 0, _last(chain, last_ms), consumed or 0
                )
        return frame.reply(body=ConsumeStats(table).encode())

    async def reset(self, header: ResetOffset, frame: Frame, session: Session) -> Frame:
        """Tell the members of a group where to go on. Their commits then move the offsets."""
        view = await self._listener.view(header.topic)
        members = self._listener.broker.clients.consumer_group(header.group)
        if members is None:
            remark = (
                f"Consumer not online, so can not reset offset, Group: {header.group} "
                f"Topic: {header.topic} Timestamp: {header.timestamp}"
            )
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        targets = {}
        for index in view.queues:
            consumed = await self._progress.find(header.group, header.topic, index, session)
            if header.timestamp == END:
                target = await self._offsets.max_offset(header.topic, index, session)
            else:
                target = await self._offsets.offset_at(
                    header.topic, index, header.timestamp, session, None
                )
            if not header.is_force and consumed is not None:
                target = min(target, consumed)
            targets[queue_of(header.topic, index)] = target
        body = ResetOffsetBody(targets).encode()
        told = ResetOffset(
            topic=header.topic, group=header.group, timestamp=header.timestamp, is_force=False
        )
        note = request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, told.to_fields(), body=body)
        for member in members.clients:
            member.oneway(note)
        return frame.reply(body=body)


def queue_of(topic: str, index: int) -> MessageQueue:
    """A logical queue as clients name it."""
    return MessageQueue(topic, LOGICAL_QUEUE_BROKER, index)


def _last(chain: Chain, last_ms: dict[MessageQueue, int]) -> int:
    return max((last_ms.get(segment.message_queue, 0) for segment in placed(chain)), default=0)


def register(handlers: Handlers, stats: Stats) -> None:
    """Requests 202, 208 and 222."""
    handlers.add(RequestCode.GET_TOPIC_STATS_INFO, typed(GetTopicStatsInfo, stats.topic))
    handlers.add(RequestCode.GET_CONSUME_STATS, typed(GetConsumeStats, stats.group))
    handlers.add(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, typed(ResetOffset, stats.reset))
