"""Addresses of brokers in what passes through, replaced by those of the proxy. All pure.

Clients take addresses from routes, from the records of messages, and from message ids: those before
4.9.5 send a message back to the address in its record, and a tool asks for a message at the one in
its id.
"""

import re
import struct
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final

from msgspec.structs import replace

from lanemq.wire import SIGNATURE_FIELD, SysFlag
from lanemq.wire.frame import Frame
from lanemq.wire.message import MAGIC_V2

from ...logical.rules._positions import each_id, tagged
from ...logical.rules._records import V6_EXTRA, no_record

_ESCAPED: Final = re.compile(rb"\\.", re.DOTALL)
_LOOK_BYTES: Final = 64 << 10
"""Bytes of a JSON body in which one step looks for texts: about a millisecond."""
_HEAD: Final = Struct(">i32xi")  # a record's size; its flags, behind the place in queue and log
_BODY_LENGTH_AT: Final = 84
_QUEUE_ID_AT: Final = 12
_POSITION_AT: Final = 28
_LEAST_BYTES: Final = 91
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_SHORT: Final = Struct(">H")
_ORIGIN: Final = b"ORIGIN_MESSAGE_ID\x01"
_ORIGIN_ID: Final = re.compile(
    rb"((?:^|\x02)(?:DLQ_)?ORIGIN_MESSAGE_ID\x01)"
    rb"([0-9A-Fa-f]{16}(?:[0-9A-Fa-f]{24})?)(?=[0-9A-Fa-f]{16}(?:\x02|$))"
)
_POSITION_DIGITS: Final = 16
_ID_DIGITS: Final = frozenset({32, 56})
_HEX: Final = re.compile(r"[0-9A-Fa-f]+")


def with_addresses(body: bytes, table: Mapping[str, str]) -> bytes:
    """Return a JSON body in which the texts that are addresses in ``table`` are replaced.

    All else stays as it is, members that nobody here knows among it. It may run in a thread: none
    of its steps is long, so others get their turns, whatever the body is.
    """
    known = {old.encode(): new.encode() for old, new in table.items()}
    made: list[bytes] = []
    copied = begin = at = 0
    is_text = False
    while at < len(body):
        *parts, rest = _ESCAPED.sub(b"\0\0", body[at : at + _LOOK_BYTES]).split(b'"')
        for part in parts:
            if is_text and at == begin and (new := known.get(part)) is not None:
                made += body[copied:at], new
                copied = at + len(part)
            at += len(part) + 1
            is_text, begin = not is_text, at
        if not parts:  # else what is left may end in the next look
            at += max(1, len(rest) - rest.endswith(b"\\"))
    made.append(body[copied:])
    return b"".join(made)


def with_origin_ids(records: bytes, hosts: Mapping[bytes, bytes]) -> bytes:
    """Return records whose ids of the messages that they repeat name the proxy.

    A broker adds such an id to a message that is sent back. ``hosts`` has the address of each
    broker (packed, in hex) -> the one at which clients see it; one of another length stays. Raises
    ``RemoteProtocolError`` as ``with_store_host``.
    """
    if _ORIGIN not in records:
        return records

    def seen(match: re.Match[bytes]) -> bytes:
        host = hosts.get(match[2].upper(), b"")
        return match[1] + (host if len(host) == len(match[2]) else match[2])

    data = bytearray(records)
    at, end = 0, len(data)
    while at < end:
        size, sys_flag = _HEAD.unpack_from(data, at)
        begin, behind = _properties_at(data, at, at + size, sys_flag)
        data[begin:behind] = _ORIGIN_ID.sub(seen, bytes(data[begin:behind]))
        at += size
    return bytes(data)


