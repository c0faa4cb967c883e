"""Stored messages: records to values. The way back is in ``_message_writer``."""

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final, final

import msgspec

from .._errors import RemoteProtocolError
from .._hosts import HostAddress, unpack_host
from .._sys_flags import SysFlag
from ._compression import MAX_BODY_BYTES, decompress_body
from ._ids import encode_offset_id
from ._message_layout import EPILOGUES, MAGIC_V1, MAGIC_V2, PROLOGUE
from ._properties import KEY_SEPARATOR, Property, decode_properties

CRC_MASK: Final = 0x7FFFFFFF
HOSTS_V6: Final = int(SysFlag.HOSTS_V6_MASK)
INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
PROLOGUE_BYTES: Final = PROLOGUE.size_bytes

# Looked up once: consumers spend a good part of their time here.
read_int8 = struct.Struct(">b").unpack_from
read_int16 = INT16.unpack_from
read_prologue = PROLOGUE.struct.unpack_from
# Host bits of the sysFlag -> reader of the fields from there to the body, size of the whole head
EPILOGUE_READERS: Final = {
    hosts: (layout.struct.unpack_from, PROLOGUE_BYTES + layout.size_bytes)
    for hosts, layout in EPILOGUES.items()
}

HEAD_BYTES_MAX: Final = max(size for _, size in EPILOGUE_READERS.values())


def body_crc(body: bytes) -> int:
    """Return the checksum of a record: CRC-32 of the body as stored, without the sign bit."""
    return zlib.crc32(body) & CRC_MASK


