"""Offsets of logical queues: those of groups (14, 15), and begin and end of queues (29 to 32)."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import final

from attrs import define

from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from lanemq.wire.logical import (
    Ask,
    Asked,
    Boundary,
    Chain,
    CommitTo,
    Conversation,
    LookAgain,
    Reply,
    SearchByTime,
    Step,
    Told,
    converse,
    earliest_time_ms,
    max_offset,
    min_offset,
)

from ....net._dispatch import Handlers, by_header, typed
from ....net._session import Session
from ....sessions.values._framed import EarliestTime, GroupOffset, QueueOffset
from ....sessions.values._shared import NO_OFFSET, as_of_client
from ..brokers._brokers import Brokers
from ..brokers._questions import EARLIEST_TIME, MAX_OFFSET, MIN_OFFSET, OFFSET_AT
from ..brokers._views import TopicView
from ..port._context import ListenerContext
from ..port._queues import SeenQueues
from ._progress import ListenerProgress
from ._readers import Readers


@final
@define(eq=False, kw_only=True, repr=False)
class Offsets:
    """Lookups of offsets, for handlers and other parts of a listener."""

    _brokers: Brokers
    _queues: SeenQueues

    async def max_offset(self, topic: str, index: int) -> int:
        """Return the logical offset that the next message will get, as far as can be told now."""
        return await self._outcome(topic, index, max_offset)

    async def min_offset(self, topic: str, index: int) -> int:
        """Return the least logical offset with a message; the end where there is none."""
        return await self._outcome(topic, index, min_offset)

    async def offset_at(
        self, topic: str, index: int, timestamp_ms: int, boundary: str | None
    ) -> int:
        """Find the logical offset at a time, as a broker finds it in a queue of its own."""
        search = SearchByTime(timestamp_ms, Boundary.of(boundary))
        return await self._outcome(topic, index, search.steps)

    async def earliest_time_ms(self, topic: str, index: int) -> int:
        """Return the store time of the first message of the queue; -1 without any."""
        return await self._outcome(topic, index, earliest_time_ms)

    async def _outcome(
        self, topic: str, index: int, steps: Callable[[Chain], Conversation[int]]
    ) -> int:
        """Hold a conversation with the brokers of a logical queue."""
        view, chain = await self._queues.chain(topic, index)

        async def answer(step: Step) -> Reply:
            nonlocal view
            if isinstance(step, LookAgain):
                await self._queues.routes.refresh(topic)
                view, chain = await self._queues.chain(topic, index)
                return chain
            return await self._told(view, step)

        return await converse(steps(chain), answer)

    async def _told(self, view: TopicView, step: Ask) -> Told:
        """Ask the broker of a segment."""
        segment = step.segment
        broker, queue = segment.broker_name, (segment.topic, segment.queue_id)
        call = partial(self._brokers.call, broker, view.address(broker))
        match step.asked:
            case Asked.MIN_OFFSET:
                return Told((await call(MIN_OFFSET, GetMinOffset(*queue))).offset)
            case Asked.MAX_OFFSET:
                asked = GetMaxOffset(*queue, committed=True, logical_queue=True)
                end = await call(MAX_OFFSET, asked)
                return Told(end.offset, end.is_continued)
            case Asked.OFFSET_AT:
                search = SearchOffset(*queue, step.timestamp_ms, step.boundary.value or None)
                return Told((await call(OFFSET_AT, search)).offset)
            case Asked.EARLIEST_TIME:
                earliest = GetEarliestMsgStoretime(*queue)
                return Told((await call(EARLIEST_TIME, earliest)).time_ms)


@final
@define(eq=False, kw_only=True, repr=False)
class OffsetRequests:
    """The requests about offsets at one port."""

    _offsets: Offsets
    _progress: ListenerProgress
    _queues: SeenQueues
    _readers: Readers

    async def query(
        self, header: QueryConsumerOffset, frame: Frame, session: Session
    ) -> GroupOffset:
        """Answer the logical offset at which a group goes on."""
        topic, group = header.topic, header.consumer_group
        index = await self._queues.index(topic, header.queue_id)
        header = as_of_client(header, frame)
        zero_if_young = header.set_zero_if_not_found is not False
        offset = await self._progress.find(group, topic, index, zero_if_young=zero_if_young)
        if offset is None:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, NO_OFFSET)
        return GroupOffset(offset)

    def update(
        self, header: UpdateConsumerOffset, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        """Keep a group's logical offset, unless it is of a reader in doubt.

        (The answer is a frame because it has ext fields, if empty ones: that of ``Done`` has none.)
        """
        index = self._queues.known_index(header.topic, header.queue_id)
        if index is None or not frame.is_oneway:
            return self._update(header, frame, session)
        # A consumer's: it takes its turn as it comes, and the consumer may be gone before that.
        commit = self._commit(header, index, frame, session)
        self._progress.commit_soon(header.consumer_group, header.topic, index, commit)
        return frame.reply()

    async def _update(self, header: UpdateConsumerOffset, frame: Frame, session: Session) -> Frame:
        index = await self._queues.index(header.topic, header.queue_id)
        commit = self._commit(header, index, frame, session)
        await self._progress.commit(header.consumer_group, header.topic, index, commit)
        return frame.reply()

    def _commit(
        self, header: UpdateConsumerOffset, index: int, frame: Frame, session: Session
    ) -> CommitTo:
        reader = header.consumer_group, header.topic, index
        return self._readers.commit_of(reader, header.commit_offset, frame, session)

    async def get_max(self, header: GetMaxOffset) -> QueueOffset:
        """Return the end of a logical queue."""
        index = await self._queues.index(header.topic, header.queue_id)
        return QueueOffset(await self._offsets.max_offset(header.topic, index))

    async def get_min(self, header: GetMinOffset) -> QueueOffset:
        """Return the begin of a logical queue."""
        index = await self._queues.index(header.topic, header.queue_id)
        return QueueOffset(await self._offsets.min_offset(header.topic, index))

    async def search(self, header: SearchOffset) -> QueueOffset:
        """Return the logical offset at a time."""
        topic, time_ms = header.topic, header.timestamp
        index = await self._queues.index(topic, header.queue_id)
        found = await self._offsets.offset_at(topic, index, time_ms, header.boundary_type)
        return QueueOffset(found)

    async def earliest(self, header: GetEarliestMsgStoretime) -> EarliestTime:
        """Return the store time of a logical queue's first message."""
        index = await self._queues.index(header.topic, header.queue_id)
        return EarliestTime(await self._offsets.earliest_time_ms(header.topic, index))


def register(
    handlers: Handlers, listener: ListenerContext, offsets: Offsets, progress: ListenerProgress
) -> None:
    """Register requests 14, 15, and 29 to 32."""
    requests = OffsetRequests(
        offsets=offsets,
        progress=progress,
        queues=listener.queues,
        readers=Readers(clients=listener.host.clients, progress=progress),
    )
    handlers.add(RequestCode.QUERY_CONSUMER_OFFSET, typed(QueryConsumerOffset, requests.query))
    handlers.add(RequestCode.UPDATE_CONSUMER_OFFSET, typed(UpdateConsumerOffset, requests.update))
    handlers.add(RequestCode.GET_MAX_OFFSET, by_header(GetMaxOffset, requests.get_max))
    handlers.add(RequestCode.GET_MIN_OFFSET, by_header(GetMinOffset, requests.get_min))
    handlers.add(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, by_header(SearchOffset, requests.search))
    handlers.add(
        RequestCode.GET_EARLIEST_MSG_STORETIME,
        by_header(GetEarliestMsgStoretime, requests.earliest),
    )
