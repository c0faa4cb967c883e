"""The body of a batch send: entries one after another, without a count.

Topic, queue, sysFlag and born timestamp are those of the request; an entry carries the rest.
Source: RocketMQ 4.9.8, MessageDecoder.encodeMessages, decodeMessages.
"""

import struct
from collections.abc import Iterable
from typing import Final, final

import construct as cs
import msgspec

from .._errors import LocalProtocolError, RemoteProtocolError
from .._layout import fixed_prefix, fixed_struct

BATCH_ENTRY: Final = cs.Struct(
    "size_bytes" / cs.Int32sb,  # of the whole entry, this field included
    "magic" / cs.Int32sb,  # 0, not checked
    "body_crc" / cs.Int32sb,  # 0, not checked
    "flag" / cs.Int32sb,
    "body_size" / cs.Int32sb,
    "body" / cs.Bytes(cs.this.body_size),
    "properties_size" / cs.Int16sb,
    "properties" / cs.Bytes(cs.this.properties_size),
)
HEAD: Final = fixed_prefix(BATCH_ENTRY)
TAIL: Final = fixed_struct(cs.Struct(BATCH_ENTRY.subcons[6]))
SEPARATOR: Final = 2  # behind each property
SEPARATOR_DATA: Final = bytes((SEPARATOR,))


@final
class BatchEntry(msgspec.Struct, frozen=True, gc=False):
    """One message of a batch: its flag, body and property string."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    """Return the body of a batch send. Raises ``LocalProtocolError`` for an entry that does not
    fit."""
    parts: list[bytes] = []
    try:
        for entry in entries:
            body_size, properties_size = len(entry.body), len(entry.properties)
            size = HEAD.size_bytes + body_size + TAIL.size_bytes + properties_size
            parts += (
                HEAD.struct.pack(size, 0, 0, entry.flag, body_size),
                entry.body,
                TAIL.struct.pack(properties_size),
                entry.properties,
            )
    except struct.error as error:
        raise LocalProtocolError(f"a batch entry does not fit its fields: {error}") from error
    return b"".join(parts)


def decode_batch(
    data: bytes | bytearray | memoryview, *, shared_properties: bytes = b""
) -> list[BatchEntry]:
    """Return the entries of a batch body; ``shared_properties`` stand behind the properties of
    each.

    Raises ``RemoteProtocolError`` naming the byte where an entry is cut off or its lengths do
    not add up.
    """
    entries: list[BatchEntry] = []
    data = bytes(data)
    position, end = 0, len(data)
    head_bytes, tail_bytes = HEAD.size_bytes, TAIL.size_bytes
    read_head, read_tail = HEAD.struct.unpack_from, TAIL.struct.unpack_from
    separated_properties = SEPARATOR_DATA + shared_properties
    while position < end:
        if end - position < head_bytes + tail_bytes:
            raise RemoteProtocolError(f"a batch entry at byte {position} is cut off")
        size, _, _, flag, body_size = read_head(data, position)
        body_at = position + head_bytes
        body_end = body_at + body_size
        properties_at = body_end + tail_bytes
        if body_size < 0 or properties_at > end:
            raise RemoteProtocolError(f"a batch entry at byte {position} has a wrong body length")
        properties_size = read_tail(data, body_end)[0]
        if properties_size < 0:
            properties_size = 0
        next_position = properties_at + properties_size
        if next_position != position + size or next_position > end:
            raise RemoteProtocolError(f"a batch entry at byte {position} has wrong lengths")
        properties = data[properties_at:next_position]
        if shared_properties:
            if properties and properties[-1] != SEPARATOR:
                properties += separated_properties
            else:
                properties += shared_properties
        entries.append(BatchEntry(flag, data[body_at:body_end], properties))
        position = next_position
    return entries


def count_batch(data: bytes, *, most: int) -> int:
    """Return the number of entries by their sizes, or ``most`` if there may be more.

    It costs a tenth of ``decode_batch``, which checks the sizes.
    """
    position, end, number = 0, len(data), 0
    head_bytes, read_head = HEAD.size_bytes, HEAD.struct.unpack_from
    while position + head_bytes <= end and number < most:
        position += max(read_head(data, position)[0], head_bytes)
        number += 1
    return number
