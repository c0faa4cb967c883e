"""The check that every row of the key-value states can be read, block by block."""

from pathlib import Path

import msgspec

from ...kv.engines._engine import Table
from ...kv.engines._opening import DIRECTORY, ROCKS_DIRECTORY, why_unreadable
from ...kv.engines._rows import CHANGE, META, after_prefix, decode_meta


def unreadable_states(root: Path) -> dict[str, str]:
    """Read all rows of the RocksDB of a store, checksums included; returns the partitions that
    cannot be read, and why.

    Raises ``StoreCorrupted`` where it cannot be opened, and ``OSError``.
    """
    from ...kv.engines._rocks import RocksEngine

    engine = RocksEngine(root / DIRECTORY / ROCKS_DIRECTORY, read_only=True)
    try:
        found = {name: why_damaged(table) for name, table in engine.tables().items()}
    finally:
        engine.close()
    return {name: why for name, why in found.items() if why}


def why_damaged(table: Table) -> str:
    """Read all rows of a partition; returns what is wrong with them, empty for nothing."""
    why = why_unreadable(table)
    if why:
        return f"its rows cannot be read: {why}"
    row = table.get(META)
    if row is None:
        return ""
    try:
        meta = decode_meta(row)
    except msgspec.MsgspecError as error:
        return f"the row of its state cannot be read: {error}"
    changes = sum(1 for _ in table.items(CHANGE, after_prefix(CHANGE)))
    if changes != meta.changes:
        return f"it has {changes} rows of changes, not {meta.changes}"
    return ""
