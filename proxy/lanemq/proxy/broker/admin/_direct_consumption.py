"""CONSUME_MESSAGE_DIRECTLY (309): a stored message is handed to one consumer."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import final

from attrs import define

from lanemq.wire import Refused, RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import ConsumeMessageDirectly
from lanemq.wire.message import decode_offset_id

from ...net._dispatch import Handlers, typed
from ...net._session import Session
from ...sessions.values._rights import RightsOf
from ...sessions.values._touched import may_read_record, require_reading_record
from ..context._context import BrokerContext
from ..handlers.pulls._old_readers import for_reader
from ._relay import Relay


@final
@define(eq=False, kw_only=True, repr=False)
class DirectConsumption:
    """Direct consumption (309): an operator hands one stored message to one consumer, outside its
    queue.

    Source: RocketMQ 4.9.8, AdminBrokerProcessor.consumeMessageDirectly.
    """

    _broker_name: str
    _rights: RightsOf
    _record_at: Callable[[int], Awaitable[bytes | None]]
    """The record at a position, as the port's clients see it; None if there is none."""
    _relay: Relay

    async def consume(
        self, header: ConsumeMessageDirectly, frame: Frame, session: Session
    ) -> Frame:
        """Find the message, and answer the consumer's result. Raises ``Refused``.

        The operator needs the right to read the message, and so does the consumer: without it, it
        is not online for this message.
        """
        self._relay.find(header.consumer_group, header.client_id)
        try:
            _, log_position = decode_offset_id(header.msg_id or "")
        except RemoteProtocolError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        record = await self._record_at(log_position)
        if record is None:
            remark = f"can not find message by the offset, {log_position}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        require_reading_record(self._rights(frame, session), record)
        may_have = partial(may_read_record, record=record)
        client = self._relay.find(header.consumer_group, header.client_id, may_have)
        fields = dict(frame.fields) | {"brokerName": self._broker_name}
        return await self._relay.relay(frame, client, fields, for_reader(record, client.version))


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register request 309."""

    async def stored(position: int) -> bytes | None:
        return broker.store.record_at(position, queued=True)

    direct = DirectConsumption(
        broker_name=broker.config.broker_name,
        record_at=stored,
        relay=Relay(clients=broker.clients, rights_of=broker.rights_of),
        rights=broker.rights,
    )
    handlers.add(
        RequestCode.CONSUME_MESSAGE_DIRECTLY, typed(ConsumeMessageDirectly, direct.consume)
    )
