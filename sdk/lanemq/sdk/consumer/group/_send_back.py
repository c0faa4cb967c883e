"""Send-back: has a message delivered again later, or put with the dead letters.

Source: RocketMQ 4.9.8, DefaultMQPushConsumerImpl.sendMessageBack.
"""

from typing import Final, final

from lanemq.wire import SysFlag, SystemGroup, retry_topic
from lanemq.wire.message import Property, encode_properties

from ..._errors import LanemqError
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

    async def send(self, message: ReceivedMessage, *, delay_level: int = 0) -> bool:
        """Send a message back; return whether it will come again, or is with the dead letters.

        ``delay_level`` 0 lets the broker choose: level 3 (10 s) at first, one more each time.
        """
        return await self._send(message, delay_level, self._max_reconsume_times)

    async def dead_letter(self, message: ReceivedMessage) -> bool:
        """Send a message to the dead letters; return whether it is there."""
        return await self._send(message, DEAD_LETTER, 0)

    async def _send(self, message: ReceivedMessage, level: int, times_max: int) -> bool:
        try:
            await self._calls.send_back(message, delay_level=level, max_reconsume_times=times_max)
        except LanemqError as error:
            LOGGER.warning("%s: cannot be sent back, sending a copy: %s", message, error)
            return await self._send_copy(message, times_max)
        return True

    async def _send_copy(self, message: ReceivedMessage, times_max: int) -> bool:
        stored = message.stored
        properties = dict(message.properties)
        # Made by the broker for the delivery that just failed; they would mislead the next.
        for name in (Property.REAL_TOPIC, Property.REAL_QID, Property.TRAN_MSG, Property.WAIT):
            properties.pop(name, None)
        properties.setdefault(Property.RETRY_TOPIC, message.full_topic)
        properties.setdefault(Property.ORIGIN_MESSAGE_ID, message.message_id)
        properties[Property.DELAY] = str(FIRST_DELAY_LEVEL + message.reconsume_times)
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
            LOGGER.error("%s: neither send-back nor a copy worked: %s", message, error)
            return False
        return True
