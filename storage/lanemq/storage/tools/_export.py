"""``lanemq store export-metadata``: the tables under ``config`` as JSON."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from lanemq.wire import fastjson

from .._config import Stage
from .._document import Document
from .._errors import StoreCorrupted
from .._files import RealFiles
from .._offset_tables import OFFSET_MEMBER
from .._table import DATA_VERSION
from ._build_queues import sync
from ._directory import StoreDirectory, look_into, read_store
from ._errors import NotAStore
from ._metadata import TableContents, read_tables
from ._rocks_view import has_database
from ._rows_view import RowsView
from ._stage import StageFound, derive_stage, files_end


@final
@dataclass(frozen=True, slots=True)
class ExportedTable:
    """One table. ``members`` are those of its JSON file."""

    name: str
    file: str
    source: str
    """``json`` or ``rocksdb``: where it was read from."""
    entries: int
    members: dict[str, Any]


def export_tables(
    root: Path, *, commit_log: Path | None = None, from_rocksdb: bool | None = None
) -> tuple[StageFound, list[ExportedTable]]:
    """Read all tables there are; nothing in the store is changed.

    ``from_rocksdb``: which side; None for the one that counts in the stage the store is in.
    Raises ``NotAStore``, also where a table cannot be read, ``StoreLocked`` and ``OSError``.
    """
    with read_store(root, commit_log=commit_log) as store:
        stage = _stage(store)
        chosen = stage.stage is Stage.ROCKSDB if from_rocksdb is None else from_rocksdb
        tables = read_tables(store.config, from_rocksdb=chosen)
    exported = []
    for table in tables.values():
        if table.problem:
            raise NotAStore(root, f"{table.problem}. --from json or --from rocksdb reads the other")
        if table.source != "none":
            exported.append(_exported(table))
    if not exported:
        raise NotAStore(root, "there are no tables in its config directory")
    return stage, exported


def export_in_place(
    root: Path, *, commit_log: Path | None = None
) -> tuple[StageFound, list[tuple[ExportedTable, Path]]]:
    """Write the tables that are in RocksDB as the JSON files of the store itself, durably.

    For a step back to a broker that reads those. The files that were there stay as ``.bak``.
    Raises as ``export_tables``, and ``NotAStore`` where no table is in RocksDB.
    """
    if not root.is_dir():
        raise NotAStore(root, "there is no such directory")
    look_into(root, commit_log=commit_log)
    lock = RealFiles().lock(root / "lock", root)
    try:
        store = look_into(root, commit_log=commit_log)
        stage = _stage(store)
        tables = read_tables(store.config, from_rocksdb=True)
        written = []
        for table in tables.values():
            if table.problem:
                raise NotAStore(root, table.problem)
        for table in tables.values():
            if table.source == "rocksdb":
                exported = _exported(table)
                document = Document(RealFiles(), store.config / exported.file)
                document.write(exported.members)
                sync(document.path)
                written.append((exported, document.path))
        if not written:
            raise NotAStore(root, "none of its tables is in RocksDB: they are in JSON already")
        sync(store.config)
        return stage, written
    finally:
        lock.release()


def _stage(store: StoreDirectory) -> StageFound:
    end = None
    if has_database(store.consume_queue):
        with suppress(StoreCorrupted):
            rows = RowsView(store.consume_queue)
            end = rows.watermark()
            rows.close()
    return derive_stage(store, files_end=files_end(store), rocksdb_end=end)


def _exported(table: TableContents) -> ExportedTable:
    entries: dict[Any, Any] = table.entries
    if table.kind.member == OFFSET_MEMBER:  # their keys are numbers, in whatever form they came
        entries = {
            _number(name): {_number(key): offset for key, offset in queues.items()}
            if isinstance(queues, dict)
            else queues
            for name, queues in entries.items()
        }
    members: dict[str, Any] = {**table.others, table.kind.member: entries}
    if table.version is not None:
        members[DATA_VERSION] = table.version
    return ExportedTable(
        table.kind.name,
        table.kind.file,
        table.source,
        len(table.entries),
        dict(sorted(members.items())),
    )


def _number(text: str) -> str | int:
    return int(text) if text.isascii() and text.isdigit() else text


def write_tables(tables: list[ExportedTable], directory: Path) -> list[Path]:
    """Write the JSON files that a broker reads. Raises ``OSError``, also for one that is there."""
    files = RealFiles()
    paths = [directory / table.file for table in tables]
    for path in paths:
        if path.exists():
            raise FileExistsError(17, "is there already: give a directory without it", str(path))
    for table, path in zip(tables, paths, strict=True):
        files.write_all(path, fastjson.dumps(table.members, pretty=True))
    return paths
