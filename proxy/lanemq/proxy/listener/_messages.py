"""Single messages, found wherever they are: by offset id (33), by key (12), given back (36).

A position that a client gives carries the tag of its broker; see ``lanemq.proxy.logical``.
"""

from collections.abc import Iterable
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.wire import (
    ConsumerSendMsgBack,
    Frame,
    QueryMessage,
    Refused,
    RequestCode,
    ResponseCode,
    ViewMessage,
    decode_message,
    request,
)

from .._dispatch import Handlers, typed
from .._session import Session
from ..logical import ORIGIN_ID_FIELD
from ..logical._positions import BrokerTags, untagged
from ._brokers import Unreachable
from ._context import ListenerContext, relayed

LAST_TIME: Final = "indexLastUpdateTimestamp"
LAST_POSITION: Final = "indexLastUpdatePhyoffset"


@final
class Messages:
    """The handlers, and ``record`` for whoever else needs one message."""

    def __init__(self, listener: ListenerContext) -> None:
        self._listener = listener

    async def _brokers_of(self, position: int) -> tuple[list[tuple[str, str | None]], int]:
        """Whose the position may be (name and address), and the place in that broker's log."""
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
        """The record that a client's position means, as clients see it; None if it is gone."""
        listener = self._listener
        candidates, log_position = await self._brokers_of(position)
        frame = request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(log_position).to_fields())
        for name, address in candidates:
            try:
                answer = await listener.brokers.ask(name, address, frame, session, 5.0)
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
        """Have the broker of the message deliver it again later, to the group's retry topic."""
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
                answer = await self._listener.brokers.ask(name, address, asked, session, 5.0)
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
        """Whether a broker has the message that is given back where it is said to be."""
        frame = request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(log_position).to_fields())
        try:
            answer = await self._listener.brokers.ask(name, address, frame, session, 5.0)
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
            listener.records_from(answer.body, name, view.queues)
            for name, answer in sorted(answers.items())
            if answer.code == ResponseCode.SUCCESS and answer.body
        ]
        fields = {
            field: str(max((_number(answer, field) for answer in answers.values()), default=0))
            for field in (LAST_TIME, LAST_POSITION)
        }
        if not found:
            remark = "can not find message, maybe time range not correct"
            return frame.reply(ResponseCode.QUERY_NOT_FOUND, fields, remark=remark)
        return frame.reply(fields=fields, body=b"".join(found))


def _number(answer: Frame, field: str) -> int:
    text = answer.fields.get(field, "")
    return int(text) if text.isdecimal() else 0


def register(handlers: Handlers, messages: Messages) -> None:
    """Requests 12, 33 and 36."""
    handlers.add(RequestCode.QUERY_MESSAGE, typed(QueryMessage, messages.query))
    handlers.add(RequestCode.VIEW_MESSAGE_BY_ID, typed(ViewMessage, messages.view))
    handlers.add(RequestCode.CONSUMER_SEND_MSG_BACK, typed(ConsumerSendMsgBack, messages.send_back))
