"""Sums over all partitions of a namespace."""

from collections.abc import Sequence
from hashlib import blake2b

from lanemq.wire.kv import HASH_BYTES, NamespaceStatus


def sum_of(parts: Sequence[NamespaceStatus]) -> NamespaceStatus:
    """Return the sums over all partitions of a namespace; those of a single one unchanged."""
    if len(parts) == 1:
        return parts[0]
    hashes = "".join(one.state_hash for one in parts).encode()
    is_shown = all(one.state_hash for one in parts)
    return NamespaceStatus(
        namespace=parts[0].namespace,
        entries=sum(one.entries for one in parts),
        entry_bytes=sum(one.entry_bytes for one in parts),
        position=sum(one.position for one in parts),
        clock_ms=max(one.clock_ms for one in parts),
        state_hash=blake2b(hashes, digest_size=HASH_BYTES).hexdigest() if is_shown else "",
        changes_from=sum(one.changes_from for one in parts),
        lost=any(one.lost for one in parts),
        engine=", ".join(sorted({one.engine for one in parts})),
        partitions=len(parts),
        broker=", ".join(sorted({one.broker for one in parts if one.broker})),
        is_open=all(one.is_open for one in parts),
        leases=sum(one.leases for one in parts),
        watchers=sum(one.watchers for one in parts),
        changes=sum(one.changes for one in parts),
        end=sum(one.end for one in parts),
        expired=sum(one.expired for one in parts),
    )
