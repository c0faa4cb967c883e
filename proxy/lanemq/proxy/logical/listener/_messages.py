"""Single messages at any broker: by offset id (33), by key (12), sent back (36).

A position that a client gives carries the tag of its broker; see ``lanemq.proxy.logical.rules``.
"""

from collections.abc import Iterable
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import ConsumerSendMsgBack, QueryMessage, ViewMessage
from lanemq.wire.message import decode_message

from ...net._dispatch import Handlers, typed
from ...net._session import Session
from ..rules import ORIGIN_ID_FIELD
from ..rules._positions import BrokerTags, untagged
from ._brokers import Unreachable
from ._context import ListenerContext, relayed

LAST_TIME: Final = "indexLastUpdateTimestamp"
LAST_POSITION: Final = "indexLastUpdatePhyoffset"


@final
class Messages:
    """The handlers, and ``record`` for other users of one message."""

    def __init__(self, listener: ListenerContext) -> None:
        self._listener = listener

    async def _brokers_of(self, position: int) -> tuple[list[tuple[str, str | None]], int]:
        """Return the brokers, by name and address, that may have a position, and the place in their
        log."""
        listener = self._listener
        tag, log_position = untagged(position)
        own = listener.broker.config.broker_name
        addresses = await listener.routes.brokers()
        if tag == 0:  # of a client that has it from a broker itself, which it does not name
            names: Iterable[str] = (own, *sorted(addresses.keys() - {own}))
        else:
            names = BrokerTags({own, *addresses}).names(tag)
        return [(name, addresses.get(name)) for name in names], log_position

    async def record(self, position: int, session: Session) -> bytes | None:
        """Find the record of a client's position, as clients see it; None if it is gone."""
        listener = self._listener
        candidates, log_position = await self._brokers_of(position)
        frame = request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(log_position).to_fields())
        for name, address in candidates:
            try:
                answer = await listener.brokers.ask_frame(name, address, frame, session, 5.0)
            except Unreachable:
                raise
            except Refused:
                continue
            if answer.code == ResponseCode.SUCCESS and answer.body:
                view = await listener.routes.find(decode_message(answer.body).topic)
                queues = view.queues if view is not None else None
                return listener.records_from(answer.body, name, queues)
        return None

    async def view(self, header: ViewMessage, frame: Frame, session: Session) -> Frame:
        """Answer the record at a position."""
        record = await self.record(header.offset, session)
        if record is None:
            remark = f"can not find message by the offset, {header.offset}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return frame.reply(body=record)

    async def send_back(self, header: ConsumerSendMsgBack, frame: Frame, session: Session) -> Frame:
        """Ask the broker of the message to deliver it again later, to the group's retry topic."""
        candidates, log_position = await self._brokers_of(header.offset)
        refusal = Refused(
            ResponseCode.SYSTEM_ERROR, f"no broker has the message at {header.offset}"
        )
        for name, address in candidates:
            if len(candidates) > 1 and not await self._is_meant(
                header, name, address, log_position, session
            ):
                continue
            fields = {
                **frame.fields,
                "offset": str(log_position),
                ORIGIN_ID_FIELD: self._listener.offset_id(name, log_position),
            }
            asked = replace(frame, fields=fields)
            try:
                answer = await self._listener.brokers.ask_frame(name, address, asked, session, 5.0)
            except Refused as refused:
                refusal = refused
                continue
            return relayed(frame, answer)
        raise refusal

    async def _is_meant(
        self,
        header: ConsumerSendMsgBack,
        name: str,
        address: str | None,
        log_position: int,
        session: Session,
    ) -> bool:
        """Return whether a broker has the message that is sent back at the stated place."""
        frame = request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(log_position).to_fields())
        try:
            answer = await self._listener.brokers.ask_frame(name, address, frame, session, 5.0)
        except Refused:
            return False
        if answer.code != ResponseCode.SUCCESS or not answer.body:
            return False
        message = decode_message(answer.body)
        if header.origin_topic and message.topic != header.origin_topic:
            return False
        ids = (message.unique_key, message.offset_id, self._listener.offset_id(name, log_position))
        return not header.origin_msg_id or header.origin_msg_id in ids

    async def query(self, header: QueryMessage, frame: Frame, session: Session) -> Frame:
        """Answer the records with a key from all brokers that have a part of the topic."""
        listener = self._listener
        view = await listener.view(header.topic)
        answers: dict[str, Frame] = {}

        async def ask(name: str) -> None:
            try:
                answers[name] = await listener.ask(view, name, frame, session)
            except Refused:
                return  # the others' messages are better than none

        async with trio.open_nursery() as nursery:
            for name in {segment.broker_name for segment in view.queues.segments}:
                nursery.start_soon(ask, name)
        found = [
            listener.records_from(listener.seen_records(answer.body, name, view), name, view.queues)
            for name, answer in sorted(answers.items())
            if answer.code == ResponseCode.SUCCESS and answer.body
        ]
        fields = {
            field: str(max((_number(answer, field) for answer in answers.values()), default=0))
            for field in (LAST_TIME, LAST_POSITION)
        }
        if not any(found):
            remark = "can not find message, maybe time range not correct"
            return frame.reply(ResponseCode.QUERY_NOT_FOUND, fields, remark=remark)
        return frame.reply(fields=fields, body=b"".join(found))


def _number(answer: Frame, field: str) -> int:
    text = answer.fields.get(field, "")
    return int(text) if text.isdecimal() else 0


def register(handlers: Handlers, messages: Messages) -> None:
    """Register requests 12, 33 and 36."""
    handlers.add(RequestCode.QUERY_MESSAGE, typed(QueryMessage, messages.query))
    handlers.add(RequestCode.VIEW_MESSAGE_BY_ID, typed(ViewMessage, messages.view))
    handlers.add(RequestCode.CONSUMER_SEND_MSG_BACK, typed(ConsumerSendMsgBack, messages.send_back))
