"""Messages that are stored together, and how many of them fit one request.

Source: RocketMQ 4.9.8, MessageBatch, and the list splitter of its examples.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from lanemq.wire import RETRY_PREFIX
from lanemq.wire.message import BatchEntry, Property, UniqueKeys, encode_batch

from .._errors import MessageRejected
from .._messages import Message, SendResult
from .._options import ProducerOptions
from .._validate import check_body, check_send_topic, check_size
from ._outgoing import SEND_BATCH, Outgoing, prepare, properties_text

if TYPE_CHECKING:
    from opentelemetry.trace import Span

ENTRY_BYTES = 22  # of an entry beside body and properties


def prepare_batch(
    messages: Sequence[Message], options: ProducerOptions, keys: UniqueKeys, now_ms: int
) -> Outgoing:
    """Check and encode messages that are stored together, one after another.

    Raises ``MessageRejected`` if they cannot be: no messages, several topics, a delay, or more
    than ``message_bytes_max`` together. Batches are not compressed: old consumers could not
    read them.
    """
    created, messages = _created(messages, options)
    entries, ids = _encode(messages, options, keys, now_ms)
    outgoing = _join(messages, entries, ids, keys, now_ms, created)
    if len(outgoing.body) > options.message_bytes_max:
        raise MessageRejected(
            f"the batch has {len(outgoing.body)} bytes, more than the {options.message_bytes_max}"
            " allowed; send it in parts, as `send_batches` does"
        )
    return outgoing


def prepare_batches(
    messages: Sequence[Message],
    options: ProducerOptions,
    keys: UniqueKeys,
    now_ms: int,
    *,
    batch_bytes: int,
) -> list[Outgoing]:
    """Return as few batches as hold ``messages`` in order, none longer than ``batch_bytes``.

    A message too long for a batch goes by itself. Raises as ``prepare_batch``.
    """
    created, messages = _created(messages, options)
    entries, ids = _encode(messages, options, keys, now_ms)
    sizes = [ENTRY_BYTES + len(entry.body) + len(entry.properties) for entry in entries]
    batches = []
    for part in split(sizes, batch_bytes):
        if part.stop - part.start == 1 and sizes[part.start] > batch_bytes:
            batches.append(prepare(messages[part.start], options, keys, now_ms))
        else:
            own = messages[part], entries[part], ids[part]
            batches.append(_join(*own, keys, now_ms, created))
    return batches


def split(sizes: Sequence[int], limit: int) -> Iterator[slice]:
    """Cut a row of ``sizes`` into consecutive parts of at most ``limit`` together.

    Every part is as long as can be; a size above the limit makes a part by itself.
    """
    start = total = 0
    for at, size in enumerate(sizes):
        if at > start and total + size > limit:
            yield slice(start, at)
            start, total = at, 0
        total += size
    if start < len(sizes):
        yield slice(start, len(sizes))


def _created(
    messages: Sequence[Message], options: ProducerOptions
) -> "tuple[Span | None, Sequence[Message]]":
    """Return, with telemetry, the span that ``messages`` belong to, and them with its context."""
    if not options.client.telemetry:
        return None, messages
    from ..observe._telemetry import create  # may not be installed

    return create(messages)


def _encode(
    messages: Sequence[Message], options: ProducerOptions, keys: UniqueKeys, now_ms: int
) -> tuple[list[BatchEntry], list[str]]:
    """Return the entries of a batch, and the unique keys of their messages."""
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
                f"a batch goes to one topic, this one to {topic} and {message.topic}:"
                " make a batch for each"
            )
        if message.is_delayed:
            raise MessageRejected("a message with a delay cannot be part of a batch")
        if message.wait != wait:
            raise MessageRejected("`wait` must be the same for all messages of a batch")
        unique_key = keys.next(now_ms)
        properties = properties_text(message, unique_key).encode()
        if type(message.body) is not bytes:
            check_body(message.body)
        check_size(len(message.body), len(properties), options.message_bytes_max)
        entries.append(BatchEntry(message.flag, message.body, properties))
        ids.append(unique_key)
    return entries, ids


def _join(
    messages: Sequence[Message],
    entries: Sequence[BatchEntry],
    ids: Sequence[str],
    keys: UniqueKeys,
    now_ms: int,
    created: "Span | None",
) -> Outgoing:
    span = None
    if created is not None:
        from ..observe._telemetry import start_batch  # may not be installed

        span = start_batch(created, messages)
    own = f"{Property.UNIQ_KEY}\x01{keys.next(now_ms)}\x02"
    if not messages[0].wait:
        own += f"{Property.WAIT}\x01false\x02"
    return Outgoing(
        messages[0].topic,
        ",".join(ids),
        encode_batch(entries),
        own,
        SEND_BATCH,
        source=messages,
        span=span,
    )


def each_of(result: SendResult, count: int) -> list[SendResult]:
    """Return the results of the messages of a batch."""
    ids, places = result.message_id.split(","), result.offset_id.split(",")
    if len(places) != count:  # a broker may say only where the first one is
        places = places[:1] + [""] * (count - 1)

    def behind(offset: int | None, number: int) -> int | None:
        return offset if offset is None or offset < 0 else offset + number

    return [
        msgspec.structs.replace(
            result,
            message_id=ids[number],
            offset_id=places[number],
            queue_offset=behind(result.queue_offset, number),
            origin_offset=behind(result.origin_offset, number),
        )
        for number in range(count)
    ]