def with_queue_ids(records: bytes, rename: Callable[[str, int], int | None], tag: int = 0) -> bytes:
    """Return records with other numbers of queues: ``rename`` gives that for a topic and a number,
    None for one that stays. Their positions get the tag, unless it is 0.

    Raises ``RemoteProtocolError`` as ``with_store_host``.
    """
    data = bytearray(records)
    at, end = 0, len(data)
    while at < end:
        if end - at < _LEAST_BYTES:
            raise no_record(at, end)
        size, sys_flag = _HEAD.unpack_from(data, at)
        if not _LEAST_BYTES <= size <= end - at:
            raise no_record(at, end)
        begin, behind = _topic_at(data, at, at + size, sys_flag)
        (queue_id,) = _INT.unpack_from(data, at + _QUEUE_ID_AT)
        new = rename(data[begin:behind].decode("utf-8", "replace"), queue_id)
        if new is not None:
            _INT.pack_into(data, at + _QUEUE_ID_AT, new)
        (position,) = _LONG.unpack_from(data, at + _POSITION_AT)
        if tag and position >= 0:
            _LONG.pack_into(data, at + _POSITION_AT, tagged(tag, position))
        at += size
    return bytes(data)


def _properties_at(data: bytearray, at: int, end: int, sys_flag: int) -> tuple[int, int]:
    """Return the begin and the end of a record's properties."""
    _, topic_end = _topic_at(data, at, end, sys_flag)
    begin = topic_end + _SHORT.size
    if begin > end:
        raise no_record(at, len(data))
    (size,) = _SHORT.unpack_from(data, topic_end)
    if begin + size > end:
        raise no_record(at, len(data))
    return begin, begin + size


def _topic_at(data: bytearray, at: int, end: int, sys_flag: int) -> tuple[int, int]:
    """Return the begin and the end of a record's topic."""
    hosts_v6 = bool(sys_flag & SysFlag.BORN_HOST_V6) + bool(sys_flag & SysFlag.STORE_HOST_V6)
    body_at = at + _BODY_LENGTH_AT + V6_EXTRA * hosts_v6
    try:
        (body_bytes,) = _INT.unpack_from(data, body_at)
        topic_at = body_at + _INT.size + body_bytes
        if body_bytes < 0 or topic_at >= end:
            raise no_record(at, len(data))
        (magic,) = _INT.unpack_from(data, at + 4)
        if magic == MAGIC_V2:
            begin = topic_at + _SHORT.size
            behind = begin + _SHORT.unpack_from(data, topic_at)[0]
        else:
            begin = topic_at + 1
            behind = begin + data[topic_at]
    except (struct.error, IndexError):
        raise no_record(at, len(data)) from None
    if behind < begin or behind > end:
        raise no_record(at, len(data))
    return begin, behind


def with_id_host(ids: str, host_hex: str) -> str:
    """Return message ids, as of ``each_id``, whose address is ``host_hex`` (packed, in hex).

    What is no such id stays as it is.
    """

    def seen(one: str) -> str:
        is_id = len(one) in _ID_DIGITS and _HEX.fullmatch(one)
        return host_hex + one[-_POSITION_DIGITS:] if is_id else one

    return each_id(ids, seen)


def with_tags(ids: str, tag: int) -> str:
    """Return message ids, as of ``each_id``, whose positions have a tag."""
    return each_id(ids, lambda one: with_id_position(one, lambda at: tagged(tag, at)))


def with_id_position(message_id: str, change: Callable[[int], int]) -> str:
    """Return a message id with another position, as ``change`` gives it for the one that it has.

    What is no such id, or has a negative position, stays as it is.
    """
    if len(message_id) not in _ID_DIGITS or not _HEX.fullmatch(message_id):
        return message_id
    position = int(message_id[-_POSITION_DIGITS:], 16)
    if position >> 63:
        return message_id
    return f"{message_id[:-_POSITION_DIGITS]}{change(position):0{_POSITION_DIGITS}X}"


def is_signed(frame: Frame) -> bool:
    """Return whether a client has signed a request with an account of 4.x or 5.x: its broker
    refuses it once anything in it was changed."""
    return SIGNATURE_FIELD in frame.fields


def with_fields(frame: Frame, fields: Mapping[str, str]) -> Frame:
    """Return the frame with some ext fields replaced."""
    return replace(frame, fields={**frame.fields, **fields})
