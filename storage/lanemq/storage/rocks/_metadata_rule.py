"""Which side is right, where a table is both in a JSON file and in RocksDB.

Counters alone cannot tell: 5.3.3 counts one step for a merge, hardly counts offsets, and 4.9 has
no version of them at all. So beside the version stands a marker that remembers the JSON file of
the last merge or export. Where 5.3.3 left none, the time of the last write helps; where that
does not help either, nothing is dropped, and of two offsets the smaller one counts: it repeats
messages, the larger one would lose them.
"""

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import msgspec

from lanemq.wire import RemoteProtocolError

from ._metadata_rows import Kind, parse_offsets

SAME_MOMENT_S: Final = 1.0
"""Files written this close together may come from one copy of a directory: it tells nothing."""

NO_OTHERS: Final = b"{}"

Rows = Mapping[str, bytes]


@final
class Marker(msgspec.Struct, frozen=True, rename="camel"):
    """What the last start or export with RocksDB saw; a row beside the version."""

    json_counter: int = -1
    """The version of the JSON file then, -1 without any."""
    json_sha256: str = ""
    """Of the file's bytes."""
    rocks_sha256: str = ""
    """``contents_sha256`` of RocksDB where it had just what the file has; else empty."""
    suppressed: bool = False
    """Whether the settings forbade to take over what the file had."""

    def row(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def parse(cls, row: bytes) -> "Marker":
        """Raises ``RemoteProtocolError``."""
        try:
            return msgspec.json.decode(row, type=cls)
        except msgspec.MsgspecError as error:
            raise RemoteProtocolError(f"no marker: {error}") from None


@final
class Later(enum.Enum):
    """Which side was written last, as far as file times can tell."""

    JSON = "JSON"
    ROCKSDB = "RocksDB"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, json_s: float, rocksdb_s: float) -> "Later":
        """From the Unix times of the last writes in seconds."""
        if abs(json_s - rocksdb_s) <= SAME_MOMENT_S:
            return cls.UNKNOWN
        return cls.JSON if json_s > rocksdb_s else cls.ROCKSDB


@final
@dataclass(frozen=True, slots=True)
class JsonSide:
    """The JSON file."""

    rows: Rows
    """Its entries, each as the row it would be."""
    others: bytes = NO_OTHERS
    """What it has beside them, in one form."""
    counter: int = 0
    sha256: str = ""


@final
@dataclass(frozen=True, slots=True)
class RocksSide:
    """The database; its rows, each as ``Kind.row`` writes it."""

    rows: Rows
    others: bytes = NO_OTHERS
    """As ``JsonSide.others``."""
    sha256: str = ""
    """``contents_sha256`` of the rows as they are stored."""
    counter: int | None = None
    marker: Marker | None = None


@final
class Direction(enum.Enum):
    """What becomes of the rows in RocksDB."""

    KEEP = "they stay as they are"
    MERGE = "the entries of the JSON file go over them"
    REPLACE = "the JSON file takes their place, deletions included"
    ADD = "what only the JSON file has is added"
    SMALLER = "what only the JSON file has is added, and of two offsets the smaller one counts"


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """A direction, and why."""

    direction: Direction
    reason: str
    stale: bool = False
    """Whether the JSON file has something else that does not count any more."""


def contents_sha256(rows: Rows, others: bytes) -> str:
    """A digest of all that a database has: of its rows as they are stored, and the rest."""
    digest = hashlib.sha256(others)
    for name in sorted(rows):
        key = name.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b%d:" % (len(key), key, len(rows[name])))
        digest.update(rows[name])
    return digest.hexdigest()


def direction(kind: Kind, json: JsonSide, rocks: RocksSide, later: Later) -> Verdict:
    """Decide for a start with RocksDB."""
    marker = rocks.marker
    if not json.rows:
        return Verdict(Direction.KEEP, "there is nothing in JSON")
    if marker is not None and json.sha256 == marker.json_sha256:
        if marker.suppressed:
            return Verdict(Direction.ADD, "the JSON file was passed over so far")
        return Verdict(Direction.KEEP, "the JSON file has not changed since it was taken over")
    if not rocks.rows:
        return Verdict(Direction.MERGE, "there is nothing in RocksDB yet")
    if json.rows == rocks.rows and json.others == rocks.others:
        return Verdict(Direction.KEEP, "both sides agree")
    if marker is not None:
        return _since(marker, json, rocks, later)
    if kind.holds_offsets:
        return _foreign_offsets(json, rocks, later)
    return _foreign_configs(json, rocks, later)


