"""A message made ready for the wire, once for all attempts to send it.

Source: RocketMQ 4.9.8, DefaultMQProducerImpl.sendKernelImpl, MessageBatch.
"""

from collections.abc import Sequence
from typing import Any, Final, final

import msgspec

from lanemq.wire import (
    RETRY_PREFIX,
    Frame,
    MessageQueue,
    Property,
    RequestCode,
    SysFlag,
    UniqueKeys,
    compress_body,
)

from ._errors import MessageRejected
from ._messages import Message
from ._namespace import in_namespace
from ._options import ProducerOptions
from ._validate import check_properties, check_send_topic, check_size

# What the Java client since 4.9.4 sets; older consumers look at the first bit only.
COMPRESSED_FLAGS: Final = SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
SEND_REPLY: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)
DELAY_LEVEL_MAX: Final = 18
# Far more than brokers allow (3 days, by timerMaxDelaySec); keeps milliseconds in a Java long.
TIMER_MAX_S: Final = 100 * 366 * 86_400
REPLY: Final = "reply"


@final
class Outgoing(msgspec.Struct, gc=False):
    """Everything of a send request but queue and time."""

    topic: str
    message_id: str
    body: bytes
    properties: str
    code: int = SEND
    sys_flag: int = 0
    flag: int = 0
    reconsume_times: int = 0
    max_reconsume_times: int | None = None
    source: Message | Sequence[Message] = ()
    """What it was made of, for those who watch; nothing where it is not an application's."""
    span: Any = None
    """OpenTelemetry's, begun already; None without telemetry."""

    def frame(
        self, group: str, queue: MessageQueue, options: ProducerOptions, now_ms: int, flag: int
    ) -> Frame:
        """The request for ``queue``. Field names are letters: see spec of request code 310."""
        fields = {
            "a": group,
            "b": in_namespace(options.client.namespace, self.topic),
            "c": options.default_topic,
            "d": str(options.default_topic_queues),
            "e": str(queue.queue_id),
            "f": str(self.sys_flag),
            "g": str(now_ms),
            "h": str(self.flag),
            "i": self.properties,
            "j": str(self.reconsume_times),
            "k": "false",
            "m": "true" if self.code == SEND_BATCH else "false",
            "n": queue.broker_name,
        }
        if self.max_reconsume_times is not None:
            fields["l"] = str(self.max_reconsume_times)
        return Frame(self.code, 0, flag, fields, self.body)

    def add_property(self, name: str, value: str) -> None:
        """Give it a property that applications may not set themselves."""
        self.properties += f"{name}\x01{value}\x02"


def properties_text(message: Message, unique_key: str) -> str:
    """The property string of ``message``. Raises ``MessageRejected``."""
    text = f"{Property.UNIQ_KEY}\x01{unique_key}\x02"
    if message.tags:
        _check_text("tags", message.tags)
        text += f"{Property.TAGS}\x01{message.tags}\x02"
    if message.keys:
        if isinstance(message.keys, str):  # type: ignore[unreachable]
            raise MessageRejected(  # an easy slip; each letter would become a key
                "`keys` must be a tuple of texts, as keys=('order-1',)"
            )
        for key in message.keys:
            _check_text("keys", key)
            if not key or " " in key:
                raise MessageRejected(f"the key {key!r} is empty or holds a blank")
        text += f"{Property.KEYS}\x01{' '.join(message.keys)}\x02"
    if message.delay_level:
        if not 0 < message.delay_level <= DELAY_LEVEL_MAX:
            raise MessageRejected(
                f"delay_level must be from 0 to {DELAY_LEVEL_MAX}, not {message.delay_level}"
            )
        text += f"{Property.DELAY}\x01{message.delay_level}\x02"
    if message.delay_s is not None or message.deliver_at_ms is not None:
        text += _timer_text(message)
    if not message.wait:
        text += f"{Property.WAIT}\x01false\x02"
    if message.properties:
        check_properties(message.properties)
        for name, value in message.properties.items():
            text += f"{name}\x01{value}\x02"
    return text


def _timer_text(message: Message) -> str:
    """The property that asks a 5.x broker to hold ``message`` back."""
    ways = (message.delay_level or None, message.delay_s, message.deliver_at_ms)
    if sum(way is not None for way in ways) > 1:
        raise MessageRejected("give one of delay_level, delay_s and deliver_at_ms")
    if message.delay_s is not None:
        if not 0 <= message.delay_s <= TIMER_MAX_S:
            raise MessageRejected(f"delay_s must be from 0 to {TIMER_MAX_S}, not {message.delay_s}")
        return f"{Property.TIMER_DELAY_MS}\x01{round(message.delay_s * 1000)}\x02"
    if message.deliver_at_ms is not None and message.deliver_at_ms <= 0:
        raise MessageRejected(f"deliver_at_ms must be positive, not {message.deliver_at_ms}")
    return f"{Property.TIMER_DELIVER_MS}\x01{message.deliver_at_ms}\x02"


def _check_text(what: str, text: str) -> None:
    if "\x01" in text or "\x02" in text:
        raise MessageRejected(
            f"{what} hold the character 0x01 or 0x02, which RocketMQ uses to separate properties"
        )


def prepare(message: Message, options: ProducerOptions, keys: UniqueKeys, now_ms: int) -> Outgoing:
    """Check and encode one message. Raises ``MessageRejected`` or ``InvalidName``."""
    topic = message.topic
    check_send_topic(topic)
    if topic.startswith(RETRY_PREFIX):
        raise MessageRejected(f"{topic}: messages get into a retry topic by being consumed")
    span = None
    if options.client.telemetry:
        from ._telemetry import start_send  # may not be installed

        span, message = start_send(message)
    body, sys_flag = message.body, 0
    unique_key = keys.next(now_ms)
    properties = properties_text(message, unique_key)
    size = len(body)
    check_size(size, _utf8_bytes(properties), options.message_bytes_max)
    if size >= options.compress_from_bytes:
        compressed = compress_body(body, options.compress_level)
        if len(compressed) < size:
            body, sys_flag = compressed, COMPRESSED_FLAGS
    code = SEND
    if message.properties and message.properties.get(Property.MSG_TYPE) == REPLY:
        code = SEND_REPLY
    return Outgoing(
        topic, unique_key, body, properties, code, sys_flag, message.flag, source=message, span=span
    )


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
