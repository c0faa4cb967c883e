"""The rule that chooses between a table's JSON file and its RocksDB database.

Counters cannot tell: 5.3.3 counts one step for a merge and hardly counts offsets, 4.9 restarts
the groups' counter and drops the offsets'. So beside the version stands a marker that remembers,
by content, the JSON file of the last merge or export, those before it, and the rows of the last
export. A side that differs from what the marker has was changed after it. Where both were, or
where only 5.3.3 has written, the time of the last write helps; where that does not help either,
nothing is dropped, and of two offsets the smaller one counts: it repeats messages, the larger one
would lose them.
"""

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, final

import msgspec

from lanemq.wire import RemoteProtocolError

from ._rows import Kind, parse_offsets

SAME_MOMENT_S: Final = 1.0
"""Seconds within which file times prove nothing, since both may come from one copy of a
directory."""

NO_OTHERS: Final = b"{}"

REMEMBERED_FILES: Final = 16
"""Number of earlier JSON files that a marker recognizes."""

Rows = Mapping[str, bytes]


@final
class Marker(msgspec.Struct, frozen=True, rename="camel"):
    """The state at the last start or export with RocksDB; kept in a row beside the version."""

    json_counter: int = -1
    """The version of the JSON file at that time; -1 without any."""
    json_sha256: str = ""
    """SHA-256 of the file's bytes."""
    rocks_sha256: str = ""
    """The ``contents_sha256`` of RocksDB where it had just what the file has; else empty."""
    suppressed: bool = False
    """True if the settings forbade to take over the file's content."""
    older_json: tuple[str, ...] = ()
    """Digests of the files before that one, oldest first: a file with one of them was restored, and
    is not newer."""

    def after(self, old: "Marker | None") -> "Marker":
        """Return this marker as the successor of ``old``, whose file becomes one of the older
        ones."""
        if old is None:
            return self
        known = dict.fromkeys((*old.older_json, old.json_sha256))
        known.pop(self.json_sha256, None)
        known.pop("", None)
        return msgspec.structs.replace(self, older_json=tuple(known)[-REMEMBERED_FILES:])

    def row(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def parse(cls, row: bytes) -> "Marker":
        """Parse a marker. Raises ``RemoteProtocolError``."""
        try:
            return msgspec.json.decode(row, type=cls)
        except msgspec.MsgspecError as error:
            raise RemoteProtocolError(f"no marker: {error}") from None


@final
class Later(enum.Enum):
    """The side that was written last, as far as file times can tell."""

    JSON = "JSON"
    ROCKSDB = "RocksDB"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, json_s: float, rocksdb_s: float) -> "Later":
        """Judge by the Unix times of the last writes in seconds."""
        if abs(json_s - rocksdb_s) <= SAME_MOMENT_S:
            return cls.UNKNOWN
        return cls.JSON if json_s > rocksdb_s else cls.ROCKSDB


@final
@dataclass(frozen=True, slots=True)
class JsonSide:
    """The JSON file."""

    rows: Rows
    """The file's entries, each as the row it would be."""
    others: bytes = NO_OTHERS
    """The members beside the entries, in one normal form."""
    counter: int = 0
    sha256: str = ""


@final
@dataclass(frozen=True, slots=True)
class RocksSide:
    """The database, with rows as ``Kind.row`` writes them."""

    rows: Rows
    others: bytes = NO_OTHERS
    """The members beside the rows, as ``JsonSide.others``."""
    sha256: str = ""
    """The ``contents_sha256`` of the rows as they are stored."""
    counter: int | None = None
    marker: Marker | None = None


@final
class Direction(enum.Enum):
    """The change to the rows in RocksDB."""

    KEEP = "they stay as they are"
    MERGE = "the entries of the JSON file go over them"
    REPLACE = "the JSON file takes their place, deletions included"
    ADD = "what only the JSON file has is added"
    SMALLER = "what only the JSON file has is added, and of two offsets the smaller one counts"


@final
@dataclass(frozen=True, slots=True)
class Ruling:
    """A direction, and the reason."""

    direction: Direction
    reason: str
    stale: bool = False
    """True if the JSON file differs and is out of date."""
    in_doubt: bool = False
    """True if nothing proves the direction right, so that a person has to check the differences."""


def contents_sha256(rows: Rows, others: bytes) -> str:
    """Return a digest of a database: of its rows as they are stored, and of the other members."""
    digest = hashlib.sha256(others)
    for name in sorted(rows):
        key = name.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b%d:" % (len(key), key, len(rows[name])))
        digest.update(rows[name])
    return digest.hexdigest()


def direction(kind: Kind, json: JsonSide, rocks: RocksSide, later: Later) -> Ruling:
    """Decide the direction of a start with RocksDB."""
    marker = rocks.marker
    if not json.rows:
        return Ruling(Direction.KEEP, "there is nothing in JSON")
    if marker is not None and json.sha256 == marker.json_sha256:
        if marker.suppressed:
            return Ruling(Direction.ADD, "the JSON file was passed over so far")
        return Ruling(Direction.KEEP, "the JSON file has not changed since it was taken over")
    if not rocks.rows:
        return Ruling(Direction.MERGE, "there is nothing in RocksDB yet")
    if json.rows == rocks.rows and json.others == rocks.others:
        return Ruling(Direction.KEEP, "both sides agree")
    if marker is not None:
        return _since(kind, marker, json, rocks, later)
    if kind.holds_offsets:
        return _foreign_offsets(json, rocks, later)
    return _foreign_configs(json, rocks, later)


