"""Refusal of starts that would lose configuration; nothing in the store is changed.

5.3.3 starts with stale JSON files without a word: topics, groups and offsets made with RocksDB
are gone then.
"""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from lanemq.local import get_logger

from ..._config import StoreConfig
from ..._errors import ConfigInvalid, StartRefused
from ...disk._files import Files
from ...rocks._files import is_present
from .._contents import parse_contents
from .._document import Document
from ._database import ConfigDatabase, written_s
from ._refusal import naming_ways_on
from ._rows import KINDS, Kind
from ._rule import JsonSide, Later, Loss, contents_sha256, differing, loss
from ._table_reading import (
    pack_others,
    read_json,
    read_marker,
    read_others,
    read_rocks,
    stored_rows,
)

LOGGER = get_logger(__name__)
SHOWN_NAMES = 10


def check_metadata(config: StoreConfig, files: Files) -> None:
    """Refuse a start that would use the wrong configuration.

    Only for a store whose lock is held. Raises ``StartRefused``, ``StoreLocked``
    and ``ConfigInvalid``.
    """
    directory = config.root / "config"
    if config.config_manager_version is None and is_present(directory / "rdb"):
        raise StartRefused(
            f"{directory / 'rdb'} holds the configuration of a broker with "
            "configManagerVersion=v2, which lanemq cannot read: its topics, groups and offsets "
            "would be missing. Go on with that broker, or set configManagerVersion=v1 to start "
            "with what the JSON files or the databases of v1 have"
        )
    if config.stage.reads_rows:
        return
    found = {}
    for kind in KINDS:
        try:
            with naming_ways_on(kind, directory, files):
                lost = _lost(kind, directory, files)
        except StartRefused as error:
            if not config.allow_stale_json:
                raise
            lost = Lost(Loss.ROWS, str(error))
        if lost is not None:
            found[kind] = lost
    refused = {kind: lost for kind, lost in found.items() if lost.what is not Loss.OVERTAKEN}
    text = "; ".join(lost.text for lost in (refused or found).values())
    if not refused or config.allow_stale_json:
        if found:
            LOGGER.warning("the JSON files are used as they are, without what differs: %s", text)
        return
    if all(lost.what is Loss.ROWS for lost in refused.values()):
        raise StartRefused(
            "RocksDB has newer configuration than the JSON files, which this start would use: "
            f"{text}. Either start with storeType=defaultRocksDB once more and stop cleanly, which "
            "writes the JSON files; or write them now with `export_in_place`; or set "
            "allowStaleJsonMetadata=true to go on without what differs"
        )
    raise StartRefused(
        "RocksDB has configuration that the JSON files, which this start would use, lack, and "
        f"they may have what RocksDB lacks: {text}. Either start with storeType=defaultRocksDB "
        "once more and stop cleanly, which brings both together and writes the JSON files; or set "
        "allowStaleJsonMetadata=true to go on with them, without what differs"
    )


class Lost(NamedTuple):
    """The entries that a start from the JSON file of one table would lose."""

    what: Loss
    text: str


def _lost(kind: Kind, directory: Path, files: Files) -> Lost | None:
    path = directory / kind.name
    if not is_present(path):
        return None
    document = Document(files, directory / kind.file)
    later = Later.of(document.modified_s(), written_s(path))
    with closing(ConfigDatabase(path, read_only=True)) as database:
        if _is_proven_valid(kind, document, database):
            return None
        rocks = read_rocks(kind, database).side
    try:
        json = read_json(kind, document).side
    except ConfigInvalid as error:
        LOGGER.warning("%s", error)
        json = JsonSide({})
    what = loss(json, rocks, later)
    if what is Loss.NOTHING:
        return None
    names = differing(json.rows, rocks.rows)
    more = len(names) - SHOWN_NAMES
    shown = ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")
    return Lost(what, f"{kind.name}: {shown or 'what stands beside them'}")


def _is_proven_valid(kind: Kind, document: Document, database: ConfigDatabase) -> bool:
    """Return whether the marker alone proves the JSON file valid, which saves a long comparison.

    The rows are those of the last export, and the file is that one, or a later one.
    """
    marker = read_marker(database)
    if marker is None or marker.suppressed:
        return False
    packed = pack_others(read_others(kind, database))
    if contents_sha256(stored_rows(database), packed) != marker.rocks_sha256:
        return False
    if document.sha256() == marker.json_sha256:
        return True
    try:
        contents = parse_contents(document.load(after_crash=False), kind.member, document.path)
    except ConfigInvalid:
        return False
    return bool(contents.entries) and document.loaded_sha256 not in marker.older_json
