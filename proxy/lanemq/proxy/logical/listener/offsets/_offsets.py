"""Offsets of logical queues: those of groups (14, 15), and begin and end of queues (29 to 32)."""

from collections.abc import Awaitable, Sequence
from typing import Final, final

from attrs import define

from lanemq.wire import LONG_MAX, Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from lanemq.wire.logical import ROUNDS_MAX, Chain, Segment, translate

from ....broker.handlers.pulls._offsets import NOT_FOUND
from ....broker.values._framed import EarliestTime, GroupOffset, QueueOffset
from ....net._dispatch import Handlers, by_header, typed
from ....net._session import Session
from ..brokers._brokers import Brokers
from ..brokers._questions import AskedT, Question, Questions, ToldT
from ..brokers._routes import TopicView
from ..port._context import ListenerContext
from ..port._queues import SeenQueues
from ._commits import ReaderCommit
from ._progress import Progress
from ._readers import Readers

LOWER: Final = "LOWER"
UPPER: Final = "UPPER"
"""Value of the field by which clients since 5.0 ask for the upper side of a time; others want the
nearest message."""


@final
@define(eq=False, kw_only=True, repr=False)
class Offsets:
    """Lookups of offsets, for handlers and other parts of a listener."""

    _brokers: Brokers
    _queues: SeenQueues
    _questions: Questions

    async def max_offset(self, topic: str, index: int) -> int:
        """Return the logical offset that the next message will get, as far as can be told now."""
        for _ in range(ROUNDS_MAX):
            view, chain = await self._latest(topic, index)
            segment = chain.last
            if segment is None or segment.is_sealed:
                return chain.known_end
            asked = GetMaxOffset(topic, segment.queue_id, committed=True, logical_queue=True)
            told = await self._ask(view, segment, self._questions.max_offset, asked)
            if not told.is_continued:
                return translate.end_of(segment, told.offset)
            await self._queues.routes.refresh(topic)
        raise Refused(ResponseCode.SYSTEM_ERROR, f"{topic}/{index} is being moved, try again")

    async def min_offset(self, topic: str, index: int) -> int:
        """Return the least logical offset with a message; the end where there is none."""
        view, chain = await self._queues.chain(topic, index)
        for segment in chain.readable:
            found = await self._min_of(view, segment)
            if (first := translate.first_of(segment, found)) is not None:
                return first
        return chain.known_end

    async def _min_of(self, view: TopicView, segment: Segment) -> int:
        asked = GetMinOffset(segment.topic, segment.queue_id)
        return max(0, (await self._ask(view, segment, self._questions.min_offset, asked)).offset)

    async def offset_at(
        self, topic: str, index: int, timestamp_ms: int, boundary: str | None
    ) -> int:
        """Find the logical offset at a time, as a broker finds it in a queue of its own."""
        view, chain = await self._latest(topic, index)
        readable, side = chain.readable, (boundary or "").upper()
        if not readable:
            return chain.known_end
        at = _segment_at_time(readable, timestamp_ms)
        segment = readable[at]
        found = await self._search(view, segment, timestamp_ms, boundary)
        if at and found == segment.offset_delta and side != LOWER:
            # The last message before this segment may be the one, or there is none behind it.
            before = readable[at - 1]
            ahead_ms = 1 if side == UPPER else timestamp_ms - before.last_time_ms
            behind_ms = min(timestamp_ms + ahead_ms, LONG_MAX)
            if found == await self._search(view, segment, behind_ms, LOWER):
                return before.next_delta - 1
        return segment.to_logical(found)

    async def _search(
        self,
        view: TopicView,
        segment: Segment,
        timestamp_ms: int,
        boundary: str | None,
    ) -> int:
        """Search for the offset in the segment's message queue."""
        asked = SearchOffset(segment.topic, segment.queue_id, timestamp_ms, boundary)
        told = await self._ask(view, segment, self._questions.offset_at, asked)
        return translate.searched(segment, told.offset)

    async def earliest_time_ms(self, topic: str, index: int) -> int:
        """Return the store time of the first message of the queue; -1 without any."""
        view, chain = await self._queues.chain(topic, index)
        for segment in chain.readable:
            if segment.is_sealed and segment.first_time_ms > 0:
                least = segment.clamp_min(await self._min_of(view, segment))
                if least == segment.offset_delta:
                    return segment.first_time_ms
            asked = GetEarliestMsgStoretime(topic, segment.queue_id)
            return (await self._ask(view, segment, self._questions.earliest_time, asked)).time_ms
        return -1

    async def _latest(self, topic: str, index: int) -> tuple[TopicView, Chain]:
        """Return the segments, asked for anew where the last one is closed, since another may
        follow it."""
        view, chain = await self._queues.chain(topic, index)
        if chain.last is not None and chain.last.is_sealed:
            await self._queues.routes.refresh(topic)
            view, chain = await self._queues.chain(topic, index)
        return view, chain

    async def _ask(
        self, view: TopicView, segment: Segment, question: Question[AskedT, ToldT], asked: AskedT
    ) -> ToldT:
        """Ask the broker of a segment."""
        address = view.address(segment.broker_name)
        return await self._brokers.call(segment.broker_name, address, question, asked)


def _segment_at_time(readable: Sequence[Segment], timestamp_ms: int) -> int:
    """Find the first segment with a message stored at that time or later, else the last."""
    for at, segment in enumerate(readable):
        if not segment.is_sealed or segment.last_time_ms <= 0:
            return at
        if timestamp_ms <= segment.last_time_ms:
            return at
    return len(readable) - 1


@final
@define(eq=False, kw_only=True, repr=False)
class OffsetRequests:
    """The requests about offsets at one port."""

    _offsets: Offsets
    _progress: Progress
    _queues: SeenQueues
    _readers: Readers

    async def query(
        self, header: QueryConsumerOffset, frame: Frame, session: Session
    ) -> GroupOffset:
        """Answer the logical offset at which a group goes on."""
        topic, group = header.topic, header.consumer_group
        index = await self._queues.index(topic, header.queue_id)
        zero_if_young = header.set_zero_if_not_found is not False
        offset = await self._progress.find(group, topic, index, zero_if_young=zero_if_young)
        if offset is None:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, NOT_FOUND)
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
    ) -> ReaderCommit:
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
    handlers: Handlers, listener: ListenerContext, offsets: Offsets, progress: Progress
) -> None:
    """Register requests 14, 15, and 29 to 32."""
    requests = OffsetRequests(
        offsets=offsets,
        progress=progress,
        queues=listener.queues,
        readers=Readers(clients=listener.broker.clients, progress=progress),
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