@final
class StoredMessage(msgspec.Struct, frozen=True, gc=False):
    """One message with what its broker knows about it.

    Sizes count bytes; ``queue_offset`` counts messages of one queue, ``log_position`` bytes of
    the commit log. ``body`` is as stored, perhaps compressed; ``properties_data`` likewise is
    the string of the record. The bits of ``sys_flag`` for IPv6 hosts agree with the hosts.
    Source: RocketMQ 4.9.8, MessageExt.
    """

    size_bytes: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    log_position: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: HostAddress
    store_timestamp_ms: int
    store_host: HostAddress
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: str
    properties_data: bytes

    @property
    def properties(self) -> dict[str, str]:
        """Parsed at each call: keep the result where it is used twice."""
        return decode_properties(self.properties_data)

    @property
    def tags(self) -> str | None:
        return self.properties.get(Property.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        text = self.properties.get(Property.KEYS, "")
        return tuple(key for key in text.split(KEY_SEPARATOR) if key)

    @property
    def unique_key(self) -> str | None:
        """The message id as clients since 4.0 show it."""
        return self.properties.get(Property.UNIQ_KEY)

    @property
    def offset_id(self) -> str:
        """The id that names the broker and the place in its log."""
        return encode_offset_id(self.store_host, self.log_position)

    def decompressed_body(self, *, max_bytes: int = MAX_BODY_BYTES) -> bytes:
        """Return the body as the application gave it; errors as ``decompress_body``."""
        return decompress_body(self.sys_flag, self.body, max_bytes=max_bytes)


def record_size(data: bytes | bytearray | memoryview, position: int = 0) -> int:
    """Return the size in bytes that the record at ``position`` claims, checked against its parts.

    Raises ``RemoteProtocolError`` as ``decode_message`` does. Nothing else is looked at.
    """
    prologue, *_ = _parts(data, position)
    size: int = prologue[0]
    return size


def _parts(
    data: bytes | bytearray | memoryview, position: int
) -> tuple[tuple[Any, ...], tuple[Any, ...], int, int, int, int, int]:
    """Return the fields up to the sysFlag, those from there to the body, and where the rest is.

    Where: body start, body end, topic start, topic end, properties start.
    """
    available = len(data) - position
    if position < 0 or available < PROLOGUE_BYTES:
        raise RemoteProtocolError(f"a record at byte {position} is cut off in its head")
    prologue = read_prologue(data, position)
    size, magic, hosts = prologue[0], prologue[1], prologue[7] & HOSTS_V6
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        raise RemoteProtocolError(f"a record at byte {position} has magic {magic & 0xFFFFFFFF:#x}")
    read_epilogue, head_size = EPILOGUE_READERS[hosts]
    if size > available or size < head_size:
        raise RemoteProtocolError(
            f"a record at byte {position} claims {size} bytes, {available} are there"
        )
    epilogue = read_epilogue(data, position + PROLOGUE_BYTES)
    end = position + size
    body_at = position + head_size
    body_end = body_at + epilogue[6]
    topic_at = body_end + (1 if magic == MAGIC_V1 else 2)
    if body_end < body_at or topic_at > end:
        raise RemoteProtocolError(f"a record at byte {position} has a wrong body length")
    read_size = read_int8 if magic == MAGIC_V1 else read_int16
    topic_end = topic_at + read_size(data, body_end)[0]
    properties_at = topic_end + 2
    if topic_end < topic_at or properties_at > end:
        raise RemoteProtocolError(f"a record at byte {position} has a wrong topic length")
    # Readers take a negative length for "no properties", and so does a broker's recovery.
    properties_size = read_int16(data, topic_end)[0]
    if properties_at + (properties_size if properties_size > 0 else 0) != end:
        raise RemoteProtocolError(f"a record at byte {position} has a wrong properties length")
    return prologue, epilogue, body_at, body_end, topic_at, topic_end, properties_at


def record_properties(data: bytes | bytearray | memoryview, position: int = 0) -> bytes:
    """Return the property string of the record at ``position``; nothing else is decoded.

    Raises ``RemoteProtocolError`` as ``decode_message`` does.
    """
    prologue, *_, properties_at = _parts(data, position)
    return bytes(data[properties_at : position + prologue[0]])


def record_content(data: bytes, position: int = 0) -> tuple[int, bytes, bytes]:
    """Return the store time, body and property string of the record at ``position``; nothing else.

    Raises ``RemoteProtocolError`` as ``decode_message`` does.
    """
    prologue, epilogue, body_at, body_end, _, _, properties_at = _parts(data, position)
    end = position + prologue[0]
    return epilogue[2], data[body_at:body_end], data[properties_at:end]


def record_outline(size: int, read: Callable[[int, int], bytes]) -> tuple[int, bytes]:
    """Return the store time and property string of a record of ``size`` bytes, without its body.

    ``read`` returns so many bytes of the record from a place in it on. Raises
    ``RemoteProtocolError`` as ``decode_message`` does.
    """
    head = read(0, min(size, HEAD_BYTES_MAX))
    if len(head) < PROLOGUE_BYTES:
        raise RemoteProtocolError("a record is cut off in its head")
    prologue = read_prologue(head, 0)
    read_epilogue, head_size = EPILOGUE_READERS[prologue[7] & HOSTS_V6]
    if prologue[0] != size or len(head) < head_size:
        raise RemoteProtocolError(f"a record of {size} bytes claims {prologue[0]}")
    body_size = read_epilogue(head, PROLOGUE_BYTES)[6]
    if not 0 <= body_size <= size - head_size:
        raise RemoteProtocolError("a record has a wrong body length")
    rest = read(head_size + body_size, size - head_size - body_size)
    bare_size = INT32.pack(size - body_size)
    bare = bare_size + head[INT32.size : head_size - INT32.size] + INT32.pack(0) + rest
    store_ms, _, properties = record_content(bare)
    return store_ms, properties


def topic_of(data: bytes | bytearray | memoryview, position: int) -> str:
    """Decode the topic of the record at ``position``. Raises ``RemoteProtocolError``."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"a record at byte {position} has a bad topic: {error}") from None


def decode_message(
    data: bytes | bytearray | memoryview, position: int = 0, *, check_crc: bool = False
) -> StoredMessage:
    """Read the record that begins at byte ``position``; bytes after its end are ignored.

    Raises ``RemoteProtocolError`` where the record is cut off, has no known magic, its lengths
    do not add up, its topic is not UTF-8 or, if ``check_crc``, its body is not the one that
    was stored.
    """
    prologue, epilogue, body_at, body_end, topic_at, topic_end, properties_at = _parts(
        data, position
    )
    size, magic, crc, queue_id, flag, queue_offset, log_position, sys_flag = prologue
    born_ms, born_host, store_ms, store_host, reconsume_times, prepared_offset, _ = epilogue
    body = bytes(data[body_at:body_end])
    if check_crc and crc != body_crc(body):
        raise RemoteProtocolError(f"a record at byte {position} has a body that fails its CRC")
    return StoredMessage(
        size_bytes=size,
        magic=magic,
        body_crc=crc,
        queue_id=queue_id,
        flag=flag,
        queue_offset=queue_offset,
        log_position=log_position,
        sys_flag=sys_flag,
        born_timestamp_ms=born_ms,
        born_host=unpack_host(born_host),
        store_timestamp_ms=store_ms,
        store_host=unpack_host(store_host),
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_offset,
        body=body,
        topic=topic_of(data[topic_at:topic_end], position),
        properties_data=bytes(data[properties_at : position + size]),
    )
