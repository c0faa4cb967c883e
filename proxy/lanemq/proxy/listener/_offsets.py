"""Offsets of logical queues: where groups are (14, 15), where queues begin and end (29 to 32)."""

from collections.abc import Sequence
from typing import Final, final

from lanemq.wire import (
    Frame,
    GetEarliestMsgStoretime,
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    Refused,
    RequestCode,
    ResponseCode,
    SearchOffset,
    UpdateConsumerOffset,
    request,
)
from lanemq.wire.logical import Chain, Segment

from .._dispatch import Handlers, typed
from .._session import Session
from ._context import ROUNDS_MAX, ListenerContext, is_redirect
from ._progress import Progress, placed
from ._routes import TopicView

LOWER: Final = "LOWER"
UPPER: Final = "UPPER"
"""Which side of a time clients since 5.0 want; all others want the message that is nearest."""
LONG_MAX: Final = (1 << 63) - 1
NOT_FOUND: Final = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


@final
class Offsets:
    """The questions, for handlers and for whatever else a listener has to work out."""

    def __init__(self, listener: ListenerContext) -> None:
        self._listener = listener

    async def max_offset(self, topic: str, index: int, session: Session) -> int:
        """The logical offset that the next message will get, as far as can be told now."""
        for _ in range(ROUNDS_MAX):
            view, chain = await self._latest(topic, index)
            parts = placed(chain)
            segment = parts[-1] if parts else None
            if segment is None or segment.is_sealed:
                return chain.known_end
            header = GetMaxOffset(topic, segment.queue_id, committed=True, logical_queue=True)
            answer = await self._ask(
                view, segment, RequestCode.GET_MAX_OFFSET, header.to_fields(), session
            )
            if not is_redirect(answer):
                found = segment.clamp_max(_number(answer, "offset"))
                return segment.to_logical(max(found, segment.offset_delta))
            await self._listener.routes.refresh(topic)
        raise Refused(ResponseCode.SYSTEM_ERROR, f"{topic}/{index} is on the move, try again")

    async def min_offset(self, topic: str, index: int, session: Session) -> int:
        """The least logical offset that there is a message for; the end where there is none."""
        view, chain = await self._listener.chain(topic, index)
        for segment in chain.readable:
            found = segment.clamp_min(await self._min_of(view, segment, session))
            if segment.keeps(found):
                return segment.to_logical(found)
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
        """The logical offset at a time, as a broker finds it in a queue of its own."""
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
        """The offset in the segment's message queue."""
        header = SearchOffset(segment.topic, segment.queue_id, timestamp_ms, boundary)
        answer = await self._ask(
            view, segment, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header.to_fields(), session
        )
        return segment.clamp_max(max(_number(answer, "offset"), segment.offset_delta))

    async def earliest_time_ms(self, topic: str, index: int, session: Session) -> int:
        """When the first message of the queue was stored; -1 without any."""
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
        """The segments; where the last one is closed, another may follow it by now."""
        view, chain = await self._listener.chain(topic, index)
        parts = placed(chain)
        if parts and parts[-1].is_sealed:
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
    """Which is the first with a message stored at that time or later, else the last."""
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
    """Requests 14, 15, and 29 to 32."""

    async def query(header: QueryConsumerOffset, frame: Frame, session: Session) -> Frame:
        place = header.topic, header.queue_id, session
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
        await progress.commit(
            header.consumer_group, header.topic, header.queue_id, header.commit_offset, session
        )
        return frame.reply()

    async def get_max(header: GetMaxOffset, frame: Frame, session: Session) -> Frame:
        found = await offsets.max_offset(header.topic, header.queue_id, session)
        return frame.reply(fields={"offset": str(found)})

    async def get_min(header: GetMinOffset, frame: Frame, session: Session) -> Frame:
        found = await offsets.min_offset(header.topic, header.queue_id, session)
        return frame.reply(fields={"offset": str(found)})

    async def search(header: SearchOffset, frame: Frame, session: Session) -> Frame:
        found = await offsets.offset_at(
            header.topic, header.queue_id, header.timestamp, session, header.boundary_type
        )
        return frame.reply(fields={"offset": str(found)})

    async def earliest(header: GetEarliestMsgStoretime, frame: Frame, session: Session) -> Frame:
        found = await offsets.earliest_time_ms(header.topic, header.queue_id, session)
        return frame.reply(fields={"timestamp": str(found)})

    handlers.add(RequestCode.QUERY_CONSUMER_OFFSET, typed(QueryConsumerOffset, query))
    handlers.add(RequestCode.UPDATE_CONSUMER_OFFSET, typed(UpdateConsumerOffset, update))
    handlers.add(RequestCode.GET_MAX_OFFSET, typed(GetMaxOffset, get_max))
    handlers.add(RequestCode.GET_MIN_OFFSET, typed(GetMinOffset, get_min))
    handlers.add(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, typed(SearchOffset, search))
    handlers.add(RequestCode.GET_EARLIEST_MSG_STORETIME, typed(GetEarliestMsgStoretime, earliest))
