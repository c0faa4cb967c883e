"""Reading the two sides of a table: its JSON file, and its database.

Source: RocketMQ 5.3.3, RocksDBTopicConfigManager.merge and its kin.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lanemq.wire import LocalProtocolError, RemoteProtocolError
from lanemq.wire.bodies import DataVersion

from ..._errors import ConfigInvalid
from .._contents import parse_contents
from .._document import Document
from .._offset_tables import GROUP_TOPIC_MAP
from ._database import (
    FORBIDDEN,
    MARKER_KEY,
    MEMBERS_KEY,
    VERSION,
    VERSION_KEY,
    ConfigDatabase,
)
from ._rows import GROUPS, OFFSETS, Kind, parse_version, plain_object
from ._rule import Direction, JsonSide, Marker, RocksSide, Rows, contents_sha256
from ._values import dump_plain

FORBIDDEN_MEMBER = "forbiddenTable"


class FromJson(NamedTuple):
    """The content of a JSON file."""

    side: JsonSide
    others: dict[str, Any]


class FromRocks(NamedTuple):
    """The content of a database."""

    side: RocksSide
    version: DataVersion | None
    others: dict[str, Any]
    stored: dict[str, bytes]
    """The rows as they are stored."""


def read_json(kind: Kind, document: Document) -> FromJson:
    """Read the JSON file. Raises ``ConfigInvalid`` naming file and entry."""
    contents = parse_contents(document.load(after_crash=False), kind.member, document.path)
    rows = _rows(kind, contents.entries, document.path)
    counter = contents.version.counter if contents.version is not None else 0
    side = JsonSide(rows, pack_others(contents.others), counter, document.loaded_sha256)
    return FromJson(side, contents.others)


def read_rocks(kind: Kind, database: ConfigDatabase) -> FromRocks:
    """Read the database. Raises ``ConfigInvalid`` naming database and row."""
    stored = stored_rows(database)
    rows = _rows(kind, parse_entries(kind, stored, database.path), database.path)
    version = read_version(database)
    counter = version.counter if version is not None else None
    others = read_others(kind, database)
    packed = pack_others(others)
    digest = contents_sha256(stored, packed)
    side = RocksSide(rows, packed, digest, counter, read_marker(database))
    return FromRocks(side, version, others, stored)


def _rows(kind: Kind, entries: Mapping[str, Any], path: Path) -> dict[str, bytes]:
    rows = {}
    for name, value in entries.items():
        try:
            rows[name] = kind.row(value)
        except (RemoteProtocolError, LocalProtocolError) as error:
            raise ConfigInvalid(f"{path}, {name}: {error}") from error
    return rows


def stored_rows(database: ConfigDatabase) -> dict[str, bytes]:
    """Read all rows by name, as they are. Raises ``ConfigInvalid`` naming the database."""
    return {row_name(key, database.path): value for key, value in database.rows().items()}


def parse_entries(kind: Kind, rows: Rows, path: Path) -> dict[str, Any]:
    """Parse rows to JSON. Raises ``ConfigInvalid`` naming database and row."""
    entries = {}
    for name, value in rows.items():
        try:
            entries[name] = kind.entry(value)
        except RemoteProtocolError as error:
            raise ConfigInvalid(f"{path}, {name}: {error}") from error
    return entries


def load_entries(kind: Kind, database: ConfigDatabase) -> dict[str, Any]:
    """Read all entries, as JSON. Raises ``ConfigInvalid`` naming database and row."""
    return parse_entries(kind, stored_rows(database), database.path)


def row_name(key: bytes, path: Path) -> str:
    """Decode a key to a name. Raises ``ConfigInvalid``."""
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise ConfigInvalid(f"{path}: the key {key!r} is not text") from error


def read_version(database: ConfigDatabase) -> DataVersion | None:
    """Read the version; None where there is none. Raises ``ConfigInvalid``."""
    row = database.get(VERSION, VERSION_KEY)
    try:
        return parse_version(row) if row else None
    except RemoteProtocolError as error:
        raise ConfigInvalid(f"{database.path}, its version: {error}") from error


def read_marker(database: ConfigDatabase) -> Marker | None:
    """Read the marker; None where there is none. Raises ``ConfigInvalid``."""
    row = database.get(VERSION, MARKER_KEY)
    try:
        return Marker.parse(row) if row else None
    except RemoteProtocolError as error:
        raise ConfigInvalid(f"{database.path}, its marker: {error}") from error


def read_others(kind: Kind, database: ConfigDatabase) -> dict[str, Any]:
    """Read the members beside the table, as the JSON file would have them. Raises
    ``ConfigInvalid``."""
    try:
        row = database.get(VERSION, MEMBERS_KEY)
        others = plain_object(row) if row else {}
        if kind is GROUPS:
            others[FORBIDDEN_MEMBER] = {
                row_name(key, database.path): plain_object(value)
                for key, value in database.rows(FORBIDDEN).items()
            }
    except RemoteProtocolError as error:
        raise ConfigInvalid(f"{database.path}: {error}") from error
    if kind is OFFSETS:
        others.setdefault(GROUP_TOPIC_MAP, {})  # made again at each export
    return others


def split_others(others: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the members beside a table: forbidden topics by group, and members without rows of
    their own."""
    rest = dict(others)
    rest.pop(GROUP_TOPIC_MAP, None)
    forbidden = rest.pop(FORBIDDEN_MEMBER, None)
    return forbidden if isinstance(forbidden, dict) else {}, rest


def pack_others(others: Mapping[str, Any]) -> bytes:
    """Write the members beside a table in a normal form, by which two sides are compared."""
    forbidden, rest = split_others(others)
    return dump_plain(rest | ({FORBIDDEN_MEMBER: forbidden} if forbidden else {}))


def merged_others(
    how: Direction, json: Mapping[str, Any], rocks: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the members beside a table after ``how``; forbidden topics are merged group by
    group."""
    if how is Direction.REPLACE:
        return dict(json)
    low, high = (rocks, json) if how is Direction.MERGE else (json, rocks)
    forbidden = split_others(low)[0] | split_others(high)[0]
    return {**low, **high} | ({FORBIDDEN_MEMBER: forbidden} if forbidden else {})
