"""Decoding of many records, one after another, as an answer to a pull has them."""

from collections.abc import Iterator
from struct import Struct
from typing import Final

from .._errors import RemoteProtocolError
from .._hosts import unpack_host
from ._message import HOSTS_V6, StoredMessage, decode_message, topic_of
from ._message_layout import HEADS, MAGIC_V1

HEAD_BYTES: Final = HEADS[0].size_bytes
# Looked up once: consumers spend a good part of their time here.
read_head = HEADS[0].struct.unpack_from
read_size = Struct(">i").unpack_from
ALWAYS_TAKEN: Final = 4096
"""Records that an answer may have whatever was asked for."""


def iter_messages(
    data: bytes | bytearray | memoryview, *, check_crc: bool = False
) -> Iterator[StoredMessage]:
    """Iterate over the records that fill ``data``, one after another; errors as
    ``decode_message``."""
    position, end = 0, len(data)
    while position < end:
        message = decode_message(data, position, check_crc=check_crc)
        yield message
        position += message.size_bytes


def check_number(data: bytes | bytearray | memoryview, asked: int) -> None:
    """Raise ``RemoteProtocolError`` where clearly more records follow each other than asked for.

    Apache's brokers answer no more than that (a batch of 5.x, of many messages, is one record
    here); but to refuse what a broker means well would stop a consumer, so there is much room.
    """
    most, position, end = max(ALWAYS_TAKEN, 4 * asked), 0, len(data)
    if end <= most * HEAD_BYTES:  # nearly always
        return
    for _ in range(most):
        if end - position < HEAD_BYTES:
            return
        (size,) = read_size(data, position)
        if size < HEAD_BYTES:
            return  # no record: whoever decodes it says so
        position += size
    if position < end:
        raise RemoteProtocolError(f"more than {most} messages, where {asked} were asked for")


def decode_messages(
    data: bytes | bytearray | memoryview, *, check_crc: bool = False, asked: int | None = None
) -> list[StoredMessage]:
    """Decode all records of a pull or query answer; errors as ``decode_message``.

    ``asked`` is the number of messages asked for: clearly more are an error, of which none is
    decoded.

    Records of version 1 with IPv4 hosts, which nearly all are, are read by one look at their
    head; any other one, and whatever is wrong in a record, is left to ``decode_message``.
    """
    if asked is not None:
        check_number(data, asked)
    if check_crc or not isinstance(data, bytes):
        return list(iter_messages(data, check_crc=check_crc))
    messages: list[StoredMessage] = []
    known_topic, topic = b"", ""
    position, end = 0, len(data)
    last_head = end - HEAD_BYTES
    while position < end:
        if position <= last_head:
            (
                size, magic, crc, queue_id, flag, queue_offset, log_position, sys_flag,
                born_ms, born_host, store_ms, store_host, reconsume_times, prepared_offset,
                body_size,
            ) = read_head(data, position)  # fmt: skip
            body_at, stop = position + HEAD_BYTES, position + size
            body_end = body_at + body_size
            # The sizes of topic and properties, 3 bytes, lie behind the body.
            if (
                magic == MAGIC_V1
                and body_size >= 0
                and body_end + 3 <= stop <= end
                and not sys_flag & HOSTS_V6
            ):
                topic_end = body_end + 1 + data[body_end]
                properties_at = topic_end + 2
                if (
                    properties_at <= stop
                    and data[body_end] < 0x80  # no sizes below 0, which mean something else
                    and data[topic_end] < 0x80
                    and properties_at + (data[topic_end] << 8 | data[topic_end + 1]) == stop
                ):
                    name = data[body_end + 1 : topic_end]
                    if name != known_topic:
                        topic, known_topic = topic_of(name, position), name
                    # By position: by names this takes as long as all the rest.
                    message = StoredMessage(
                        size, magic, crc, queue_id, flag, queue_offset, log_position, sys_flag,
                        born_ms, unpack_host(born_host), store_ms, unpack_host(store_host),
                        reconsume_times, prepared_offset, data[body_at:body_end], topic,
                        data[properties_at:stop],
                    )  # fmt: skip
                    messages.append(message)
                    position = stop
                    continue
        message = decode_message(data, position)
        messages.append(message)
        position += message.size_bytes
    return messages
