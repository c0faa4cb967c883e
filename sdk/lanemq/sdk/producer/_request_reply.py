"""Messages that are answered: the request goes through a topic, the reply straight back.

A replier sends its reply to a broker, which pushes it over the connection of the producer that
asked. Source: RocketMQ 4.9.8, DefaultMQProducerImpl.request, MessageUtil, ClientRemotingProcessor.
"""

import uuid
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.wire import HostAddress, RequestCode, reply_topic
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.headers import ReplyMessage
from lanemq.wire.message import Property, StoredMessage

from .._errors import MessageRejected
from .._messages import Message, ReceivedMessage
from .._unpacking import unpack
from .._validate import check_kinds
from ..net._client import Client
from ..observe._log import get_logger
from ._outgoing import REPLY

LOGGER = get_logger("lanemq.sdk.request_reply", by_peers=True)


def reply_to(message: ReceivedMessage, body: bytes) -> Message:
    """Return the reply to a request; send it with any producer.

    Raises ``MessageRejected`` if ``message`` is not a request, or came through a broker that does
    not say to which cluster it belongs (those before 4.6).
    """
    asked = message.properties
    correlation_id = asked.get(Property.CORRELATION_ID)
    client_id = asked.get(Property.REPLY_TO_CLIENT)
    if correlation_id is None or client_id is None:
        raise MessageRejected(f"{message} is not a request: nobody waits for a reply to it")
    cluster = asked.get(Property.CLUSTER)
    if cluster is None:
        raise MessageRejected(
            f"{message} has no property {Property.CLUSTER}: its broker is too old for"
            " request-reply, or has it switched off"
        )
    properties = {
        Property.MSG_TYPE: REPLY,
        Property.CORRELATION_ID: correlation_id,
        Property.REPLY_TO_CLIENT: client_id,
    }
    if Property.TTL in asked:
        properties[Property.TTL] = asked[Property.TTL]
    return Message(topic=reply_topic(cluster), body=body, properties=properties)


REPLY_S_MAX: Final = ((1 << 31) - 1) / 1000
"""Longest wait for a reply: as milliseconds it goes with the request, for clients with 32 bits."""


def as_request(message: Message, expected: "ExpectedReply") -> Message:
    """Return ``message`` with the properties that let its reply find the way back."""
    check_kinds(message)
    return replace(message, properties={**message.properties, **expected.properties})


@final
class Replies:
    """The requests of one producer that wait for their replies."""

    def __init__(self, client: Client) -> None:
        self._client_id = client.client_id
        self._waiting: dict[str, trio.MemorySendChannel[ReceivedMessage]] = {}
        client.remoting.handle(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._take)

    def expect(self, timeout_s: float) -> "ExpectedReply":
        """Wait for a reply that may come from now on; use it in a ``with`` block."""
        return ExpectedReply(self._waiting, self._client_id, timeout_s)

    def _take(self, frame: Frame, address: str) -> Frame:
        """Take a reply, and drop a late one: PUSH_REPLY_MESSAGE_TO_CLIENT (326)."""
        reply = _received(ReplyMessage.from_fields(frame.fields), frame.body)
        correlation_id = reply.properties.get(Property.CORRELATION_ID, "")
        channel = self._waiting.pop(correlation_id, None)
        if channel is None:
            LOGGER.warning("%s: a reply that nobody waits for: %s", address, reply)
        else:
            channel.send_nowait(reply)
        return frame.reply()


@final
class ExpectedReply:
    """A request's claim to its reply."""

    def __init__(
        self,
        waiting: dict[str, trio.MemorySendChannel[ReceivedMessage]],
        client_id: str,
        timeout_s: float,
    ) -> None:
        self._waiting = waiting
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._correlation_id = str(uuid.uuid4())
        self._send, self._receive = trio.open_memory_channel[ReceivedMessage](1)

    def __enter__(self) -> "ExpectedReply":
        self._waiting[self._correlation_id] = self._send
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.pop(self._correlation_id, None)
        self._send.close()
        self._receive.close()

    @property
    def properties(self) -> dict[str, str]:
        """The properties that make a message the request for it."""
        return {
            Property.CORRELATION_ID: self._correlation_id,
            Property.REPLY_TO_CLIENT: self._client_id,
            Property.TTL: str(round(self._timeout_s * 1000)),
        }

    async def wait(self) -> ReceivedMessage:
        """Return the reply when it has come; never, if none comes."""
        reply = await self._receive.receive()
        await unpack((reply,))
        return reply


def _received(header: ReplyMessage, body: bytes) -> ReceivedMessage:
    """Return a reply in the form of every other message; it was not read from a log."""
    stored = StoredMessage(
        size_bytes=len(body),
        magic=0,
        body_crc=0,
        queue_id=header.queue_id,
        flag=header.flag,
        queue_offset=0,
        log_position=0,
        sys_flag=header.sys_flag,
        born_timestamp_ms=header.born_timestamp,
        born_host=HostAddress.parse(header.born_host),
        store_timestamp_ms=header.store_timestamp,
        store_host=HostAddress.parse(header.store_host),
        reconsume_times=header.reconsume_times or 0,
        prepared_transaction_offset=0,
        body=body,
        topic=header.topic,
        properties_data=(header.properties or "").encode(),
    )
    return ReceivedMessage(stored, MessageQueue(header.topic, "", header.queue_id))
