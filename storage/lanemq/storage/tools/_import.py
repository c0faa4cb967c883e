"""Bringing the tables of a store at rest from their JSON files to RocksDB."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import final

from .._clock import system_clock_ms
from ..disk._real_files import RealFiles
from ..tables.rocks._rows import KINDS, Kind
from ..tables.rocks._start import open_converted
from .reading._directory import look_into
from .reading._errors import NotAStore
from .reading._locking import exclusive_lock
from .reading._metadata import TABLES, has_table_database, read_tables


@final
@dataclass(frozen=True, slots=True)
class ImportedTable:
    """A table that is in RocksDB now."""

    name: str
    entries: int
    path: Path
    """The directory of its database."""


def import_in_place(root: Path) -> list[ImportedTable]:
    """Take topics, groups and offsets over into RocksDB, as a start with it does, durably.

    Where there are such tables already, what is newer counts (ADR 006). It is done with a copy
    first and read back, and done with the store only if nothing is missing. The JSON files stay.
    Raises ``NotAStore``, ``StoreLocked``, ``StoreCorrupted``, ``ConfigInvalid``, ``StartRefused``
    and ``OSError``.
    """
    look_into(root)  # before a lock file is made where there is no store
    with exclusive_lock(root):
        config = look_into(root).config
        before = _rows(root, config, from_rocksdb=False)
        if not before:
            raise NotAStore(root, "there are no tables in its config directory")
        new = [kind.rocks for kind in TABLES if not has_table_database(config, kind)]
        with tempfile.TemporaryDirectory(prefix="lanemq-convert-") as name:
            copy = Path(name) / "config"
            shutil.copytree(config, copy, ignore=shutil.ignore_patterns("LOCK"))
            _take_over(copy)
            expected = _rows(root, copy, from_rocksdb=True)
        for kind in new:
            if kind in before and expected.get(kind) != before[kind]:
                raise NotAStore(
                    root, f"nothing was changed: {kind.file} would not be the same in RocksDB"
                )
        _take_over(config)
        after = _rows(root, config, from_rocksdb=True)
        if after != expected:
            raise NotAStore(root, "its tables in RocksDB are not what they had to become")
        return [
            ImportedTable(kind.name, len(rows), config / kind.name) for kind, rows in after.items()
        ]


def _rows(root: Path, config: Path, *, from_rocksdb: bool) -> dict[Kind, dict[str, bytes]]:
    """Return the rows of each table. Raises ``NotAStore`` for one that cannot be read."""
    found = {}
    for table in read_tables(config, from_rocksdb=from_rocksdb).values():
        kind = table.kind.rocks
        if table.problem:
            raise NotAStore(root, table.problem)
        if table.source != "none" and kind is not None:
            found[kind] = {name: kind.row(entry) for name, entry in table.entries.items()}
    return found


def _take_over(config: Path) -> None:
    for kind in KINDS:
        if (config / kind.file).exists() or (config / kind.name / "CURRENT").exists():
            open_converted(kind, config, RealFiles(), transfer=True, now_ms=system_clock_ms).close()
