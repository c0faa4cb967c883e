"""The body of a batch send: entries one after another, without a count.

Topic, queue, sysFlag and born timestamp are those of the request; an entry carries the rest.
Source: RocketMQ 4.9.8, MessageDecoder.encodeMessages, decodeMessages.
"""

import struct
from collections.abc import Iterable
from typing import Final, final

import construct as cs
import msgspec

from ._errors import LocalProtocolError, RemoteProtocolError
from ._layout import fixed_prefix, fixed_struct

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


@final
class BatchEntry(msgspec.Struct, frozen=True, gc=False):
    """One message of a batch: its flag, body and property string."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    """The body of a batch send. Raises ``LocalProtocolError`` for an entry that does not fit."""
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


def decode_batch(data: bytes | bytearray | memoryview) -> list[BatchEntry]:
    """The entries of a batch body.

    Raises ``RemoteProtocolError`` naming the byte where an entry is cut off or its lengths do
    not add up.
    """
    entries: list[BatchEntry] = []
    position, end = 0, len(data)
    while position < end:
        if end - position < HEAD.size_bytes + TAIL.size_bytes:
            raise RemoteProtocolError(f"a batch entry at byte {position} is cut off")
        size, _, _, flag, body_size = HEAD.struct.unpack_from(data, position)
        body_at = position + HEAD.size_bytes
        body_end = body_at + body_size
        properties_at = body_end + TAIL.size_bytes
        if body_size < 0 or properties_at > end:
            raise RemoteProtocolError(f"a batch entry at byte {position} has a wrong body length")
        properties_size = max(TAIL.struct.unpack_from(data, body_end)[0], 0)
        next_position = properties_at + properties_size
        if next_position != position + size or next_position > end:
            raise RemoteProtocolError(f"a batch entry at byte {position} has wrong lengths")
        entries.append(
            BatchEntry(
                flag, bytes(data[body_at:body_end]), bytes(data[properties_at:next_position])
            )
        )
        position = next_position
    return entries
