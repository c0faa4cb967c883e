"""Operators' questions about the progress of logical queues and their readers (202, 208)."""

from typing import final

from attrs import define

from lanemq.wire import Refused, RequestCode
from lanemq.wire.bodies import (
    ConsumeStats,
    MessageQueue,
    OffsetWrapper,
    TopicOffset,
    TopicStatsTable,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import GetConsumeStats, GetTopicStatsInfo
from lanemq.wire.logical import Chain

from ....acl import UNLIMITED, reads_of
from ....net._dispatch import Handlers, typed
from ....net._session import Session
from ....net._turns import LONG_PARTS, encode_beside, in_turns
from ....sessions.state._clients import ClientRegistry
from ....sessions.values._framed import TopicStats
from ....sessions.values._rights import RightsOf
from ..brokers._brokers import Brokers
from ..brokers._questions import TOPIC_STATS
from ..brokers._views import TopicView
from ..port._context import ListenerContext
from ..port._queues import SeenQueues
from ._offsets import Offsets
from ._progress import ListenerProgress


@final
@define(eq=False, kw_only=True, repr=False)
class Stats:
    """The handlers of one port."""

    _brokers: Brokers
    _clients: ClientRegistry[Session]
    _offsets: Offsets
    _progress: ListenerProgress
    _queues: SeenQueues
    _rights: RightsOf

    async def topic(
        self, header: GetTopicStatsInfo, frame: Frame, session: Session
    ) -> TopicStats | Frame:
        """Return the bounds of each logical queue, and the time of its last message."""
        view = await self._queues.view(header.topic)
        last_ms = await self._last_times(header.topic, view)
        table = {}
        async for index in in_turns(self._queues.seen(view)):
            chain = view.queues[index]
            first = await self._offsets.min_offset(header.topic, index)
            end = await self._offsets.max_offset(header.topic, index)
            queue = self._queues.queue_of(view, header.topic, index)
            table[queue] = TopicOffset(first, end, _last(chain, last_ms))
        stats = TopicStatsTable(table, 0.0)
        if len(table) < LONG_PARTS:
            return TopicStats(stats)
        return frame.reply(body=await encode_beside(session, stats, len(table)))

    async def _last_times(self, topic: str, view: TopicView) -> dict[MessageQueue, int]:
        """Ask brokers for physical queue -> time of its last message, as far as they tell."""
        question, asked = TOPIC_STATS, GetTopicStatsInfo(topic=topic)
        times: dict[MessageQueue, int] = {}
        for name in {segment.broker_name for segment in view.queues.segments}:
            try:
                told = await self._brokers.call(name, view.address(name), question, asked)
            except Refused:
                continue
            times |= {
                queue: place.last_update_timestamp
                for queue, place in told.stats.offset_table.items()
            }
        return times

    async def group(self, header: GetConsumeStats, frame: Frame, session: Session) -> Frame:
        """Answer the progress of a group in a topic, or in all it subscribes to that the sender may
        read."""
        members = self._clients.consumer_group(header.consumer_group)
        topics = (
            [header.topic] if header.topic else sorted(members.subscriptions if members else ())
        )
        table: dict[MessageQueue, OffsetWrapper] = {}
        rights = UNLIMITED if header.topic else self._rights(frame, session)
        async for topic in in_turns(topics):
            if not rights.may(reads_of(topic)):
                continue
            view = await self._queues.routes.find(topic)
            if view is None:
                continue
            last_ms = await self._last_times(topic, view)
            async for index in in_turns(self._queues.seen(view)):
                chain = view.queues[index]
                consumed = await self._progress.find(header.consumer_group, topic, index)
                if consumed is None and not header.topic:
                    continue
                end = await self._offsets.max_offset(topic, index)
                table[self._queues.queue_of(view, topic, index)] = OffsetWrapper(
                    end, consumed or 0, _last(chain, last_ms), consumed or 0
                )
        return frame.reply(body=await encode_beside(session, ConsumeStats(table), len(table)))


def _last(chain: Chain, last_ms: dict[MessageQueue, int]) -> int:
    return max((last_ms.get(segment.message_queue, 0) for segment in chain.placed), default=0)


def register(
    handlers: Handlers, listener: ListenerContext, offsets: Offsets, progress: ListenerProgress
) -> None:
    """Register requests 202 and 208."""
    stats = Stats(
        brokers=listener.brokers,
        clients=listener.host.clients,
        offsets=offsets,
        progress=progress,
        queues=listener.queues,
        rights=listener.host.rights,
    )
    handlers.add(RequestCode.GET_TOPIC_STATS_INFO, typed(GetTopicStatsInfo, stats.topic))
    handlers.add(RequestCode.GET_CONSUME_STATS, typed(GetConsumeStats, stats.group))
