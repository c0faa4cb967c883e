"""Checking signatures by one secret key.

Every request is checked, so what is the same for all of an account is kept: the two inner states
of HMAC (RFC 2104), which depend on the key alone, and, for the fields that a client sends time
and again, the order of their values.
"""

import hashlib
import hmac
import secrets
from binascii import b2a_base64
from collections.abc import Callable, Collection, Iterable
from operator import itemgetter
from typing import Final, final

from lanemq.wire import (
    SEAL_FIELD,
    SEALED_AT_FIELD,
    SEALED_FOR_FIELD,
    SIGNATURE_FIELD,
    UNIQUE_KEY_FIELD,
    UNSIGNED_FIELDS,
    RequestCode,
    seal,
    sealed_content,
)
from lanemq.wire.frame import Frame

SEAL_AGE_MS: Final = 10 * 60 * 1000
"""The most by which the clocks of two brokers may differ."""
_DIGITS_MAX: Final = 20
_BLOCK_BYTES: Final = 64
_INNER_PAD: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD: Final = bytes(byte ^ 0x5C for byte in range(256))

_UNSIGNED: Final = (UNSIGNED_FIELDS, frozenset({SIGNATURE_FIELD}))

_SALT: Final = secrets.token_bytes(16)

_ORDERS_MAX: Final = 64
_NAMES_BYTES_MAX: Final = 1024

Names = tuple[str, ...]


def misdirected(
    frame: Frame, addresses: Collection[str], clock_ms: Callable[[], int]
) -> str | None:
    """Return why a sealed request is not for the server at ``addresses``, or is not for this time.

    None for one that is, and for one without a seal. ``clock_ms`` is asked for sealed ones alone.
    """
    if SEAL_FIELD not in frame.fields:
        return None
    receiver = frame.fields.get(SEALED_FOR_FIELD, "")
    if receiver not in addresses:
        return f"the request is sealed for {receiver!r}, which is not this server"
    try:
        age_ms = clock_ms() - int(frame.fields.get(SEALED_AT_FIELD, "")[:_DIGITS_MAX])
    except ValueError:
        return "the request has a seal without a time"
    if abs(age_ms) > SEAL_AGE_MS:
        return f"the request was sealed {age_ms / 1000:.0f} s ago: set the clocks of both brokers"
    return None


@final
class SignatureCheck:
    """The signatures of one secret key."""

    __slots__ = ("_inner", "_orders", "_outer", "_secret_key", "mark")

    def __init__(self, secret_key: str) -> None:
        self._secret_key = secret_key
        key = secret_key.encode()
        self.mark: str = hashlib.blake2b(key, key=_SALT, digest_size=8).hexdigest()
        """A mark of the key, the same in this process for as long as the key is."""
        if len(key) > _BLOCK_BYTES:
            key = hashlib.sha1(key).digest()
        block = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha1(block.translate(_INNER_PAD))
        self._outer = hashlib.sha1(block.translate(_OUTER_PAD))
        self._orders: dict[Names, Callable[[dict[str, str]], tuple[str, ...]]] = {}

    def __repr__(self) -> str:
        return "<SignatureCheck>"

    def is_signed(self, frame: Frame) -> bool:
        """Return whether a request has been signed with the key, and not changed since.

        One with a seal needs no signature; ``misdirected`` tells whom it is for.
        Java clients since 4.9.4 sign a flag of queries that earlier ones add afterwards: it may
        be signed or not. The body, which may be long, is hashed once for any other request.
        """
        given = frame.fields.get(SEAL_FIELD)
        if given is not None:
            content = sealed_content(frame.code, frame.fields, frame.body)
            expected = seal(content, self._secret_key)
            return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))
        names = tuple(frame.fields)
        order = self._orders.get(names)
        if order is not None:
            return self._fits(order(frame.fields), frame)
        is_flagged = UNIQUE_KEY_FIELD in names and frame.code == RequestCode.QUERY_MESSAGE
        for unsigned in _UNSIGNED if is_flagged else _UNSIGNED[1:]:
            signed = sorted(name for name in names if name not in unsigned)
            if self._fits([frame.fields[name] for name in signed], frame):
                if UNIQUE_KEY_FIELD not in names:
                    self._remember(names, signed)
                return True
        return False

    def _fits(self, values: Iterable[str], frame: Frame) -> bool:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update("".join(values).encode("utf-8", "replace"))  # as ``signed_content``
        inner.update(frame.body)
        outer.update(inner.digest())
        given = frame.fields.get(SIGNATURE_FIELD, "").encode("utf-8", "replace")
        return hmac.compare_digest(b2a_base64(outer.digest(), newline=False), given)

    def _remember(self, names: Names, signed: list[str]) -> None:
        """Keep the order of some fields: of few requests, and only of those who have the key."""
        is_small = sum(map(len, names)) <= _NAMES_BYTES_MAX
        if len(signed) > 1 and is_small and len(self._orders) < _ORDERS_MAX:
            self._orders[names] = itemgetter(*signed)
