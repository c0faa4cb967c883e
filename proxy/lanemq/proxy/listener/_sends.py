"""Sends to a logical queue: to the segment that it ends with, and after it when it moves on.

The client addresses a queue by its index and is answered in its numbers, wherever the message
went. What this process's broker stores without further ado, as almost all that is sent to it, is
stored here at once and answered in the queue's numbers; all other requests are passed on.

Source: the translation is lanemq's own; what brokers answer is 5.0.0-PREVIEW's.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, final

from msgspec.structs import replace

from lanemq.wire import (
    FLAG_ONEWAY,
    Frame,
    Refused,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
)
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    NOT_SET,
    SEGMENT_FIELD,
    Chain,
    Segment,
)

from .._dispatch import Handlers
from .._session import Session
from ..logical import SegmentClosed, TopicMapping
from ..logical._forwarding import BORN_HOST_FIELD, born_host_of, flags_field, queue_field
from ..logical._positions import broker_tag, tagged
from ._brokers import Unreachable
from ._context import ROUNDS_MAX, ListenerContext, is_redirect
from ._routes import TOPICS_MAX, TopicView

POSITION_DIGITS: Final = 16

Answer = Frame | bytes | None | Awaitable[Frame | bytes | None]


@final
@dataclass(frozen=True, slots=True)
class _OpenEnds:
    """What ``own_open_end`` says of a topic's queues, as long as both still are what is known."""

    view: TopicView
    mapping: TopicMapping
    segments: dict[int, Segment | None]


