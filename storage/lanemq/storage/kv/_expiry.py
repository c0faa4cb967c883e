"""The ends of entries and leases whose time has come, in the records that follow."""

from typing import Final

from lanemq.wire.kv import ChangeKind

from ._entries import Entries
from .engines._engine import Batch
from .engines._rows import EXPIRY, after_prefix, expiry_key

EXPIRED_MAX: Final = 256
"""Entries at most that one record removes because their time has come; no read shows the rest.
Leases end while a record has removed fewer, each as a whole; one that has more together with
what was removed is left to the next record, in a partition that has bounds in bytes."""


def expire_some(entries: Entries, batch: Batch) -> None:
    """Remove entries whose time has come, and end leases, as many as one record may."""
    meta, leases = entries.meta, entries.leases
    now, since_ms = meta.clock_ms.to_bytes(8, "big"), meta.next_expiry_ms
    # Nothing is before that; RocksDB passes over what was deleted one by one.
    begin = max(expiry_key(since_ms, b""), entries.expired)
    due = batch.first(begin, EXPIRY + now + b"\xff" * 8, EXPIRED_MAX)
    for found, _ in due:
        expires_ms, key = int.from_bytes(found[1:9], "big"), found[9:]
        if expires_ms > meta.clock_ms:
            break
        entries.remove(key, entries.there(key), ChangeKind.EXPIRE)
        entries.expired = begin = found
    count, place = len(due), (since_ms, 0)
    for place in leases.due(since_ms, EXPIRED_MAX):
        if count >= EXPIRED_MAX:
            break
        if count and meta.is_bounded and count + leases.keys_of(place[1]) >= EXPIRED_MAX:
            break
        count += 1 + end_lease(entries, place[1], ChangeKind.EXPIRE)
        leases.ended(*place)
        entries.expirations += 1
    lease_ms = leases.first_ms(*place)
    rest = batch.first(begin, after_prefix(EXPIRY), 1)
    next_ms = int.from_bytes(rest[0][0][1:9], "big") if rest else 0
    meta.next_expiry_ms = min(next_ms, lease_ms) if next_ms and lease_ms else next_ms or lease_ms


def end_lease(entries: Entries, lease: int, kind: int) -> int:
    """Remove a lease with its entries; returns their number."""
    keys = entries.leases.keys(lease)
    if keys:  # what is known of a lease is decoded and encoded, which is too much for each key
        entries.leases.release(lease, keys)
    for key in keys:
        entries.remove(key, entries.there(key), kind, is_released=True)
    entries.leases.remove(lease)
    return len(keys)
