"""Starts that would lose configuration: a store is looked at, and nothing in it is changed.

5.3.3 starts with stale JSON files without a word: topics, groups and offsets made with RocksDB
are gone then.
"""

import logging
from pathlib import Path

from .._config import Stage, StoreConfig
from .._document import Document
from .._errors import ConfigInvalid, StartRefused
from .._files import Files
from .._table import parse_contents
from ._config_database import ConfigDatabase, written_s
from ._database import is_present
from ._metadata_rows import KINDS, Kind
from ._metadata_rule import JsonSide, Later, contents_sha256, differing, is_newer
from ._metadata_sides import (
    pack_others,
    read_json,
    read_marker,
    read_others,
    read_rocks,
    stored_rows,
)

LOGGER = logging.getLogger(__name__)
SHOWN_NAMES = 10


def check_metadata(config: StoreConfig, files: Files) -> None:
    """Refuse a start that would use the wrong configuration.

    Only for a store whose lock is held. Raises ``StartRefused``, ``StoreLocked``,
    ``StoreCorrupted`` and ``ConfigInvalid``.
    """
    directory = config.root / "config"
    if config.config_manager_version is None and is_present(directory / "rdb"):
        raise StartRefused(
            f"{directory / 'rdb'} holds the configuration of a broker with "
            "configManagerVersion=v2, which lanemq cannot read: its topics, groups and offsets "
            "would be missing. Go on with that broker, or set configManagerVersion=v1 to start "
            "with what the JSON files or the databases of v1 have"
        )
    if config.stage is Stage.ROCKSDB:
        return
    found = [
        text
        for kind in KINDS
        if is_present(directory / kind.name)
        and (text := _newer(kind, directory, files)) is not None
    ]
    if not found:
        return
    if config.allow_stale_json:
        LOGGER.warning("the JSON files are used as they are: %s", "; ".join(found))
        return
    raise StartRefused(
        "RocksDB has newer configuration than the JSON files, which this start would use: "
        f"{'; '.join(found)}. Either start with storeType=defaultRocksDB once more and stop "
        "cleanly, which writes the JSON files; or write them now with `lanemq store "
        f"export-metadata {config.root} --in-place`; or set allowStaleJsonMetadata=true to go on "
        "without what differs"
    )


def _newer(kind: Kind, directory: Path, files: Files) -> str | None:
    path = directory / kind.name
    document = Document(files, directory / kind.file)
    later = Later.of(document.modified_s(), written_s(path))
    database = ConfigDatabase(path, read_only=True)
    try:
        if _is_settled(kind, document, database, later):
            return None
        rocks = read_rocks(kind, database).side
    finally:
        database.close()
    try:
        json = read_json(kind, document).side
    except ConfigInvalid as error:
        LOGGER.warning("%s", error)
        json = JsonSide({})
    if not is_newer(json, rocks, later):
        return None
    names = differing(json.rows, rocks.rows)
    more = len(names) - SHOWN_NAMES
    shown = ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"{kind.name}: {shown or 'what stands beside them'}"


def _is_settled(kind: Kind, document: Document, database: ConfigDatabase, later: Later) -> bool:
    """Whether the marker alone says that the JSON file counts: the rest takes much longer."""
    marker = read_marker(database)
    if marker is None:
        return False
    if document.sha256() == marker.json_sha256:
        packed = pack_others(read_others(kind, database))
        return contents_sha256(stored_rows(database), packed) == marker.rocks_sha256
    if later is Later.ROCKSDB:
        return False
    try:
        contents = parse_contents(document.load(after_crash=False), kind.member, document.path)
    except ConfigInvalid:
        return False
    counter = contents.version.counter if contents.version is not None else 0
    return bool(contents.entries) and counter >= marker.json_counter