@final
class Sends:
    """The send handlers of one listener."""

    def __init__(self, listener: ListenerContext) -> None:
        self._listener = listener
        self._open_ends: dict[str, _OpenEnds] = {}

    def handler(self, code: RequestCode) -> Callable[[Frame, Session], Answer]:
        """The handler of one request code."""
        listener, pass_on, open_end = self._listener, self._pass_on, self._open_end
        append, answers = listener.sends.quick[code], listener.sends.answers
        stored, flushed = answers.stored, answers.flushed
        id_field = queue_field(code)
        topic_field = "b" if id_field == "e" else "topic"
        host = listener.address.packed.hex().upper()
        tag_bits = tagged(broker_tag(listener.broker.config.broker_name), 0)

        def send(frame: Frame, session: Session) -> Answer:
            try:
                topic, index = frame.fields[topic_field], int(frame.fields[id_field])
                segment, appended = open_end(topic, index), None
                if segment is not None:
                    appended = append(frame, session, segment.queue_id)
            except SegmentClosed:
                segment = None
            except (KeyError, ValueError) as error:
                raise RemoteProtocolError(f"a send lacks a field or a number: {error}") from None
            except Refused:
                listener.broker.statistics.put_failed()
                raise
            if segment is None or appended is None:
                return pass_on(topic, index, frame, session)
            if frame.flag & FLAG_ONEWAY:
                return None
            put, _, waits = appended
            message_id = f"{host}{tag_bits | put.log_position:016X}"
            values = message_id, index, segment.to_logical(put.queue_offset)
            if waits:
                return flushed(put.end, frame, values)
            return stored(frame, values)

        return send

    def _open_end(self, topic: str, index: int) -> Segment | None:
        """Where a queue takes messages, if that is this process's broker, and it thinks so too."""
        listener = self._listener
        view, mapping = listener.routes.get(topic), listener.broker.logical.mappings.get(topic)
        if view is None or mapping is None:
            return None
        known = self._open_ends.get(topic)
        if known is None or known.view is not view or known.mapping is not mapping:
            if len(self._open_ends) >= TOPICS_MAX:
                self._open_ends.clear()
            known = self._open_ends[topic] = _OpenEnds(view, mapping, {})
        try:
            return known.segments[index]
        except KeyError:
            found = own_open_end(view, mapping, index)
            if view.chain(index) is not None:
                known.segments[index] = found
            return found

    def _pass_on(
        self, topic: str, index: int, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        """Ask the broker. For the one of this process that need not take any waiting."""
        listener = self._listener
        chain = listener.routes.chain(topic, index)
        segment = tail(chain) if chain is not None else None
        if segment is None or segment.delta < 0 or not listener.brokers.is_own(segment.broker_name):
            return self._search(topic, index, frame, session)
        answer = listener.brokers.ask_own(_addressed(frame, segment, session), session)
        if not isinstance(answer, Frame):
            return self._finish(answer, segment, topic, index, frame, session)
        if is_redirect(answer):
            return self._redirected(answer, topic, index, frame, session)
        return self._translated(frame, answer, segment)

    async def _finish(
        self,
        under_way: Awaitable[Frame],
        segment: Segment,
        topic: str,
        index: int,
        frame: Frame,
        session: Session,
    ) -> Frame:
        answer = await under_way
        if is_redirect(answer):
            return await self._redirected(answer, topic, index, frame, session)
        return self._translated(frame, answer, segment)

    async def _redirected(
        self, answer: Frame, topic: str, index: int, frame: Frame, session: Session
    ) -> Frame:
        await self._listener.routes.redirected(topic, answer)
        return await self._search(topic, index, frame, session)

    async def _search(self, topic: str, index: int, frame: Frame, session: Session) -> Frame:
        listener = self._listener
        unreachable: set[str] = set()
        refusal: Refused | None = None
        for _ in range(ROUNDS_MAX):
            view, chain = await listener.chain(topic, index)
            segment = _reachable_tail(view, chain, unreachable)
            if segment is None:
                break
            try:
                answer = await listener.ask(
                    view, segment.broker_name, _addressed(frame, segment, session), session
                )
            except Unreachable as error:
                # Nothing was stored: if the queue ends elsewhere by now, the message goes there.
                refusal = error
                unreachable.add(error.broker_name)
                await listener.routes.refresh(topic)
                continue
            if not is_redirect(answer):
                if segment.delta < 0:
                    segment = await self._placed(segment)
                return self._translated(frame, answer, segment)
            await listener.routes.redirected(topic, answer)
        if refusal is not None:
            raise refusal
        remark = f"topic[{topic}] queueId[{index}] takes no messages"
        raise Refused(ResponseCode.NO_PERMISSION, remark)

    async def _placed(self, segment: Segment) -> Segment:
        """A destination that was written to before its place was known; with that, if it is now."""
        listener, topic = self._listener, segment.topic
        await listener.routes.refresh(topic)
        chain = listener.routes.chain(topic, segment.logical_index)
        found = chain.find(segment.key) if chain is not None else None
        return found or segment

    def _translated(self, asked: Frame, answer: Frame, segment: Segment) -> Frame:
        fields = dict(answer.fields)
        offset = fields.get("queueOffset", "")
        if "queueId" in fields:
            physical = int(offset) if offset.isdecimal() else NOT_SET
            logical = segment.to_logical(physical) if physical >= 0 else NOT_SET
            fields["queueId"] = str(segment.logical_index)
            fields["queueOffset"] = str(logical)
        if ids := fields.get("msgId"):
            fields["msgId"] = ",".join(self._tagged(one, segment) for one in ids.split(","))
        return asked.reply(answer.code, fields, answer.body, answer.remark)

    def _tagged(self, offset_id: str, segment: Segment) -> str:
        try:
            position = int(offset_id[-POSITION_DIGITS:], 16)
        except ValueError:
            return offset_id  # whatever it is, it is no position
        return self._listener.offset_id(segment.broker_name, position)


def own_open_end(view: TopicView, mapping: TopicMapping, index: int) -> Segment | None:
    """The segment of ``tail``, if it lies on the broker of ``mapping``, is open there, and is
    what that broker takes the messages of its message queue for.
    """
    chain = view.chain(index)
    segment = tail(chain) if chain is not None else None
    if segment is None or segment.broker_name != mapping.broker_name:
        return None
    own = mapping.latest(segment.queue_id)
    if own is None or own.key != segment.key or own.delta < 0:
        return None
    return own


def tail(chain: Chain) -> Segment | None:
    """Where messages go: to a segment that is being migrated to only once it has its place.

    A queue that takes none for the moment is asked where it ends: its broker knows more.
    """
    writable = chain.writable
    if writable is not None and writable.delta < 0 and chain.normal is not None:
        return chain.normal
    if writable is not None:
        return writable
    placed = [segment for segment in chain if segment.delta >= 0]
    return placed[-1] if placed else None


def _reachable_tail(view: TopicView, chain: Chain, unreachable: set[str]) -> Segment | None:
    """``tail``, or where an operator has moved the queue because that broker is gone."""
    segment = tail(chain)
    if segment is None or segment.broker_name not in unreachable:
        return segment
    other = chain.writable
    return other if other is not None and other.broker_name not in unreachable else None


def _addressed(frame: Frame, segment: Segment, session: Session) -> Frame:
    """The request for a segment's queue, as of a client that follows redirects."""
    fields, code = frame.fields, frame.code
    flags = flags_field(code)
    sys_flag = int(fields.get(flags, "0")) | LOGICAL_QUEUE_FLAG
    asked = {
        **fields,
        queue_field(code): str(segment.queue_id),
        flags: str(sys_flag),
        SEGMENT_FIELD: segment.meant,
        BORN_HOST_FIELD: born_host_of(frame, session.peer).hex(),
    }
    return replace(frame, fields=asked)


def register(handlers: Handlers, listener: ListenerContext) -> None:
    """Sends of a message or a batch, in both forms of the header."""
    sends = Sends(listener)
    for code in (
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
    ):
        handlers.add(code, sends.handler(code))
