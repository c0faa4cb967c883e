"""Offsets of logical queues: those of groups (14, 15), and begin and end of queues (29 to 32)."""

from collections.abc import Sequence
from typing import Final, final

from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import (
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from lanemq.wire.logical import Chain, Segment, translate

from ...broker._results import is_redirect
from ...net._dispatch import Handlers, typed
from ...net._session import Session
from ._context import ROUNDS_MAX, ListenerContext
from ._progress import Progress
from ._readers import Readers, places_of
from ._routes import TopicView

LOWER: Final = "LOWER"
UPPER: Final = "UPPER"
"""Value of the field by which clients since 5.0 ask for the upper side of a time; others want the
nearest message."""
LONG_MAX: Final = (1 << 63) - 1
NOT_FOUND: Final = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


@final
class Offsets:
    """Lookups of offsets, for handlers and other parts of a listener."""

    def __init__(self, listener: ListenerContext) -> None:
        self._listener = listener

    async def max_offset(self, topic: str, index: int, session: Session) -> int:
        """Return the logical offset that the next message will get, as far as can be told now."""
        for _ in range(ROUNDS_MAX):
            view, chain = await self._latest(topic, index)
            segment = chain.last
            if segment is None or segment.is_sealed:
                return chain.known_end
            header = GetMaxOffset(topic, segment.queue_id, committed=True, logical_queue=True)
            answer = await self._ask(
                view, segment, RequestCode.GET_MAX_OFFSET, header.to_fields(), session
            )
            if not is_redirect(answer):
                return translate.end_of(segment, _number(answer, "offset"))
            await self._listener.routes.refresh(topic)
        raise Refused(ResponseCode.SYSTEM_ERROR, f"{topic}/{index} is being moved, try again")

    async def min_offset(self, topic: str, index: int, session: Session) -> int:
        """Return the least logical offset with a message; the end where there is none."""
        view, chain = await self._listener.chain(topic, index)
        for segment in chain.readable:
            found = await self._min_of(view, segment, session)
            if (first := translate.first_of(segment, found)) is not None:
                return first
        return chain.known_end

    async def _min_of(self, view: TopicView, segment: Segment, session: Session) -> int:
        header = GetMinOffset(segment.topic, segment.queue_id)
        answer = await self._ask(
            view, segment, RequestCode.GET_MIN_OFFSET, header.to_fields(), session
        )
        return max(0, _number(answer, "offset"))

    async def offset_at(
        self, topic: str, index: int, timestamp_ms: int, session: Session, boundary: str | None
    ) -> int:
        """Find the logical offset at a time, as a broker finds it in a queue of its own."""
        view, chain = await self._latest(topic, index)
        readable, side = chain.readable, (boundary or "").upper()
        if not readable:
            return chain.known_end
        at = _segment_at_time(readable, timestamp_ms)
        segment = readable[at]
        found = await self._search(view, segment, timestamp_ms, session, boundary)
        if at and found == segment.offset_delta and side != LOWER:
            # The last message before this segment may be the one, or there is none behind it.
            before = readable[at - 1]
            ahead_ms = 1 if side == UPPER else timestamp_ms - before.last_time_ms
            behind_ms = min(timestamp_ms + ahead_ms, LONG_MAX)
            if found == await self._search(view, segment, behind_ms, session, LOWER):
                return before.next_delta - 1
        return segment.to_logical(found)

    async def _search(
        self,
        view: TopicView,
        segment: Segment,
        timestamp_ms: int,
        session: Session,
        boundary: str | None,
    ) -> int:
        """Search for the offset in the segment's message queue."""
        header = SearchOffset(segment.topic, segment.queue_id, timestamp_ms, boundary)
        answer = await self._ask(
            view, segment, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header.to_fields(), session
        )
        return translate.searched(segment, _number(answer, "offset"))

    async def earliest_time_ms(self, topic: str, index: int, session: Session) -> int:
        """Return the store time of the first message of the queue; -1 without any."""
        view, chain = await self._listener.chain(topic, index)
        for segment in chain.readable:
            if segment.is_sealed and segment.first_time_ms > 0:
                least = segment.clamp_min(await self._min_of(view, segment, session))
                if least == segment.offset_delta:
                    return segment.first_time_ms
            header = GetEarliestMsgStoretime(topic, segment.queue_id)
            answer = await self._ask(
                view, segment, RequestCode.GET_EARLIEST_MSG_STORETIME, header.to_fields(), session
            )
            return _number(answer, "timestamp")
        return -1

    async def _latest(self, topic: str, index: int) -> tuple[TopicView, Chain]:
        """Return the segments, asked for anew where the last one is closed, since another may
        follow it."""
        view, chain = await self._listener.chain(topic, index)
        if chain.last is not None and chain.last.is_sealed:
            await self._listener.routes.refresh(topic)
            view, chain = await self._listener.chain(topic, index)
        return view, chain

    async def _ask(
        self, view: TopicView, segment: Segment, code: int, fields: dict[str, str], session: Session
    ) -> Frame:
        answer = await self._listener.ask(view, segment.broker_name, request(code, fields), session)
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(answer.code, answer.remark or "")
        return answer


def _segment_at_time(readable: Sequence[Segment], timestamp_ms: int) -> int:
    """Find the first segment with a message stored at that time or later, else the last."""
    for at, segment in enumerate(readable):
        if not segment.is_sealed or segment.last_time_ms <= 0:
            return at
        if timestamp_ms <= segment.last_time_ms:
            return at
    return len(readable) - 1


def _number(answer: Frame, field: str) -> int:
    try:
        return int(answer.fields[field])
    except (KeyError, ValueError):
        remark = f"a broker answered a question for {field} without it"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark) from None


