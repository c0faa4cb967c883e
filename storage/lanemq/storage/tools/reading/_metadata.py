"""The tables of a store, from its JSON files or its RocksDB databases, for reading only."""

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from lanemq.wire import RemoteProtocolError
from lanemq.wire.bodies import DataVersion
from lanemq.wire.logical import LogicalQueues, logical_queues_by_topic

from ..._errors import StoreError
from ...disk._real_files import RealFiles
from ...tables._contents import parse_contents
from ...tables._document import Document
from ...tables._offset_tables import GROUP_TOPIC_MAP, OFFSET_MEMBER, SEPARATOR
from ...tables.rocks._database import ConfigDatabase
from ...tables.rocks._export import overwritten_names
from ...tables.rocks._rows import GROUPS, OFFSETS, TOPICS, Kind
from ...tables.rocks._table_reading import load_entries, read_marker, read_others, read_version
from ._errors import NotAStore
from ._rocks_view import has_database


@final
class TableKind(NamedTuple):
    """One of the tables: its JSON file, the member that holds it, its form in RocksDB."""

    name: str
    file: str
    member: str
    rocks: Kind | None


TABLES: Final = (
    TableKind("topics", TOPICS.file, TOPICS.member, TOPICS),
    TableKind("groups", GROUPS.file, GROUPS.member, GROUPS),
    TableKind("consumerOffsets", OFFSETS.file, OFFSETS.member, OFFSETS),
    TableKind("delayOffsets", "delayOffset.json", OFFSET_MEMBER, None),
)


@final
@dataclass(slots=True)
class TableContents:
    """One table as it lies on the disk."""

    kind: TableKind
    source: str
    """``json``, ``rocksdb``, or ``none`` where there is nothing."""
    path: Path
    entries: dict[str, Any] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    """Members of the file beside the table, the version left out."""
    version: DataVersion | None = None
    problem: str = ""
    """The reason why it cannot be read."""


def read_json_table(config: Path, kind: TableKind) -> TableContents:
    """Read the JSON file, or its backup where a broker would take that."""
    path = config / kind.file
    found = TableContents(kind, "json", path)
    if not path.exists() and not path.with_name(path.name + ".bak").exists():
        found.source = "none"
        return found
    try:
        members = Document(RealFiles(), path).load(after_crash=False)
        contents = parse_contents(members, kind.member, path)
    except StoreError as error:
        found.problem = str(error)
    else:
        found.entries, found.version, found.others = contents
    return found


def has_table_database(config: Path, kind: TableKind) -> bool:
    return kind.rocks is not None and has_database(config / kind.rocks.name)


def read_rocks_table(config: Path, kind: TableKind) -> TableContents:
    """Read the rows of the RocksDB database."""
    assert kind.rocks is not None
    path = config / kind.rocks.name
    found = TableContents(kind, "rocksdb", path)
    try:
        with closing(ConfigDatabase(path, read_only=True, through_view=True)) as database:
            found.entries = load_entries(kind.rocks, database)
            found.others = read_others(kind.rocks, database)
            found.version = read_version(database)
    except StoreError as error:
        found.problem = str(error)
    if GROUP_TOPIC_MAP in found.others:
        topics: dict[str, list[str]] = {}
        for group, topic in consumer_offsets(found):
            topics.setdefault(group, []).append(topic)
        found.others[GROUP_TOPIC_MAP] = topics
    return found


def overwritten(kind: Kind, config: Path) -> tuple[list[str] | None, bool]:
    """Return ``overwritten_names`` for a database that is not open, and whether lanemq has used
    it."""
    path = config / kind.name
    with closing(ConfigDatabase(path, read_only=True, through_view=True)) as database:
        names = overwritten_names(kind, database, Document(RealFiles(), config / kind.file))
        return names, read_marker(database) is not None


def read_tables(config: Path, *, from_rocksdb: bool) -> dict[str, TableContents]:
    """Read all tables by name, as a broker of that kind would take them.

    A table that has no database is read from its file in either case.
    """
    return {
        kind.name: read_rocks_table(config, kind)
        if from_rocksdb and has_table_database(config, kind)
        else read_json_table(config, kind)
        for kind in TABLES
    }


def read_logical_queues(root: Path, *, from_rocksdb: bool) -> dict[str, LogicalQueues]:
    """Return the logical queues of each topic of a store, also while a broker has it open.

    ``from_rocksdb``: whether the topics are there, where there is such a table. Raises
    ``NotAStore`` where they cannot be read.
    """
    topics = read_tables(root / "config", from_rocksdb=from_rocksdb)["topics"]
    if topics.problem:
        raise NotAStore(root, topics.problem)
    try:
        return logical_queues_by_topic(topics.others) or {}
    except RemoteProtocolError as error:
        raise NotAStore(root, f"{topics.path}: {error}") from error


def consumer_offsets(table: TableContents) -> dict[tuple[str, str], dict[int, int]]:
    """Return (group, topic) -> queue id -> offset; names of another form are left out."""
    found: dict[tuple[str, str], dict[int, int]] = {}
    for name, queues in table.entries.items():
        topic, separator, group = name.partition(SEPARATOR)
        if separator and SEPARATOR not in group and isinstance(queues, dict):
            found[group, topic] = {
                int(queue_id): int(offset) for queue_id, offset in queues.items()
            }
    return found
