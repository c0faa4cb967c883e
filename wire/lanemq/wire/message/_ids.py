"""The two kinds of message id, which look alike.

An *offset id* names a broker and a place in its log: upper-case hex of the store host (IP of
4 or 16 bytes, port of 4) and the log position (8). A *unique key* is made by the sender: hex of
its IP, process id (2 bytes), a hash (4), milliseconds since the local month began (4) and a
counter (2). Both have 32 digits, or 56 with IPv6.
Source: RocketMQ 4.9.8, MessageDecoder.createMessageId, MessageClientIDSetter.
"""

import itertools
import struct
import time
from collections.abc import Sequence
from typing import Final, final

from .._errors import LocalProtocolError, RemoteProtocolError
from .._hosts import HostAddress

CLOCK_STEP_MS: Final = 1_000_000  # a clock set back by less counts as the month's first moment


def encode_offset_id(host: bytes | HostAddress, log_position: int) -> str:
    """Return the id of the message at byte ``log_position`` in the log of the broker at ``host``.

    ``host`` may be packed already. Raises ``LocalProtocolError`` for a position outside 64 bits.
    """
    packed = host.packed if isinstance(host, HostAddress) else host
    if not -(1 << 63) <= log_position < 1 << 63:
        raise LocalProtocolError(f"log position {log_position} does not fit 64 bits")
    return f"{packed.hex().upper()}{log_position & 0xFFFFFFFFFFFFFFFF:016X}"


def encode_offset_ids(host: bytes, log_positions: Sequence[int]) -> str:
    """Return the ids of several messages at the broker of the packed ``host``, with commas between.

    A batch send is answered with them. Raises ``LocalProtocolError`` as ``encode_offset_id``.
    """
    try:
        positions = struct.pack(f">{len(log_positions)}q", *log_positions)
    except struct.error:
        raise LocalProtocolError("a log position does not fit 64 bits") from None
    packed = host.join((b"", *(positions[at : at + 8] for at in range(0, len(positions), 8))))
    return packed.hex(",", len(host) + 8).upper()


def decode_offset_id(text: str) -> tuple[HostAddress, int]:
    """Return host and log position of an offset id. Raises ``RemoteProtocolError`` for others.

    A unique key passes for one, with a meaningless host: the two cannot be told apart.
    """
    data = _unhex(text)
    return HostAddress.unpack(data[:-8]), int.from_bytes(data[-8:], "big", signed=True)


def _unhex(text: str) -> bytes:
    if len(text) in (32, 56):
        try:
            data = bytes.fromhex(text)
        except ValueError:
            data = b""
        if len(data) * 2 == len(text):  # fromhex passes over blanks
            return data
    raise RemoteProtocolError(f"not a message id: {text[:80]!r}")


def _month_start_ms(moment_ms: int, months_later: int = 0) -> int:
    local = time.localtime(moment_ms / 1000)
    start = (local.tm_year, local.tm_mon + months_later, 1, 0, 0, 0, 0, 0, -1)
    return int(time.mktime(start)) * 1000


@final
class UniqueKeys:
    """A source of unique keys; makes no clock reading of its own.

    ``ip`` has 4 or 16 bytes. ``loader_hash`` is any 32-bit number that sets apart two sources
    of one address and process id; Java takes the hash of its class loader. ``first`` is the
    counter's first value. Any number of threads may ask for keys.
    """

    def __init__(self, ip: bytes, pid: int, loader_hash: int, first: int = 0) -> None:
        if len(ip) not in (4, 16):
            raise LocalProtocolError(f"an IP has 4 or 16 bytes, not {len(ip)}")
        self._prefix = f"{ip.hex().upper()}{pid & 0xFFFF:04X}{loader_hash & 0xFFFFFFFF:08X}"
        self._month_start_ms = self._next_month_ms = 0
        self._counter = itertools.count(first)

    def next(self, now_ms: int) -> str:
        """Return a new key. ``now_ms`` is the time of day in milliseconds since 1970."""
        if now_ms >= self._next_month_ms:
            self._month_start_ms = _month_start_ms(now_ms)
            self._next_month_ms = _month_start_ms(now_ms, months_later=1)
        elapsed_ms = now_ms - self._month_start_ms
        if -CLOCK_STEP_MS < elapsed_ms < 0:
            elapsed_ms = 0
        counter = next(self._counter) & 0xFFFF
        return f"{self._prefix}{elapsed_ms & 0xFFFFFFFF:08X}{counter:04X}"


def unique_key_time_ms(key: str, now_ms: int) -> int:
    """Return the time at which ``key`` was made, in ms since 1970, if less than a month ago.

    Raises ``RemoteProtocolError`` for a text that cannot be a unique key.
    """
    elapsed_ms = int.from_bytes(_unhex(key)[-6:-2], "big")
    start_ms = _month_start_ms(now_ms)
    if start_ms + elapsed_ms >= now_ms:
        start_ms = _month_start_ms(now_ms, months_later=-1)
    return start_ms + elapsed_ms
