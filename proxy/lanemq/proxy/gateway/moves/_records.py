"""Records and answers of one part of a moved queue, in the numbers of clients. All pure."""

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from lanemq.wire import RemoteProtocolError
from lanemq.wire.message import MAX_PROPERTIES_BYTES, get_property

from ...logical.rules._positions import tagged
from ...logical.rules._records import no_record

_HEAD: Final = Struct(">i8xiiqq")  # size, queue, flag, offset in the queue, position in the log
_QUEUE: Final = Struct(">i")
_NUMBERS: Final = Struct(">qq")
_QUEUE_AT: Final = 12
_NUMBERS_AT: Final = 20
_LEAST_BYTES: Final = 91

HALF_FLAG: Final = 0x4
_LATER: Final = (b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS", b"TIMER_DELIVER_MS", b"__STARTDELIVERTIME")

_WORDS: Final = ("TRAN_MSG", "DELAY", "TIMER", "__STARTDELIVERTIME")

Renumber = Callable[[int, int], tuple[int, int]]
"""Gives the number of a queue, and an offset there, as clients see them."""


RECORDS_MAX: Final = 4096
"""Records of one answer that are passed on: clients ask again for what follows."""


class Cut(NamedTuple):
    """Records up to the end of a part."""

    records: bytes
    is_cut: bool
    following: int | None = None
    """The offset of the first one beyond ``RECORDS_MAX``."""


def seen_records(records: bytes, place: Renumber, tag: int, end: int = -1) -> Cut:
    """Return records as clients see them, ``RECORDS_MAX`` at most, and those before ``end`` unless
    it is negative; their positions get ``tag`` unless it is 0. Raises ``RemoteProtocolError``."""
    data = bytearray(records)
    at, size_bytes, count = 0, len(data), 0
    while at < size_bytes:
        if size_bytes - at < _LEAST_BYTES:
            raise no_record(at, size_bytes)
        size, queue_id, _, offset, position = _HEAD.unpack_from(data, at)
        if not _LEAST_BYTES <= size <= size_bytes - at:
            raise no_record(at, size_bytes)
        if 0 <= end <= offset:
            return Cut(bytes(data[:at]), is_cut=True)
        if count == RECORDS_MAX:
            return Cut(bytes(data[:at]), is_cut=True, following=offset)
        count += 1
        seen_id, seen_offset = place(queue_id, offset)
        _QUEUE.pack_into(data, at + _QUEUE_AT, seen_id)
        if tag and position >= 0:
            position = tagged(tag, position)
        _NUMBERS.pack_into(data, at + _NUMBERS_AT, seen_offset, position)
        at += size
    return Cut(bytes(data), is_cut=False)


def is_stored_elsewhere(sys_flag: str, properties: str) -> bool:
    """Return whether a broker keeps a message in a queue of its own at first: halves, and what is
    delivered later. The answer has its offset there."""
    if sys_flag.isdecimal() and int(sys_flag[:9]) & HALF_FLAG == HALF_FLAG:
        return True
    if len(properties) > MAX_PROPERTIES_BYTES or not any(word in properties for word in _WORDS):
        return False  # nearly all; no broker takes the longer ones
    data = properties.encode("utf-8", "replace")
    level = get_property(data, b"DELAY") or b""
    return (
        (get_property(data, b"TRAN_MSG") or b"").lower() == b"true"
        or (level.isdigit() and int(level[:9]) > 0)
        or any(get_property(data, name) is not None for name in _LATER)
    )


def offset_of(text: str | None) -> int:
    """Return an offset in a field of a request or an answer. Raises ``RemoteProtocolError``."""
    try:
        return int((text or "")[:20])
    except ValueError:
        raise RemoteProtocolError(f"{text!a} is no offset") from None
