"""Sums of the hashes of rows, from which a state's hash is made."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from lanemq.wire.kv import HASH_BYTES

from .engines._rows import HASH_MASK, Meta

NOTHING: Final = bytes(HASH_BYTES)
"""The sum of no rows."""


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


def state_hash(meta: Meta) -> str:
    """Return the hash of a state in hexadecimal."""
    digest = blake2b(meta.entry_sum, digest_size=HASH_BYTES)
    for part in meta.session_sums:
        digest.update(part)
    for number in (meta.clock_ms, meta.generation, meta.generation_ms, meta.lost):
        digest.update(int(number).to_bytes(8, "big"))
    if meta.identity:  # a state without is that of an earlier version, and has its hash
        for number in (meta.floor, meta.top, meta.restored, meta.deleted):
            digest.update(int(number).to_bytes(8, "big"))
        digest.update(meta.identity.encode())
    if any(meta.lease_sum):
        digest.update(b"leases" + meta.lease_sum)
    if meta.importing:
        digest.update(b"importing")
    return digest.hexdigest()
