"""Write the records of stored messages."""

import struct
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from .._errors import LocalProtocolError
from .._sys_flags import SysFlag
from ._batch import BatchEntry
from ._message import CRC_MASK, INT16, StoredMessage
from ._message_layout import (
    HEADS,
    HOSTS,
    MAGIC_V1,
    MAGIC_V2,
    MAX_PROPERTIES_BYTES,
    MAX_V1_TOPIC_BYTES,
)

LENGTH_SIZE: Final = INT16.size

# Packed host sizes -> (packer of the head, its size in bytes, bits of the sysFlag that say so)
_PACKERS = {
    (20 if hosts & SysFlag.BORN_HOST_V6 else 8, 20 if hosts & SysFlag.STORE_HOST_V6 else 8): (
        HEADS[hosts].struct.pack,
        HEADS[hosts].size_bytes,
        hosts,
    )
    for hosts in HOSTS
}
_CLEAR_HOSTS = ~SysFlag.HOSTS_V6_MASK

# The same head in three parts, the middle one of which all messages of a batch share.
_SHARED_AT: Final = 36  # the sysFlag: before it are sizes, numbers and places of the message
_BODY_SIZE_BYTES: Final = 4


@lru_cache(maxsize=len(_PACKERS))
def _batch_packer(head_bytes: int) -> Callable[..., bytes]:
    """Return the packer of a head whose shared fields are packed already."""
    shared_bytes = head_bytes - _SHARED_AT - _BODY_SIZE_BYTES
    packer = struct.Struct(f">iiIiiqq{shared_bytes}si")
    assert packer.size == head_bytes
    return packer.pack


def encode_record(
    *,
    topic: bytes,
    body: bytes,
    properties: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    log_position: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: bytes,
    store_timestamp_ms: int,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
) -> bytes:
    """Return the record of a message to store; made for the hot path of a broker.

    Hosts are packed (``HostAddress.packed``); their sizes decide the IPv6 bits of the stored
    sysFlag, whatever ``sys_flag`` has there. The checksum is computed here. A topic of more than
    127 bytes gives a version 2 record, which only 5.x can read.

    Raises ``LocalProtocolError`` for a value that does not fit its field.
    """
    topic_size, body_size, properties_size = len(topic), len(body), len(properties)
    try:
        pack, head_size, hosts = _PACKERS[len(born_host), len(store_host)]
        if topic_size <= MAX_V1_TOPIC_BYTES:
            magic, topic_length = MAGIC_V1, topic_size.to_bytes(1, "big")
        else:
            magic, topic_length = MAGIC_V2, INT16.pack(topic_size)
        size = (
            head_size + body_size + len(topic_length) + topic_size + LENGTH_SIZE + properties_size
        )
        return b"".join(
            (
                pack(
                    size,
                    magic,
                    zlib.crc32(body) & CRC_MASK,
                    queue_id,
                    flag,
                    queue_offset,
                    log_position,
                    sys_flag & _CLEAR_HOSTS | hosts,
                    born_timestamp_ms,
                    born_host,
                    store_timestamp_ms,
                    store_host,
                    reconsume_times,
                    prepared_transaction_offset,
                    body_size,
                ),
                body,
                topic_length,
                topic,
                INT16.pack(properties_size),
                properties,
            )
        )
    except (KeyError, OverflowError, struct.error) as error:
        raise LocalProtocolError(_why(error, born_host, store_host, properties_size)) from error


def encode_batch_records(
    *,
    topic: bytes,
    entries: Sequence[BatchEntry],
    sizes: Sequence[int],
    queue_id: int,
    queue_offset: int,
    log_position: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: bytes,
    store_timestamp_ms: int,
    store_host: bytes,
    reconsume_times: int = 0,
) -> list[bytes]:
    """Return the records of a batch, one behind the other, in pieces that are to be joined.

    Byte for byte what ``encode_record`` makes of each message: the first has ``queue_offset``
    and ``log_position``, the next follow. ``sizes`` are the bytes of each record, in whole.
    Errors as there.
    """
    topic_size = len(topic)
    checksum, pack_size = zlib.crc32, INT16.pack
    pieces: list[bytes] = []
    entry = None
    try:
        pack_head, head_bytes, hosts = _PACKERS[len(born_host), len(store_host)]
        if topic_size <= MAX_V1_TOPIC_BYTES:
            magic, topic_data = MAGIC_V1, topic_size.to_bytes(1, "big") + topic
        else:
            magic, topic_data = MAGIC_V2, pack_size(topic_size) + topic
        shared = pack_head(
            *(0, 0, 0, 0, 0, 0, 0, sys_flag & _CLEAR_HOSTS | hosts, born_timestamp_ms, born_host),
            *(store_timestamp_ms, store_host, reconsume_times, 0, 0),
        )[_SHARED_AT:-_BODY_SIZE_BYTES]
        pack = _batch_packer(head_bytes)
        properties_size, between = -1, b""  # topic and size of the properties, mostly the same
        for entry, size in zip(entries, sizes, strict=True):
            flag, body, properties = entry.flag, entry.body, entry.properties
            crc = checksum(body) & CRC_MASK
            if len(properties) != properties_size:
                properties_size = len(properties)
                between = topic_data + pack_size(properties_size)
            head = pack(
                size, magic, crc, queue_id, flag, queue_offset, log_position, shared, len(body)
            )
            pieces += (head, body, between, properties)
            queue_offset += 1
            log_position += size
    except (KeyError, OverflowError, struct.error) as error:
        properties_size = len(entry.properties) if entry is not None else 0
        raise LocalProtocolError(_why(error, born_host, store_host, properties_size)) from error
    return pieces


def _why(error: Exception, born_host: bytes, store_host: bytes, properties_size: int) -> str:
    if isinstance(error, KeyError):
        return f"packed hosts have 8 or 20 bytes, not {len(born_host)} and {len(store_host)}"
    if properties_size > MAX_PROPERTIES_BYTES:
        return f"properties of {properties_size} bytes, at most {MAX_PROPERTIES_BYTES} fit"
    return f"a value does not fit its field: {error}"


def encode_message(message: StoredMessage) -> bytes:
    """Return the record of ``message``, byte for byte the one it was decoded from.

    Unlike ``encode_record`` it keeps magic and checksum as they are; the size is computed.
    Raises ``LocalProtocolError`` for a value that does not fit its field.
    """
    born_host, store_host = message.born_host.packed, message.store_host.packed
    topic, properties = message.topic.encode(), message.properties_data
    topic_size_bytes = 1 if message.magic == MAGIC_V1 else 2
    try:
        pack, head_size, hosts = _PACKERS[len(born_host), len(store_host)]
        tail = b"".join(
            (
                message.body,
                len(topic).to_bytes(topic_size_bytes, "big", signed=True),
                topic,
                INT16.pack(len(properties)),
                properties,
            )
        )
        head = pack(
            head_size + len(tail),
            message.magic,
            message.body_crc,
            message.queue_id,
            message.flag,
            message.queue_offset,
            message.log_position,
            message.sys_flag & _CLEAR_HOSTS | hosts,
            message.born_timestamp_ms,
            born_host,
            message.store_timestamp_ms,
            store_host,
            message.reconsume_times,
            message.prepared_transaction_offset,
            len(message.body),
        )
    except (KeyError, OverflowError, struct.error) as error:
        raise LocalProtocolError(_why(error, born_host, store_host, len(properties))) from error
    return head + tail
