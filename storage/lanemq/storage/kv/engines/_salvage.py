"""The rows of a RocksDB that cannot be opened, as far as they are whole.

RocksDB makes a new list of the tables that it can read. What it makes may lack rows, or have some
that were deleted; so a partition is taken only if its rows are those that its hash was made of.
Its changes are not part of the hash, and go.
"""

import os
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec
from rocksdict import Options, Rdict

from lanemq.local import get_logger

from ._engine import Table
from ._rocks import RocksEngine
from ._rows import (
    CHANGE,
    DEADLINE,
    ENTRY,
    EXPIRY,
    HASH_MASK,
    HEADS,
    LEASE,
    LEASED,
    LESSOR,
    META,
    SESSION,
    after_prefix,
    deadline_key,
    decode_lease,
    decode_meta,
    encode_row,
    expiry_key,
    leased_key,
    lessor_key,
    row_hash,
    stored,
)

LOGGER: Final = get_logger(__name__)


def salvage(source: Path, directory: Path) -> None:
    """Make a database in ``directory``, which is empty, of the sound partitions in ``source``.

    Raises ``OSError``, ``StoreError``: then ``directory`` has remains.
    """
    for name in os.listdir(source):
        if name.endswith(".sst"):
            os.link(source / name, directory / name)
    try:
        Rdict.repair(str(directory), Options(raw_mode=True))
    except Exception as error:  # the binding has no class of its own for what RocksDB says
        raise OSError(f"RocksDB cannot repair it: {error}") from error
    engine = RocksEngine(directory, compacts=False)
    try:
        for name, table in list(engine.tables().items()):
            if is_sound(table):
                LOGGER.warning("the state of namespace %s is whole, and is kept", name)
                _forget_changes(table)
            else:
                engine.replace(name)
    finally:
        engine.close()


def is_sound(table: Table) -> bool:
    """Return whether the rows of a table are those that its hash was made of, and all readable."""
    try:
        meta_row = table.get(META)
        if meta_row is None:
            return False
        meta = decode_meta(meta_row)
        kept_alive: set[bytes] = set()
        total = 0
        for key, entry in table.items(ENTRY, after_prefix(ENTRY)):
            total += row_hash(key[1:], entry)
            head = stored(entry)
            if head.lease:
                kept_alive.add(leased_key(head.lease, key[1:]))
            elif head.expires_ms:
                kept_alive.add(expiry_key(head.expires_ms, key[1:]))
        leases, held = 0, Counter[bytes]()
        for key, row in table.items(LEASE, after_prefix(LEASE)):
            leases += row_hash(key, row)
            lease = decode_lease(row)
            kept_alive.add(deadline_key(lease.expires_ms, int.from_bytes(key[1:], "big")))
            held[lessor_key(lease.lessor)] += 1
        sessions = [
            sum(row_hash(key, one) for key, one in table.items(prefix, after_prefix(prefix)))
            for prefix in (SESSION + b"\0", SESSION + b"\1")
        ]
        kept = {
            key
            for prefix in (EXPIRY, LEASED, DEADLINE)
            for key, _ in table.items(prefix, after_prefix(prefix))
        }
        counted = {
            key: int.from_bytes(one, "big")
            for key, one in table.items(LESSOR, after_prefix(LESSOR))
        }
    except (OSError, msgspec.MsgspecError):
        return False
    sums = [meta.entry_sum, *meta.session_sums, meta.lease_sum]
    found = [one & HASH_MASK for one in (total, *sessions, leases)]
    is_same = kept == kept_alive and counted == held
    return is_same and found == [int.from_bytes(one, "big") for one in sums]


def _forget_changes(table: Table) -> None:
    meta = decode_meta(table.get(META))
    meta.changes, meta.changes_from, meta.stale_from = 0, meta.next, -1
    meta.change_bytes = 0
    drops = [(prefix, after_prefix(prefix)) for prefix in (CHANGE, HEADS)]
    table.write(drops, {META: encode_row(meta)})
