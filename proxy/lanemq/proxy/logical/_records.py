"""Stored messages on their way through a logical listener, rewritten in place.

A record is stored with the physical queue's id and offset, the broker's address and its place
in that broker's log. A client of a logical queue has to see the queue's own numbers, an address
where its requests are understood, and a position that says whose it is (see ``_positions``).
These four have fixed places in a record, and its body's checksum covers none of them.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from msgspec.structs import replace

from lanemq.wire import (
    HostAddress,
    RemoteProtocolError,
    SysFlag,
    decode_message,
    encode_message,
)

from ._positions import tagged

_SIZE: Final = Struct(">i")
_QUEUE_ID: Final = Struct(">i")
_OFFSET_AND_POSITION: Final = Struct(">qq")
_SYS_FLAG: Final = Struct(">i")
_QUEUE_ID_AT: Final = 12
_OFFSET_AT: Final = 20
_SYS_FLAG_AT: Final = 36
_STORE_HOST_AT: Final = 64  # where the sender's address has 4 bytes, else 12 later
_V6_EXTRA: Final = 12
_LEAST_BYTES: Final = 91


def rewrite_records(
    records: bytes | memoryview,
    *,
    place: Callable[[int, int], tuple[int, int]],
    tag: int,
    store_host: bytes,
) -> bytes:
    """The records of an answer as a client of logical queues has to see them.

    ``place`` turns the physical queue id and offset of a record into the logical ones;
    ``store_host`` is the packed address of the listener, ``tag`` the broker's. Raises
    ``RemoteProtocolError`` for bytes that are no sequence of records.
    """
    data = bytearray(records)
    is_v6 = len(store_host) == 20
    replaced: list[tuple[int, int, bytes]] = []
    at, end = 0, len(data)
    while at < end:
        size = _SIZE.unpack_from(data, at)[0] if end - at >= _LEAST_BYTES else 0
        if not _LEAST_BYTES <= size <= end - at:
            raise RemoteProtocolError(f"byte {at} of {end}: no record of a message begins there")
        queue_offset, position = _OFFSET_AND_POSITION.unpack_from(data, at + _OFFSET_AT)
        (sys_flag,) = _SYS_FLAG.unpack_from(data, at + _SYS_FLAG_AT)
        (queue_id,) = _QUEUE_ID.unpack_from(data, at + _QUEUE_ID_AT)
        index, offset = place(queue_id, queue_offset)
        _QUEUE_ID.pack_into(data, at + _QUEUE_ID_AT, index)
        _OFFSET_AND_POSITION.pack_into(data, at + _OFFSET_AT, offset, tagged(tag, position))
        if bool(sys_flag & SysFlag.STORE_HOST_V6) == is_v6:
            host_at = at + _STORE_HOST_AT
            if sys_flag & SysFlag.BORN_HOST_V6:
                host_at += _V6_EXTRA
            data[host_at : host_at + len(store_host)] = store_host
        else:  # the address has another length, so the record has to be made anew
            replaced.append((at, at + size, _with_host(bytes(data[at : at + size]), store_host)))
        at += size
    for begin, behind, record in reversed(replaced):
        data[begin:behind] = record
    return bytes(data)


def _with_host(record: bytes, store_host: bytes) -> bytes:
    message = decode_message(record)
    host = HostAddress.unpack(store_host)
    v6 = SysFlag.STORE_HOST_V6
    sys_flag = message.sys_flag | v6 if host.is_v6 else message.sys_flag & ~v6
    return encode_message(replace(message, store_host=host, sys_flag=sys_flag))
