"""Operators' questions about the progress of logical queues and their readers (202, 208)."""

from typing import final

from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import (
    ConsumeStats,
    MessageQueue,
    OffsetWrapper,
    TopicOffset,
    TopicStatsTable,
)
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import GetConsumeStats, GetTopicStatsInfo
from lanemq.wire.logical import Chain

from ...net._dispatch import Handlers, typed
from ...net._session import Session
from ._context import ListenerContext
from ._offsets import Offsets
from ._progress import Progress
from ._routes import TopicView


@final
class Stats:
    """The handlers of one listener."""

    def __init__(self, listener: ListenerContext, offsets: Offsets, progress: Progress) -> None:
        self._listener = listener
        self._offsets = offsets
        self._progress = progress

    async def topic(self, header: GetTopicStatsInfo, frame: Frame, session: Session) -> Frame:
        """Answer the bounds of each logical queue, and the time of its last message."""
        view = await self._listener.view(header.topic)
        last_ms = await self._last_times(header.topic, view, session)
        table = {}
        for index in self._listener.seen(view):
            chain = view.queues[index]
            first = await self._offsets.min_offset(header.topic, index, session)
            end = await self._offsets.max_offset(header.topic, index, session)
            queue = self._listener.queue_of(view, header.topic, index)
            table[queue] = TopicOffset(first, end, _last(chain, last_ms))
        return frame.reply(body=TopicStatsTable(table, 0.0).encode())

    async def _last_times(
        self, topic: str, view: TopicView, session: Session
    ) -> dict[MessageQueue, int]:
        """Ask a broker for physical queue -> time of its last message, as far as it tells."""
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
        """Answer the progress of a group in a topic, or in all it subscribes to."""
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
            for index in self._listener.seen(view):
                chain = view.queues[index]
                consumed = await self._progress.find(header.consumer_group, topic, index, session)
                if consumed is None and not header.topic:
                    continue
                end = await self._offsets.max_offset(topic, index, session)
                table[self._listener.queue_of(view, topic, index)] = OffsetWrapper(
                    end, consumed or 0, _last(chain, last_ms), consumed or 0
                )
        return frame.reply(body=ConsumeStats(table).encode())


def _last(chain: Chain, last_ms: dict[MessageQueue, int]) -> int:
    return max((last_ms.get(segment.message_queue, 0) for segment in chain.placed), default=0)


def register(handlers: Handlers, stats: Stats) -> None:
    """Register requests 202 and 208."""
    handlers.add(RequestCode.GET_TOPIC_STATS_INFO, typed(GetTopicStatsInfo, stats.topic))
    handlers.add(RequestCode.GET_CONSUME_STATS, typed(GetConsumeStats, stats.group))
