"""Support for tools that write the JSON files from RocksDB: a check before, a mark after.

Source: none in RocketMQ, whose exports leave nothing in the database.
"""

from contextlib import closing
from pathlib import Path

from ..._errors import ConfigInvalid
from ...disk._files import Files
from .._document import Document
from ._database import MARKER_KEY, VERSION, Change, ConfigDatabase
from ._rows import Kind
from ._rule import (
    JsonSide,
    Later,
    Marker,
    RocksSide,
    contents_sha256,
    differing,
    is_overwritten,
)
from ._table_reading import (
    pack_others,
    read_json,
    read_marker,
    read_others,
    read_rocks,
    read_version,
    stored_rows,
)


def overwritten_names(kind: Kind, database: ConfigDatabase, document: Document) -> list[str] | None:
    """Return the differing entries, where an export would overwrite something newer in the file.

    None where it would not. ``database`` is read only. Raises ``ConfigInvalid`` naming what cannot
    be read of it; a file that cannot be read has nothing to lose.
    """
    try:
        json = read_json(kind, document).side
    except ConfigInvalid:
        json = JsonSide({})
    rocks: RocksSide = read_rocks(kind, database).side
    later = Later.of(document.modified_s(), database.written_s())
    return differing(json.rows, rocks.rows) if is_overwritten(json, rocks, later) else None


def mark_exported(kind: Kind, directory: Path, files: Files) -> None:
    """Mark the JSON file as equal to the database; ``directory`` is ``config``.

    The file must be durable. Raises ``StoreLocked``, ``StoreCorrupted``, ``ConfigInvalid`` and
    ``OSError``.
    """
    with closing(ConfigDatabase(directory / kind.name)) as database:
        version, packed = read_version(database), pack_others(read_others(kind, database))
        marker = Marker(
            version.counter if version is not None else 0,
            Document(files, directory / kind.file).sha256(),
            contents_sha256(stored_rows(database), packed),
        ).after(read_marker(database))
        database.write([Change(VERSION, MARKER_KEY, marker.row())], sync=True)
