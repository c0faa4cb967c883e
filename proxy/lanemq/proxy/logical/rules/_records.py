"""Stored messages on their way through a logical listener, rewritten in place.

A record is stored with the physical queue's id and offset, the broker's address and its place
in that broker's log. A client of a logical queue has to see the queue's own numbers, an address
where its requests are understood, and a position that says whose it is (see ``_positions``).
These four have fixed places in a record, and its body's checksum covers none of them.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from lanemq.wire import RemoteProtocolError, SysFlag

from ...net._turns import Steps
from ._positions import NEAR_BITS, tagged

# size, queue id, flag, queue offset, position, sys flag, and what is between it and a store
# host whose sender's address has 4 bytes
_HEAD: Final = Struct(">i8xiiqqi24s")
# of these, from the queue id on
_PLACE: Final = Struct(">iiqq")
# the same, up to a store host of 4 bytes and its port
_PLACE_AND_HOST: Final = Struct(">iiqqi24s8s")
# size, and the flags behind the place in queue and log
_SIZE_AND_FLAGS: Final = Struct(">i32xi")
_INT: Final = Struct(">i")
_PLACE_AT: Final = 12
_FLAGS_AT: Final = 36
_STORE_HOST_AT: Final = 64  # where the sender's address has 4 bytes, else 12 later
_V4_BYTES: Final = 8
V6_EXTRA: Final = 12
"""Bytes that an address of 16 bytes takes more than one of 4."""
_LEAST_BYTES: Final = 91
LONG_RECORDS_BYTES: Final = 256 << 10
"""Records of more bytes are looked at in several turns of the loop: a strange broker may send
100,000 of them in one answer."""
PIECE_BYTES: Final = 64 << 10
"""Bytes of the records that are looked at in one of these, about."""


def rewrite_records(
    records: bytes,
    *,
    place: Callable[[int, int], tuple[int, int]],
    tag: int,
    store_host: bytes,
) -> bytes:
    """Rewrite the records of an answer for a client of logical queues.

    ``place`` turns the physical queue id and offset of a record into the logical ones;
    ``store_host`` is the packed address of the listener, ``tag`` the broker's. Raises
    ``RemoteProtocolError`` for bytes that are not a sequence of records.
    """
    return _rewritten(records, place, 0, 0, tag, store_host)


def shift_records(records: bytes, *, index: int, shift: int, tag: int, store_host: bytes) -> bytes:
    """Rewrite records of one segment as ``rewrite_records``: to its queue, with offsets ``shift``
    on."""
    return _rewritten(records, None, index, shift, tag, store_host)


def _rewritten(
    records: bytes,
    place: Callable[[int, int], tuple[int, int]] | None,
    index: int,
    shift: int,
    tag: int,
    store_host: bytes,
) -> bytes:
    data = bytearray(records)
    is_v6 = len(store_host) == 20
    hosts_v6 = int(SysFlag.STORE_HOST_V6) | int(SysFlag.BORN_HOST_V6)
    has_others = False
    at, end = 0, len(data)
    # A pull of many messages spends most of its time here: no call more than needed.
    read_head, write_all = _HEAD.unpack_from, _PLACE_AND_HOST.pack_into
    write_place = _PLACE.pack_into
    tag_bits = tagged(tag, 0)
    while at < end:
        if end - at < _LEAST_BYTES:
            raise no_record(at, end)
        size, queue_id, flag, queue_offset, position, sys_flag, between = read_head(data, at)
        if not _LEAST_BYTES <= size <= end - at:
            raise no_record(at, end)
        offset = queue_offset + shift
        if place is not None:
            index, offset = place(queue_id, queue_offset)
        # Mostly just some bits more; a sign, or a very long log, is for ``tagged`` to judge.
        position = tagged(tag, position) if position >> NEAR_BITS else tag_bits | position
        where = at + _PLACE_AT
        if is_v6 or sys_flag & hosts_v6:
            write_place(data, where, index, flag, offset, position)
            has_others = True
        else:
            write_all(data, where, index, flag, offset, position, sys_flag, between, store_host)
        at += size
    return with_store_host(data, store_host) if has_others else bytes(data)


def with_store_host(records: bytes | bytearray, host: bytes) -> bytes:
    """Return the records of an answer with ``host`` (packed) as the address of their broker.

    Raises ``RemoteProtocolError`` for bytes that are not a sequence of records.
    """
    data = bytearray(records)
    is_v6, host_bytes = len(host) == 20, len(host)
    store_v6, born_v6 = int(SysFlag.STORE_HOST_V6), int(SysFlag.BORN_HOST_V6)
    pieces: list[bytes | bytearray] = []  # with the records whose addresses change their length
    copied = 0
    at, end, read = 0, len(data), _SIZE_AND_FLAGS.unpack_from
    while at < end:
        if end - at < _LEAST_BYTES:
            raise no_record(at, end)
        size, sys_flag = read(data, at)
        if not _LEAST_BYTES <= size <= end - at:
            raise no_record(at, end)
        host_at = at + _STORE_HOST_AT + (V6_EXTRA if sys_flag & born_v6 else 0)
        if (sys_flag & store_v6 != 0) is is_v6:
            data[host_at : host_at + host_bytes] = host
        else:
            behind = host_at + (_V4_BYTES if is_v6 else _V4_BYTES + V6_EXTRA)
            if behind > at + size:
                raise no_record(at, end)
            _INT.pack_into(data, at, size + (V6_EXTRA if is_v6 else -V6_EXTRA))
            _INT.pack_into(data, at + _FLAGS_AT, sys_flag ^ store_v6)
            pieces += data[copied:host_at], host
            copied = behind
        at += size
    return b"".join((*pieces, data[copied:]))


def chosen_records(records: bytes, is_chosen: Callable[[int, int], bool]) -> bytes:
    """Return the records whose physical queue id and offset are chosen. Raises
    ``RemoteProtocolError`` as above."""
    at, end, found = 0, len(records), []
    while at < end:
        size = 0 if end - at < _LEAST_BYTES else _HEAD.unpack_from(records, at)[0]
        if not _LEAST_BYTES <= size <= end - at:
            raise no_record(at, end)
        _, queue_id, _, queue_offset, *_ = _HEAD.unpack_from(records, at)
        if is_chosen(queue_id, queue_offset):
            found.append(records[at : at + size])
        at += size
    return b"".join(found)


def in_pieces(records: bytes, change: Callable[[bytes], bytes]) -> Steps[bytes]:
    """Return what ``change`` makes of records: of long ones a piece in each step."""
    if len(records) <= LONG_RECORDS_BYTES:
        return change(records)
    made: list[bytes] = []
    for piece in record_pieces(records, PIECE_BYTES):
        made.append(change(piece))
        yield None
    return b"".join(made)


def record_pieces(records: bytes, size_bytes: int) -> Iterator[bytes]:
    """Give records in pieces of about so many bytes, each of whole records; what is no record, and
    all that follows, in one."""
    begin = at = 0
    while len(records) - at >= _LEAST_BYTES:
        (size,) = _INT.unpack_from(records, at)
        if not _LEAST_BYTES <= size <= len(records) - at:
            break
        at += size
        if at - begin >= size_bytes:
            yield records[begin:at]
            begin = at
    if begin < len(records):
        yield records[begin:]


def no_record(at: int, end: int) -> RemoteProtocolError:
    """Return the error for bytes of which a record should begin at ``at``."""
    return RemoteProtocolError(f"byte {at} of {end}: no record of a message begins there")
