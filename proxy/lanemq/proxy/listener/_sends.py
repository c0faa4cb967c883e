"""Sends to a logical queue: to the segment that it ends with, and after it when it moves on.

The client addresses a queue by its index and is answered in its numbers, wherever the message
went. Source: the translation is lanemq's own; what brokers answer is 5.0.0-PREVIEW's.
"""

from collections.abc import Awaitable
from typing import Final, final

from msgspec.structs import replace

from lanemq.wire import Frame, Refused, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.logical import LOGICAL_QUEUE_FLAG, NOT_SET, Chain, Segment

from .._dispatch import Handlers
from .._session import Session
from ..logical._forwarding import flags_field, queue_field
from ._brokers import Unreachable
from ._context import ROUNDS_MAX, ListenerContext, is_redirect
from ._routes import TopicView

POSITION_DIGITS: Final = 16


@final
class Sends:
    """The send handlers of one listener."""

    def __init__(self, listener: ListenerContext) -> None:
        self._listener = listener

    def send(self, frame: Frame, session: Session) -> Frame | Awaitable[Frame]:
        """Send on. A message for the broker of this process is answered without waiting."""
        listener, fields, code = self._listener, frame.fields, frame.code
        id_field = queue_field(code)
        topic = fields.get("b" if id_field == "e" else "topic", "")
        try:
            index = int(fields[id_field])
        except (KeyError, ValueError):
            raise RemoteProtocolError(f"field {id_field} of a send is no queue id") from None
        view = listener.routes.get(topic)
        chain = view.chain(index) if view is not None else None
        segment = tail(chain) if chain is not None else None
        if segment is None or segment.delta < 0 or not listener.brokers.is_own(segment.broker_name):
            return self._search(topic, index, frame, session)
        answer = listener.brokers.ask_own(_addressed(frame, segment), session)
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
                    view, segment.broker_name, _addressed(frame, segment), session
                )
            except Unreachable as error:
                # Nothing was stored: if the queue ends elsewhere by now, the message goes there.
                refusal = error
                unreachable.add(error.broker_name)
                await listener.routes.refresh(topic)
                continue
            if not is_redirect(answer):
                return self._translated(frame, answer, segment)
            await listener.routes.redirected(topic, answer)
        if refusal is not None:
            raise refusal
        remark = f"topic[{topic}] queueId[{index}] takes no messages"
        raise Refused(ResponseCode.NO_PERMISSION, remark)

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


def _addressed(frame: Frame, segment: Segment) -> Frame:
    """The request for a segment's queue, as of a client that follows redirects."""
    fields, code = frame.fields, frame.code
    flags = flags_field(code)
    sys_flag = int(fields.get(flags, "0")) | LOGICAL_QUEUE_FLAG
    return replace(
        frame,
        fields={**fields, queue_field(code): str(segment.queue_id), flags: str(sys_flag)},
    )


def register(handlers: Handlers, listener: ListenerContext) -> None:
    """Sends of a message or a batch, in both forms of the header."""
    sends = Sends(listener)
    for code in (
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
    ):
        handlers.add(code, sends.send)
