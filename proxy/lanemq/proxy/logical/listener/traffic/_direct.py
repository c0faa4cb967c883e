"""Direct consumption (309): an operator hands one message to one consumer.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.consumeMessageDirectly, callConsumer.
"""

from typing import Final, final

from attrs import define

from lanemq.wire import Refused, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import ConsumeMessageDirectly
from lanemq.wire.message import decode_offset_id

from ....broker.state._clients import ClientRegistry
from ....net._dispatch import Handlers, typed
from ....net._session import PeerTimedOut, Session, SessionClosed
from ..brokers._brokers import relayed
from ..port._context import ListenerContext
from ._messages import Messages

CONSUMER_S: Final = 10.0


@final
@define(eq=False, kw_only=True, repr=False)
class DirectConsumption:
    """The handler of one port."""

    _broker_name: str
    _clients: ClientRegistry[Session]
    _messages: Messages

    async def consume(
        self, header: ConsumeMessageDirectly, frame: Frame, session: Session
    ) -> Frame:
        """Find the message, wherever it is, and answer the consumer's result."""
        name, client_id = header.consumer_group, header.client_id or ""
        group = self._clients.consumer_group(name)
        client = group.find(client_id) if group is not None else None
        if client is None:
            remark = f"The Consumer <{name}> <{client_id}> not online"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        try:
            _, position = decode_offset_id(header.msg_id or "")
        except RemoteProtocolError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        record = await self._messages.record(position)
        if record is None:
            remark = f"can not find message by the offset, {position}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        fields = {**frame.fields, "brokerName": self._broker_name}
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


def register(handlers: Handlers, listener: ListenerContext, messages: Messages) -> None:
    """Register request 309."""
    direct = DirectConsumption(
        broker_name=listener.queues.broker_name,
        clients=listener.broker.clients,
        messages=messages,
    )
    handlers.add(
        RequestCode.CONSUME_MESSAGE_DIRECTLY, typed(ConsumeMessageDirectly, direct.consume)
    )