def _since(marker: Marker, json: JsonSide, rocks: RocksSide, later: Later) -> Verdict:
    """The JSON file changed after the marker was written."""
    if json.counter < marker.json_counter:
        return Verdict(Direction.KEEP, "the JSON file is older than the last one seen", stale=True)
    if later is Later.ROCKSDB:
        return Verdict(Direction.ADD, "the JSON file changed, RocksDB was written after that")
    if rocks.sha256 == marker.rocks_sha256 != "":
        return Verdict(Direction.REPLACE, "only the JSON file changed since the export")
    return Verdict(Direction.MERGE, "the JSON file changed since it was taken over")


def _foreign_offsets(json: JsonSide, rocks: RocksSide, later: Later) -> Verdict:
    """Offsets in a database that only 5.3.3 has written, where counters mean little."""
    if later is Later.JSON:
        return Verdict(Direction.MERGE, "the JSON file was written last")
    if rocks.counter is not None and json.counter > rocks.counter:
        return Verdict(Direction.MERGE, "the JSON file has the higher version")
    if later is Later.ROCKSDB:
        return Verdict(Direction.ADD, "RocksDB was written last")
    return Verdict(Direction.SMALLER, "nothing tells which side was written last")


def _foreign_configs(json: JsonSide, rocks: RocksSide, later: Later) -> Verdict:
    """Topics or groups in a database that only 5.3.3 has written."""
    if rocks.counter is None:
        return Verdict(Direction.MERGE, "RocksDB has no version: a merge was interrupted")
    if json.counter > rocks.counter:
        return Verdict(Direction.MERGE, "the JSON file has the higher version")
    if json.counter == rocks.counter and later is not Later.ROCKSDB:
        # After a merge 5.3.3 has one more than the JSON file: one change there makes them equal.
        if later is Later.JSON:
            return Verdict(Direction.MERGE, "equal versions, the JSON file was written last")
        return Verdict(Direction.ADD, "equal versions, and nothing tells which is newer")
    return Verdict(Direction.KEEP, "RocksDB has the higher version", stale=True)


def merged(kind: Kind, how: Direction, json: Rows, rocks: Rows) -> dict[str, bytes]:
    """The rows after ``how``. Offsets are merged queue by queue, other entries as a whole."""
    if how is Direction.KEEP:
        return dict(rocks)
    if how is Direction.REPLACE:
        return dict(json)
    rows = {**rocks, **json} if how is Direction.MERGE else {**json, **rocks}
    if kind.holds_offsets:
        for name in json.keys() & rocks.keys():
            rows[name] = kind.row(_queues(kind, how, json[name], rocks[name]))
    return rows


def _queues(kind: Kind, how: Direction, json: bytes, rocks: bytes) -> dict[int, int]:
    ours, theirs = parse_offsets(kind.entry(rocks)), parse_offsets(kind.entry(json))
    if how is Direction.MERGE:
        return ours | theirs
    if how is Direction.ADD:
        return theirs | ours
    both = ours | theirs
    return {queue_id: min(ours.get(queue_id, offset), offset) for queue_id, offset in both.items()}


def differing(left: Rows, right: Rows) -> list[str]:
    """The names whose rows differ or that one side lacks, sorted."""
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


def is_newer(json: JsonSide, rocks: RocksSide, later: Later) -> bool:
    """Whether a start from the JSON file would lose what RocksDB has."""
    if rocks.others in (NO_OTHERS, json.others) and all(
        json.rows.get(name) == row for name, row in rocks.rows.items()
    ):
        return False
    marker = rocks.marker
    if not json.rows:
        return True
    if marker is not None:
        if json.sha256 == marker.json_sha256:
            return rocks.sha256 != marker.rocks_sha256
        return json.counter < marker.json_counter or later is Later.ROCKSDB
    if rocks.counter is not None and json.counter > rocks.counter:
        return False
    return later is not Later.JSON
