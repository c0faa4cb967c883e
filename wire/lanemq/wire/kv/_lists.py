"""Lists in bodies of requests, whose lengths are known before their elements are decoded.

An element of three bytes becomes an object of a hundred: a list beyond its limit is refused by
the number that msgpack has in front of it.
"""

from typing import Final

import msgspec

from .._errors import RemoteProtocolError
from ._names import KEY_BYTES_MAX, STEPS_MAX

KEYS_BYTES_MAX: Final = 5 + STEPS_MAX * (KEY_BYTES_MAX + 3)
"""Longest list of keys of a multi-get: each has three bytes in front at most."""
_KEYS: Final = msgspec.msgpack.Decoder(list[bytes])
_SHORT: Final = 0x90
_WIDTHS: Final = {0xDC: 2, 0xDD: 4}


def list_count(body: bytes) -> int:
    """Return the number of elements that a list in msgpack says it has; 0 for what is no list."""
    first = body[0] if body else 0
    if first & 0xF0 == _SHORT:
        return first & 0x0F
    return int.from_bytes(body[1 : 1 + _WIDTHS.get(first, 0)], "big")


def decode_keys(body: bytes) -> list[bytes]:
    """Decode the keys of a multi-get, which are not checked. Raises ``RemoteProtocolError``."""
    count = list_count(body)
    if count > STEPS_MAX:
        raise RemoteProtocolError(f"{count} keys are asked for, at most {STEPS_MAX} are taken")
    if len(body) > KEYS_BYTES_MAX:
        raise RemoteProtocolError(
            f"keys of {len(body)} bytes are asked for, at most {KEYS_BYTES_MAX} are taken"
        )
    try:
        return _KEYS.decode(body)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"the keys cannot be read: {error}") from error