def register(
    handlers: Handlers, listener: ListenerContext, offsets: Offsets, progress: Progress
) -> None:
    """Register requests 14, 15, and 29 to 32."""
    readers = Readers(listener, progress)

    async def query(header: QueryConsumerOffset, frame: Frame, session: Session) -> Frame:
        place = header.topic, await listener.index(header.topic, header.queue_id), session
        offset = await progress.find(header.consumer_group, *place)
        if offset is None:
            offset = await progress.before_mapping(
                header.consumer_group,
                *place,
                zero_if_young=header.set_zero_if_not_found is not False,
            )
        if offset is None:
            raise Refused(ResponseCode.QUERY_NOT_FOUND, NOT_FOUND)
        return frame.reply(fields={"offset": str(offset)})

    async def update(header: UpdateConsumerOffset, frame: Frame, session: Session) -> Frame:
        group, topic, offset = header.consumer_group, header.topic, header.commit_offset
        index = await listener.index(topic, header.queue_id)
        chain = listener.routes.chain(topic, index)
        if chain is not None:
            reader = group, topic, index
            if not readers.counts(reader, offset, chain, frame, session):
                return frame.reply()
            offset = places_of(session).committed(reader, offset, chain)
        await progress.commit(group, topic, index, offset, session)
        return frame.reply()

    async def get_max(header: GetMaxOffset, frame: Frame, session: Session) -> Frame:
        index = await listener.index(header.topic, header.queue_id)
        found = await offsets.max_offset(header.topic, index, session)
        return frame.reply(fields={"offset": str(found)})

    async def get_min(header: GetMinOffset, frame: Frame, session: Session) -> Frame:
        index = await listener.index(header.topic, header.queue_id)
        found = await offsets.min_offset(header.topic, index, session)
        return frame.reply(fields={"offset": str(found)})

    async def search(header: SearchOffset, frame: Frame, session: Session) -> Frame:
        index = await listener.index(header.topic, header.queue_id)
        found = await offsets.offset_at(
            header.topic, index, header.timestamp, session, header.boundary_type
        )
        return frame.reply(fields={"offset": str(found)})

    async def earliest(header: GetEarliestMsgStoretime, frame: Frame, session: Session) -> Frame:
        index = await listener.index(header.topic, header.queue_id)
        found = await offsets.earliest_time_ms(header.topic, index, session)
        return frame.reply(fields={"timestamp": str(found)})

    handlers.add(RequestCode.QUERY_CONSUMER_OFFSET, typed(QueryConsumerOffset, query))
    handlers.add(RequestCode.UPDATE_CONSUMER_OFFSET, typed(UpdateConsumerOffset, update))
    handlers.add(RequestCode.GET_MAX_OFFSET, typed(GetMaxOffset, get_max))
    handlers.add(RequestCode.GET_MIN_OFFSET, typed(GetMinOffset, get_min))
    handlers.add(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, typed(SearchOffset, search))
    handlers.add(RequestCode.GET_EARLIEST_MSG_STORETIME, typed(GetEarliestMsgStoretime, earliest))
