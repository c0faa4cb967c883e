"""The start of one table with RocksDB, which takes over newer entries of the JSON file.

All that a table takes over is written in one synced batch, with the version and the marker; so
after a kill at any moment the next start finds either nothing or all of it done, and does the
same again. The verdict of file times is kept in a file meanwhile: opening a database changes them.
Source: RocketMQ 5.3.3, RocksDBTopicConfigManager.merge and its kin.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from lanemq.local import get_logger, replace_file
from lanemq.wire.bodies import DataVersion

from ..._errors import ConfigInvalid
from ...disk._files import Files
from ...rocks._files import is_present
from .._document import Document
from ._database import (
    FORBIDDEN,
    MARKER_KEY,
    MEMBERS_KEY,
    ROWS,
    VERSION,
    VERSION_KEY,
    Change,
    ConfigDatabase,
    written_s,
)
from ._refusal import naming_ways_on
from ._rows import Kind, version_row
from ._rule import (
    Direction,
    JsonSide,
    Later,
    Marker,
    RocksSide,
    Ruling,
    contents_sha256,
    differing,
    direction,
    merged,
)
from ._table_reading import (
    FromJson,
    FromRocks,
    merged_others,
    pack_others,
    read_json,
    read_marker,
    read_rocks,
    split_others,
)
from ._values import dump_plain

LOGGER = get_logger(__name__)

EVIDENCE_FILE: Final = "upgradeEvidence.json"
SHOWN_NAMES: Final = 20
NOTHING: Final = FromRocks(RocksSide({}), None, {}, {})


def open_converted(
    kind: Kind,
    directory: Path,
    files: Files,
    *,
    transfer: bool,
    now_ms: Callable[[], int],
) -> ConfigDatabase:
    """Open a table's database, which may be new, and take over what is newer in JSON.

    ``directory`` is ``config``; ``transfer`` false leaves RocksDB as it is. Raises
    ``StoreLocked``, ``StartRefused``, ``ConfigInvalid`` and ``OSError``.
    """
    document = Document(files, directory / kind.file)
    with naming_ways_on(kind, directory, files):
        database = _open_converted(kind, directory, document, transfer=transfer, now_ms=now_ms)
    _drop_evidence(directory, kind)
    return database


def _open_converted(
    kind: Kind,
    directory: Path,
    document: Document,
    *,
    transfer: bool,
    now_ms: Callable[[], int],
) -> ConfigDatabase:
    path, rocks = directory / kind.name, NOTHING
    if is_present(path):
        with closing(ConfigDatabase(path, read_only=True)) as reader:
            marker = read_marker(reader)
            if marker is not None and _is_known(marker, document):
                LOGGER.info("%s: the JSON file has not changed since it was taken over", path)
                return _write(path, ())
            rocks = read_rocks(kind, reader)
    json = read_json(kind, document)
    later = _later(kind, directory, document)
    verdict = direction(kind, json.side, rocks.side, later)
    if not transfer:
        return _write(path, _suppressed(kind, path, json.side, rocks.side, verdict))
    _report(path, verdict, json.side, rocks.side)
    if verdict.direction is Direction.KEEP:
        return _write(path, _marked(json.side, rocks.side))
    if rocks.side.rows:
        _keep_evidence(directory, kind, later)
    return _write(path, list(_taken_over(kind, path, verdict, json, rocks, now_ms())))


def _is_known(marker: Marker, document: Document) -> bool:
    return not marker.suppressed and marker.json_sha256 == document.sha256()


def _write(path: Path, changes: Sequence[Change]) -> ConfigDatabase:
    database = ConfigDatabase(path)
    try:
        if changes:
            database.write(changes, sync=True)
    except BaseException:
        database.close()
        raise
    return database


def _taken_over(
    kind: Kind, path: Path, verdict: Ruling, json: FromJson, rocks: FromRocks, now_ms: int
) -> Iterator[Change]:
    """Return all changes of one conversion; changes of existing rows are logged."""
    before = rocks.side.rows
    after = merged(kind, verdict.direction, json.side.rows, before)
    stored = dict(rocks.stored)
    for name in differing(before, after):
        row = after.get(name)
        if before:
            LOGGER.info("%s: %s is taken over from JSON", path, name)
        yield Change(ROWS, name.encode(), row)
        if row is None:
            del stored[name]
        else:
            stored[name] = row
    others = merged_others(verdict.direction, json.others, rocks.others)
    old_forbidden, old_members = split_others(rocks.others)
    forbidden, members = split_others(others)
    for group in old_forbidden.keys() | forbidden.keys():
        value = dump_plain(forbidden[group]) if group in forbidden else None
        yield Change(FORBIDDEN, group.encode(), value)
    if old_members or members:
        yield Change(VERSION, MEMBERS_KEY, dump_plain(members) if members else None)
    if not before:
        LOGGER.info("%s: %d entries are taken over from JSON", path, len(after))
    # As 5.3.3: one step above what was taken over.
    counter = max(json.side.counter, rocks.side.counter or 0) + 1
    state = rocks.version.state_version if rocks.version is not None else None
    yield Change(VERSION, VERSION_KEY, version_row(DataVersion(now_ms, counter, state)))
    packed = pack_others(others)
    same = after == json.side.rows and packed == json.side.others
    digest = contents_sha256(stored, packed) if same else ""
    yield _marker(json.side, digest, rocks.side.marker)


def _marker(json: JsonSide, rocks_sha256: str, old: Marker | None) -> Change:
    marker = Marker(json.counter, json.sha256, rocks_sha256) if json.sha256 else Marker()
    return Change(VERSION, MARKER_KEY, marker.after(old).row())


def _marked(json: JsonSide, rocks: RocksSide) -> list[Change]:
    """Return the change of the marker where it is missing or out of date."""
    same = rocks.rows == json.rows and rocks.others == json.others
    change = _marker(json, rocks.sha256 if same else "", rocks.marker)
    old = rocks.marker.row() if rocks.marker is not None else None
    return [change] if change.value != old else []


def _suppressed(
    kind: Kind, path: Path, json: JsonSide, rocks: RocksSide, verdict: Ruling
) -> list[Change]:
    """Log what is not taken over, and remember that; a later start may add it."""
    lacking = sorted(json.rows.keys() - rocks.rows.keys())
    if lacking:
        LOGGER.warning(
            "%s: %s exist only in JSON and are not taken over, as the settings ask: %s",
            path,
            _counted(kind, lacking),
            _shown(lacking),
        )
    if verdict.direction is Direction.KEEP:
        return _marked(json, rocks)
    marker = Marker(json.counter, json.sha256, suppressed=True).after(rocks.marker)
    return [Change(VERSION, MARKER_KEY, marker.row())] if marker != rocks.marker else []


def _counted(kind: Kind, names: Sequence[str]) -> str:
    if kind.holds_offsets:
        groups = {name.rpartition("@")[2] for name in names}
        return f"offsets of {len(groups)} groups"
    return f"{len(names)} {kind.name}"


def _shown(names: Sequence[str]) -> str:
    more = len(names) - SHOWN_NAMES
    return ", ".join(names[:SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def _report(path: Path, verdict: Ruling, json: JsonSide, rocks: RocksSide) -> None:
    if verdict.stale:
        LOGGER.warning(
            "%s: stale JSON: %s. It does not count; what differs: %s",
            path,
            verdict.reason,
            _shown(differing(json.rows, rocks.rows)),
        )
        return
    if verdict.in_doubt:
        LOGGER.warning(
            "%s: %s (were file times lost in a copy?), so %s; what differs: %s",
            path,
            verdict.reason,
            verdict.direction.value,
            _shown(differing(json.rows, rocks.rows)),
        )
        return
    LOGGER.info("%s: %s: %s", path, verdict.reason, verdict.direction.value)


# The result of file times, until the conversion is done


def _later(kind: Kind, directory: Path, document: Document) -> Later:
    found = _evidence(directory).get(kind.name)
    if found is not None:
        return found
    return Later.of(document.modified_s(), written_s(directory / kind.name))


def _evidence(directory: Path) -> dict[str, Later]:
    path = directory / EVIDENCE_FILE
    if not path.exists():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Later])
    except msgspec.MsgspecError as error:
        raise ConfigInvalid(f"{path}: {error}") from error


def _keep_evidence(directory: Path, kind: Kind, later: Later) -> None:
    found = _evidence(directory) | {kind.name: later}
    replace_file(directory / EVIDENCE_FILE, msgspec.json.encode(found))


def _drop_evidence(directory: Path, kind: Kind) -> None:
    found = _evidence(directory)
    if found.pop(kind.name, None) is None:
        return
    if found:
        replace_file(directory / EVIDENCE_FILE, msgspec.json.encode(found))
    else:
        (directory / EVIDENCE_FILE).unlink()
