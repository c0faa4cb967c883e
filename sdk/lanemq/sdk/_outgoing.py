"""A message made ready for the wire, once for all attempts to send it.

Source: RocketMQ 4.9.8, DefaultMQProducerImpl.sendKernelImpl, MessageBatch.
"""

from collections.abc import Sequence
from typing import Final, final

import msgspec

from lanemq.wire import (
    RETRY_PREFIX,
    BatchEntry,
    Frame,
    MessageQueue,
    Property,
    RequestCode,
    SysFlag,
    UniqueKeys,
    compress_body,
    encode_batch,
)

from ._errors import MessageRejected
from ._messages import Message
from ._options import ProducerOptions
from ._validate import check_properties, check_send_topic, check_size

# What the Java client since 4.9.4 sets; older consumers look at the first bit only.
COMPRESSED_FLAGS: Final = SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
SEND_BATCH: Final = int(RequestCode.SEND_BATCH_MESSAGE)
DELAY_LEVEL_MAX: Final = 18


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

    def frame(
        self, group: str, queue: MessageQueue, options: ProducerOptions, now_ms: int, flag: int
    ) -> Frame:
        """The request for ``queue``. Field names are letters: see spec of request code 310."""
        fields = {
            "a": group,
            "b": self.topic,
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
    if not message.wait:
        text += f"{Property.WAIT}\x01false\x02"
    if message.properties:
        check_properties(message.properties)
        for name, value in message.properties.items():
            text += f"{name}\x01{value}\x02"
    return text


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
    body, sys_flag = message.body, 0
    unique_key = keys.next(now_ms)
    properties = properties_text(message, unique_key)
    size = len(body)
    check_size(size, _utf8_bytes(properties), options.message_bytes_max)
    if size >= options.compress_from_bytes:
        compressed = compress_body(body, options.compress_level)
        if len(compressed) < size:
            body, sys_flag = compressed, COMPRESSED_FLAGS
    return Outgoing(topic, unique_key, body, properties, SEND, sys_flag, message.flag)


def prepare_batch(
    messages: Sequence[Message], options: ProducerOptions, keys: UniqueKeys, now_ms: int
) -> Outgoing:
    """Check and encode messages that are stored together, one after another.

    Raises ``MessageRejected`` if they cannot be: no messages, several topics, a delay, or more
    than ``message_bytes_max`` together. Batches are not compressed: old consumers could not
    read them.
    """
    if not messages:
        raise MessageRejected("a batch needs at least one message")
    topic, wait = messages[0].topic, messages[0].wait
    check_send_topic(topic)
    if topic.startswith(RETRY_PREFIX):
        raise MessageRejected(f"{topic}: messages get into a retry topic by being consumed")
    entries, ids = [], []
    for message in messages:
        if message.topic != topic:
            raise MessageRejected(
                f"a batch goes to one topic, this one to {topic} and {message.topic}"
            )
        if message.delay_level:
            raise MessageRejected("a message with a delay level cannot be part of a batch")
        if message.wait != wait:
            raise MessageRejected("`wait` must be the same for all messages of a batch")
        unique_key = keys.next(now_ms)
        properties = properties_text(message, unique_key).encode()
        check_size(len(message.body), len(properties), options.message_bytes_max)
        entries.append(BatchEntry(message.flag, message.body, properties))
        ids.append(unique_key)
    body = encode_batch(entries)
    if len(body) > options.message_bytes_max:
        raise MessageRejected(
            f"the batch has {len(body)} bytes, more than the {options.message_bytes_max} allowed;"
            " send it in parts"
        )
    own = f"{Property.UNIQ_KEY}\x01{keys.next(now_ms)}\x02"
    if not wait:
        own += f"{Property.WAIT}\x01false\x02"
    return Outgoing(topic, ",".join(ids), body, own, SEND_BATCH)


def _utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
