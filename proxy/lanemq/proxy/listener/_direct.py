"""Handing one message to one consumer, as an operator asks for it (309).

Source: RocketMQ 4.9.8, AdminBrokerProcessor.consumeMessageDirectly, callConsumer.
"""

from typing import Final

from lanemq.wire import (
    Frame,
    Refused,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
    decode_offset_id,
    request,
)
from lanemq.wire.headers import ConsumeMessageDirectly
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER

from .._dispatch import Handlers, typed
from .._session import PeerTimedOut, Session, SessionClosed
from ._context import ListenerContext, relayed
from ._messages import Messages

CONSUMER_S: Final = 10.0


def register(handlers: Handlers, listener: ListenerContext, messages: Messages) -> None:
    """Request 309: the message is found wherever it is; what the consumer says is answered."""

    async def consume(header: ConsumeMessageDirectly, frame: Frame, session: Session) -> Frame:
        name, client_id = header.consumer_group, header.client_id or ""
        group = listener.broker.clients.consumer_group(name)
        client = group.find(client_id) if group is not None else None
        if client is None:
            remark = f"The Consumer <{name}> <{client_id}> not online"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        try:
            _, position = decode_offset_id(header.msg_id or "")
        except RemoteProtocolError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        record = await messages.record(position, session)
        if record is None:
            remark = f"can not find message by the offset, {position}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        fields = {**frame.fields, "brokerName": LOGICAL_QUEUE_BROKER}
        try:
            answer = await client.session.request(
                request(frame.code, fields, body=record), CONSUMER_S
            )
        except PeerTimedOut as error:
            remark = f"consumer <{client_id}> Timeout: {error}"
            raise Refused(ResponseCode.CONSUME_MSG_TIMEOUT, remark) from error
        except SessionClosed as error:
            remark = f"invoke consumer <{client_id}> Exception: {error}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from error
        return relayed(frame, answer)

    handlers.add(RequestCode.CONSUME_MESSAGE_DIRECTLY, typed(ConsumeMessageDirectly, consume))
