"""The export of the tables under ``config`` as JSON."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from lanemq.local import sync_path
from lanemq.wire import fastjson

from .._errors import ConfigInvalid, StoreCorrupted
from ..disk._real_files import RealFiles
from ..tables._contents import DATA_VERSION
from ..tables._document import Document
from ..tables._offset_tables import OFFSET_MEMBER
from ..tables.rocks._export import mark_exported
from .reading._directory import StoreDirectory, look_into, read_store
from .reading._errors import NotAStore
from .reading._locking import exclusive_lock
from .reading._metadata import TableContents, overwritten, read_tables
from .reading._rocks_view import has_database
from .reading._rows_view import RowsView
from .reading._stage import StageFound, derive_stage, files_end

SHOWN_NAMES: Final = 10


@final
@dataclass(frozen=True, slots=True)
class ExportedTable:
    """One table. ``members`` are those of its JSON file."""

    name: str
    file: str
    source: str
    """The source of the table: ``json`` or ``rocksdb``."""
    entries: int
    members: dict[str, Any]


def export_tables(
    root: Path,
    *,
    commit_log: Path | None = None,
    from_rocksdb: bool | None = None,
    needs_log: bool = True,
) -> tuple[StageFound, list[ExportedTable]]:
    """Read all existing tables, without changing anything in the store.

    ``from_rocksdb``: which side; None for the one that counts in the stage the store is in.
    ``needs_log`` as in ``look_into``. Raises ``NotAStore``, also where a table cannot be read,
    ``StoreLocked`` and ``OSError``.
    """
    with read_store(root, commit_log=commit_log, needs_log=needs_log) as store:
        stage = find_stage(store)
        chosen = stage.stage.reads_rows if from_rocksdb is None else from_rocksdb
        tables = read_tables(store.config, from_rocksdb=chosen)
    exported = []
    for table in tables.values():
        if table.problem:
            raise NotAStore(root, f"{table.problem}. `from_rocksdb` reads the other")
        if table.source != "none":
            exported.append(_exported(table))
    if not exported:
        raise NotAStore(root, "there are no tables in its config directory")
    return stage, exported


def export_in_place(
    root: Path, *, commit_log: Path | None = None, overwrite: bool = False
) -> tuple[StageFound, list[tuple[ExportedTable, Path]]]:
    """Write the tables that are in RocksDB as the JSON files of the store itself, durably.

    For a step back to a broker that reads those. The files that were there stay as ``.bak``;
    ``overwrite`` says that they may be newer. Raises as ``export_tables``, and ``NotAStore``
    where no table is in RocksDB, or where a file has what it has got after the last export.
    """
    look_into(root, commit_log=commit_log)
    with exclusive_lock(root):
        store = look_into(root, commit_log=commit_log)
        stage = find_stage(store)
        tables = read_tables(store.config, from_rocksdb=True)
        written = []
        for table in tables.values():
            if table.problem:
                raise NotAStore(root, table.problem)
        if not overwrite:
            _check_overwritten(root, store.config, tables)
        for table in tables.values():
            if table.source == "rocksdb":
                exported = _exported(table)
                document = _document(store.config, exported.file)
                document.write(exported.members)
                sync_path(document.path)
                written.append((exported, document.path))
        if not written:
            raise NotAStore(root, "none of its tables is in RocksDB: they are in JSON already")
        sync_path(store.config)
        for table in tables.values():
            if table.source == "rocksdb" and table.kind.rocks is not None:
                mark_exported(table.kind.rocks, store.config, RealFiles())
        return stage, written


def _document(config: Path, file: str) -> Document:
    """Return a document to write, loaded before so that an unreadable file does not become
    ``.bak``."""
    document = Document(RealFiles(), config / file)
    with suppress(ConfigInvalid):
        document.load(after_crash=False)
    return document


def _check_overwritten(root: Path, config: Path, tables: Mapping[str, TableContents]) -> None:
    """Raise ``NotAStore`` where a file has something newer than RocksDB."""
    found, is_ours = [], False
    for table in tables.values():
        if table.source == "rocksdb" and table.kind.rocks is not None:
            names, is_known = overwritten(table.kind.rocks, config)
            is_ours |= is_known
            if names is not None:
                more = len(names) - SHOWN_NAMES
                shown = ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
                found.append(f"{table.kind.file}: {shown or 'what stands beside them'}")
    if not found:
        return
    entries = "; ".join(found)
    if is_ours:
        why = (
            "its JSON files were changed after the last export, or may have been, and an export"
            f" would overwrite that: {entries}. "
        )
    else:
        why = (
            "only an Apache broker has used its RocksDB, so nothing proves which side is newer; an"
            f" export would overwrite what the JSON files have otherwise: {entries}. Where the"
            " broker ran with storeType=defaultRocksDB last, `export_in_place(overwrite=True)` is"
            " right. Else: "
        )
    raise NotAStore(
        root,
        f"{why}A start with storeType=defaultRocksDB brings both sides together, and its clean stop"
        " writes the JSON files; `export_in_place(overwrite=True)` overwrites them all the same,"
        " and `write_tables` leaves them alone",
    )


def find_stage(store: StoreDirectory) -> StageFound:
    """Return the stage that a store is in. Raises ``OSError``."""
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
