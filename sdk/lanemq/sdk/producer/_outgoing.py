"""A message made ready for the wire, once for all attempts to send it.

Source: RocketMQ 4.9.8, DefaultMQProducerImpl.sendKernelImpl, MessageBatch.
"""

from collections.abc import Sequence
from typing import Any, Final, final

import msgspec
import trio

from lanemq.wire import RETRY_PREFIX, RequestCode, SysFlag, Version
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.message import Property, UniqueKeys, compress_body

from .._errors import MessageRejected
from .._messages import DELAY_LEVEL_MAX, Message
from .._namespace import in_namespace
from .._options import Compression, ProducerOptions
from .._validate import (
    check_body,
    check_encodable,
    check_kinds,
    check_properties,
    check_send_topic,
    check_size,
)
from .._values import INT64_MAX, check_seconds, utf8_bytes
from ..observe._send_hooks import SendAttempt, SendKind

# The kind is what the Java client since 4.9.4 sets; older consumers look at the first bit only.
KINDS: Final = {
    Compression.ZLIB: SysFlag.COMPRESSION_ZLIB,
    Compression.LZ4: SysFlag.COMPRESSION_LZ4,
    Compression.ZSTD: SysFlag.COMPRESSION_ZSTD,
}
COMPRESSION_FLAGS: Final = SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK
SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
SEND_REPLY: Final = int(RequestCode.SEND_REPLY_MESSAGE_V2)
# Far more than brokers allow (3 days, by timerMaxDelaySec); keeps milliseconds in a Java long.
TIMER_MAX_S: Final = 100 * 366 * 86_400
REPLY: Final = "reply"


@final
class Outgoing(msgspec.Struct, gc=False):
    """A send request without queue and time."""

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
    """The message it was made of, for hooks; nothing where it is not an application's."""
    is_timed: bool = False
    """True if the broker has to know the timers of 5.x."""
    plain: bytes | None = None
    """The body before compression, where its kind depends on the broker; see ``compress_for``."""
    asks_version: bool = False
    """True if the broker's version has to be known before the message is sent."""
    span: Any = None
    """OpenTelemetry's, begun already; None without telemetry."""

    def frame(
        self,
        group: str,
        queue: MessageQueue,
        options: ProducerOptions,
        now_ms: int,
        flag: int,
        opaque: int = 0,
    ) -> Frame:
        """Return the request for ``queue``. Field names are letters: see spec of request code
        310."""
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
        return Frame(self.code, opaque, flag, fields, self.body)

    def compress_for(self, version: int, options: ProducerOptions) -> None:
        """Compress the body in the way that a broker of ``version`` knows."""
        assert self.plain is not None
        kind = options.compression if version >= Version.V5_0_0 else Compression.ZLIB
        if self.sys_flag & SysFlag.COMPRESSION_MASK == KINDS[kind]:  # as for the last attempt
            return
        self.sys_flag &= ~COMPRESSION_FLAGS
        self.body, flags = _compress(self.plain, kind, options.compress_level)
        self.sys_flag |= flags

    def attempt(self, group: str, queue: MessageQueue, address: str, now_ms: int) -> SendAttempt:
        """Describe an attempt that begins, for hooks."""
        source = self.source
        messages = (source,) if isinstance(source, Message) else tuple(source)
        kind = SendKind.NORMAL
        if self.sys_flag & SysFlag.TRANSACTION_MASK:
            kind = SendKind.HALF
        elif any(message.is_delayed for message in messages):
            kind = SendKind.DELAYED
        return SendAttempt(
            group=group,
            messages=messages,
            message_ids=tuple(self.message_id.split(",")),
            kind=kind,
            queue=queue,
            address=address,
            started_ms=now_ms,
            began_s=trio.current_time(),
        )

    def make_half(self, group: str) -> None:
        """Make this the half message of a transaction of ``group``."""
        self.sys_flag |= SysFlag.TRANSACTION_PREPARED
        self.add_property(Property.TRAN_MSG, "true")
        self.add_property(Property.PGROUP, group)

    def add_property(self, name: str, value: str) -> None:
        """Add a property that applications may not set themselves."""
        self.properties += f"{name}\x01{value}\x02"


def properties_text(message: Message, unique_key: str) -> str:
    """Return the property string of ``message``. Raises ``MessageRejected``."""
    text = f"{Property.UNIQ_KEY}\x01{unique_key}\x02"
    check_kinds(message)
    if message.tags:
        _check_text("tags", message.tags)
        text += f"{Property.TAGS}\x01{message.tags}\x02"
    if message.keys:
        for key in message.keys:
            _check_text("keys", key)
            if not key or " " in key:
                raise MessageRejected(f"the key {key!r} is empty or holds a blank")
        text += f"{Property.KEYS}\x01{' '.join(message.keys)}\x02"
    if message.delay_level:
        if not 0 <= message.delay_level <= DELAY_LEVEL_MAX:
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
    if utf8_bytes(text) is None:
        check_encodable(message)
    return text


def _timer_text(message: Message) -> str:
    """Return the property that asks a 5.x broker to hold ``message`` back."""
    ways = (message.delay_level or None, message.delay_s, message.deliver_at_ms)
    if sum(way is not None for way in ways) > 1:
        raise MessageRejected("give one of delay_level, delay_s and deliver_at_ms")
    if message.delay_s is not None:
        if not 0 <= message.delay_s <= TIMER_MAX_S:
            raise MessageRejected(f"delay_s must be from 0 to {TIMER_MAX_S}, not {message.delay_s}")
        return f"{Property.TIMER_DELAY_MS}\x01{round(message.delay_s * 1000)}\x02"
    if message.deliver_at_ms is not None and not 0 < message.deliver_at_ms <= INT64_MAX:
        raise MessageRejected(
            f"deliver_at_ms must be milliseconds since 1970, from 1 to {INT64_MAX}, not"
            f" {message.deliver_at_ms}"
        )
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
        from ..observe._telemetry import start_send  # may not be installed

        span, message = start_send(message)
    body, sys_flag = message.body, 0
    unique_key = keys.next(now_ms)
    properties = properties_text(message, unique_key)
    if type(body) is not bytes:
        check_body(body)
    size = len(body)
    check_size(size, utf8_bytes(properties) or 0, options.message_bytes_max)
    is_timed = message.delay_s is not None or message.deliver_at_ms is not None
    plain = None
    if size >= options.compress_from_bytes:
        if options.compression is Compression.ZLIB:
            body, sys_flag = _compress(body, Compression.ZLIB, options.compress_level)
        else:
            plain = body
    code = SEND
    if message.properties and message.properties.get(Property.MSG_TYPE) == REPLY:
        code = SEND_REPLY
    return Outgoing(
        topic,
        unique_key,
        body,
        properties,
        code,
        sys_flag,
        message.flag,
        0,
        None,
        message,
        is_timed,
        plain,
        plain is not None or (is_timed and not options.timers_at_any_broker),
        span,
    )


def seconds_within(timeout_s: float | None, options: ProducerOptions) -> float:
    """Return the seconds that a send may take. Raises ``WrongValue``."""
    if timeout_s is None:
        return options.send_timeout_s
    check_seconds("timeout_s", timeout_s, zero=True)
    return timeout_s


def _compress(body: bytes, kind: Compression, level: int) -> tuple[bytes, int]:
    """Return the compressed ``body`` and the flags of that; ``body`` where it is no shorter."""
    number = KINDS[kind]
    compressed = compress_body(body, level, kind=number)
    if len(compressed) < len(body):
        return compressed, SysFlag.COMPRESSED | number
    return body, 0