def _since(kind: Kind, marker: Marker, json: JsonSide, rocks: RocksSide, later: Later) -> Ruling:
    """Decide where the JSON file has changed since the marker was written."""
    if json.sha256 in marker.older_json:
        return Ruling(Direction.KEEP, "the JSON file is older than the last one seen", stale=True)
    if rocks.sha256 == marker.rocks_sha256 != "":
        return Ruling(Direction.REPLACE, "only the JSON file changed since the export")
    if later is Later.JSON:
        return Ruling(Direction.MERGE, "the JSON file changed since it was taken over")
    if later is Later.ROCKSDB:
        return Ruling(Direction.ADD, "the JSON file changed, RocksDB was written after that")
    if kind.holds_offsets:
        return _doubtful(Direction.SMALLER)
    return _doubtful(Direction.MERGE)


def _foreign_offsets(json: JsonSide, rocks: RocksSide, later: Later) -> Ruling:
    """Decide for offsets in a database that only 5.3.3 has written, where counters mean little."""
    if later is Later.JSON:
        return Ruling(Direction.MERGE, "the JSON file was written last")
    if rocks.counter is not None and json.counter > rocks.counter:
        return Ruling(Direction.MERGE, "the JSON file has the higher version")
    if later is Later.ROCKSDB:
        return Ruling(Direction.ADD, "RocksDB was written last")
    return _doubtful(Direction.SMALLER)


def _foreign_configs(json: JsonSide, rocks: RocksSide, later: Later) -> Ruling:
    """Decide for topics or groups in a database that only 5.3.3 has written.

    A lower version proves nothing: 4.9 counts groups again.
    """
    if rocks.counter is None:
        return Ruling(Direction.MERGE, "RocksDB has no version: a merge was interrupted")
    if json.counter > rocks.counter:
        return Ruling(Direction.MERGE, "the JSON file has the higher version")
    if later is Later.JSON:
        return Ruling(Direction.MERGE, "the JSON file was written last")
    if later is Later.UNKNOWN:
        return _doubtful(Direction.ADD)
    return Ruling(Direction.KEEP, "RocksDB was written last, and has no lower version", stale=True)


def _doubtful(how: Direction) -> Ruling:
    return Ruling(how, "nothing tells which side was written last", in_doubt=True)


def merged(kind: Kind, how: Direction, json: Rows, rocks: Rows) -> dict[str, bytes]:
    """Return the rows after ``how``. Offsets are merged queue by queue, other entries as a
    whole."""
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
    """Return the names, sorted, whose rows differ or that one side lacks."""
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


@final
class Loss(enum.Enum):
    """The loss that a start from the JSON file would cause in the data of RocksDB."""

    NOTHING = enum.auto()
    OVERTAKEN = enum.auto()
    """Both sides changed, the JSON file last: it was in use without the differing entries."""
    ROWS = enum.auto()
    """Only RocksDB changed: it may be exported."""
    EITHER = enum.auto()
    """Both sides changed: an export would lose changes of the JSON file."""


def loss(json: JsonSide, rocks: RocksSide, later: Later) -> Loss:
    """Find the loss of a start from the JSON file, and of an export over it."""
    if rocks.others in (NO_OTHERS, json.others) and all(
        json.rows.get(name) == row for name, row in rocks.rows.items()
    ):
        return Loss.NOTHING
    if not json.rows:
        return Loss.ROWS
    marker = rocks.marker
    if marker is None:
        return _foreign_loss(json, rocks, later)
    if json.sha256 == marker.json_sha256:
        if marker.suppressed and json.rows.keys() - rocks.rows.keys():
            return Loss.EITHER
        return Loss.NOTHING if rocks.sha256 == marker.rocks_sha256 else Loss.ROWS
    if json.sha256 in marker.older_json:
        return Loss.ROWS
    if rocks.sha256 == marker.rocks_sha256:
        return Loss.NOTHING
    return Loss.OVERTAKEN if later is Later.JSON else Loss.EITHER


def _foreign_loss(json: JsonSide, rocks: RocksSide, later: Later) -> Loss:
    if rocks.counter is not None and json.counter > rocks.counter:
        return Loss.OVERTAKEN
    if later is Later.UNKNOWN:
        return Loss.EITHER
    return Loss.OVERTAKEN if later is Later.JSON else Loss.ROWS


def is_overwritten(json: JsonSide, rocks: RocksSide, later: Later) -> bool:
    """Return whether an export of RocksDB would overwrite something newer in the JSON file."""
    if json.others in (NO_OTHERS, rocks.others) and all(
        rocks.rows.get(name) == row for name, row in json.rows.items()
    ):
        return False
    marker = rocks.marker
    if marker is None:
        has_higher = rocks.counter is not None and json.counter > rocks.counter
        return has_higher or later is not Later.ROCKSDB
    if json.sha256 == marker.json_sha256:
        return marker.suppressed
    return json.sha256 not in marker.older_json
