"""Sums of the hashes of rows, from which a state's hash is made."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from lanemq.wire.kv import HASH_BYTES

from .engines._rows import HASH_MASK

NOTHING: Final = bytes(HASH_BYTES)
"""The sum of no rows."""


def row_hash(key: bytes, row: bytes) -> int:
    """Hash a row; a state's hash is made of the sum of those of its rows."""
    data = len(key).to_bytes(4, "big") + key + row
    return int.from_bytes(blake2b(data, digest_size=HASH_BYTES).digest(), "big")


def moved(total: bytes, changes: Iterable[tuple[bytes, bytes | None, bytes | None]]) -> bytes:
    """Return a sum after changes of rows (key, row before, row after); None stands for no row."""
    number = int.from_bytes(total, "big")
    from_bytes, hashed, size = int.from_bytes, blake2b, HASH_BYTES  # two hashes for every write
    for key, old, new in changes:
        head = len(key).to_bytes(4, "big") + key
        if old is not None:
            number -= from_bytes(hashed(head + old, digest_size=size).digest(), "big")
        if new is not None:
            number += from_bytes(hashed(head + new, digest_size=size).digest(), "big")
    return (number & HASH_MASK).to_bytes(HASH_BYTES, "big")
