"""Send-back: has a message delivered again later, or put with the dead letters.

A broker that is asked to send a message back takes no properties. So a dead letter is sent as a
copy that says why it died; a broker that refuses the copy is asked for a dead letter without.

Source: RocketMQ 4.9.8, DefaultMQPushConsumerImpl.sendMessageBack.
"""

from collections.abc import Mapping
from typing import Final, final

from lanemq.wire import SysFlag, SystemGroup, retry_topic
from lanemq.wire.message import Property, encode_properties

from ..._errors import LanemqError, RefusedByBroker
from ..._messages import ReceivedMessage
from ..._options import ProducerOptions
from ...net._client import Client
from ...observe._log import get_logger
from ...producer._outgoing import SEND, Outgoing
from ...producer._sender import Sender
from ._group_calls import GroupCalls

LOGGER = get_logger("lanemq.sdk.listener")

DEAD_LETTER: Final = -1  # instead of a delay level
FIRST_DELAY_LEVEL: Final = 3  # level of the first delivery again; each later one is longer
FALLBACK_TIMEOUT_S: Final = 3.0
# The flags of the body's form stay; those that the broker set for the message do not.
BODY_FLAGS: Final = SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK


@final
class SendBack:
    """Asks the broker that has the message; if that fails, sends a copy to any broker."""

    def __init__(
        self, client: Client, calls: GroupCalls, group: str, *, max_reconsume_times: int
    ) -> None:
        self._calls = calls
        self._topic = retry_topic(group)
        self._max_reconsume_times = max_reconsume_times
        options = ProducerOptions(client=client.options)
        self._sender = Sender(client, SystemGroup.CLIENT_INNER_PRODUCER, options)

    async def send(self, message: ReceivedMessage, *, delay_level: int = 0) -> LanemqError | None:
        """Send a message back, to come again or, after too many times, to the dead letters.

        Returns what kept it from that, if anything did: neither this nor a copy worked.

        ``delay_level`` 0 lets the broker choose: level 3 (10 s) at first, one more each time.
        """
        times_max = self._max_reconsume_times
        if message.reconsume_times >= times_max:
            return await self.dead_letter(message)
        error = await self._send_back(message, delay_level, times_max)
        if error is None:
            return None
        LOGGER.warning("%s: cannot be sent back, sending a copy: %s", message, error)
        delay = str(FIRST_DELAY_LEVEL + message.reconsume_times)
        return _logged(message, await self._send_copy(message, times_max, {Property.DELAY: delay}))

    async def dead_letter(self, message: ReceivedMessage) -> LanemqError | None:
        """Send a message to the dead letters; returns what kept it from there."""
        why = {
            Property.DLQ_REASON: message.failure or "",
            Property.DLQ_ATTEMPTS: str(message.reconsume_times + 1),
        }
        error = await self._send_copy(message, 0, why)
        if error is None:
            return None
        LOGGER.warning("%s: becomes a dead letter without its reason: %s", message, error)
        return _logged(message, await self._send_back(message, DEAD_LETTER, 0))

    async def _send_back(
        self, message: ReceivedMessage, level: int, times_max: int
    ) -> LanemqError | None:
        try:
            await self._calls.send_back(message, delay_level=level, max_reconsume_times=times_max)
        except LanemqError as error:
            return error
        return None

    async def _send_copy(
        self, message: ReceivedMessage, times_max: int, added: Mapping[str, str]
    ) -> LanemqError | None:
        stored = message.stored
        properties = dict(message.properties)
        # Made by the broker for the delivery that just failed; they would mislead the next.
        for name in (Property.REAL_TOPIC, Property.REAL_QID, Property.TRAN_MSG, Property.WAIT):
            properties.pop(name, None)
        properties.setdefault(Property.RETRY_TOPIC, message.full_topic)
        properties.setdefault(Property.ORIGIN_MESSAGE_ID, message.message_id)
        properties.pop(Property.DELAY, None)
        properties |= added
        properties.pop(Property.RECONSUME_TIME, None)  # these two travel in the header
        properties.pop(Property.MAX_RECONSUME_TIMES, None)
        outgoing = Outgoing(
            topic=self._topic,
            message_id=message.message_id,
            body=stored.body,
            properties=encode_properties(properties).decode(),
            code=SEND,
            sys_flag=stored.sys_flag & BODY_FLAGS,
            flag=stored.flag,
            reconsume_times=message.reconsume_times + 1,
            max_reconsume_times=times_max,
        )
        try:
            await self._sender.send(outgoing, None, FALLBACK_TIMEOUT_S)
        except LanemqError as error:
            return error
        return None


def _logged(message: ReceivedMessage, error: LanemqError | None) -> LanemqError | None:
    if error is not None:
        LOGGER.error("%s: neither send-back nor a copy worked: %s", message, error)
    return error


def is_final(error: LanemqError) -> bool:
    """Return whether a message will be refused again: by its size, or for want of rights."""
    return isinstance(error, RefusedByBroker) and not error.retriable
