"""Counting what is wrong with a queue or an index, with the first case of each kind."""

from dataclasses import dataclass, field
from typing import final


@final
@dataclass(slots=True)
class Tally:
    """How often something is so, and the first case: its queue offset and log position."""

    count: int = 0
    offset: int = -1
    position: int = -1
    detail: str = ""

    def add(self, offset: int, position: int, detail: str = "", count: int = 1) -> None:
        """Count a case; the first one is remembered."""
        if not self.count:
            self.offset, self.position, self.detail = offset, position, detail
        self.count += count

    def merge(self, later: "Tally") -> None:
        """Add the cases of a later part of the log."""
        if later.count:
            self.add(later.offset, later.position, later.detail, later.count)

    def __bool__(self) -> bool:
        return self.count > 0


@final
@dataclass(slots=True)
class IndexCheck:
    """How one index of a queue compares with the log, in units."""

    same: int = 0
    wrong: Tally = field(default_factory=Tally)
    """Units that say something else than the record does."""
    missing: Tally = field(default_factory=Tally)
    """Messages without a unit, while there are units before and behind."""
    before: Tally = field(default_factory=Tally)
    """Messages older than the first unit."""
    behind: Tally = field(default_factory=Tally)
    """Messages newer than the last unit."""

    def merge(self, later: "IndexCheck") -> None:
        self.same += later.same
        self.wrong.merge(later.wrong)
        self.missing.merge(later.missing)
        self.before.merge(later.before)
        self.behind.merge(later.behind)


@final
@dataclass(slots=True)
class QueueSpan:
    """What a part of the log has of one queue. Offsets count messages."""

    first: int
    next: int
    """Offset behind the last record."""
    records: int = 0
    last_position: int = -1
    gaps: Tally = field(default_factory=Tally)
    """Offsets that no record has, between two records."""
    restarts: Tally = field(default_factory=Tally)
    """Records whose offset is not behind the one before: the queue began anew there."""
    files: IndexCheck = field(default_factory=IndexCheck)
    rows: IndexCheck = field(default_factory=IndexCheck)

    def merge(self, later: "QueueSpan") -> None:
        """Take a later part of the log in; a queue that began anew there is only what it is now."""
        if later.restarts or later.first < self.next:
            restarts = self.restarts
            if later.first < self.next:
                restarts.add(later.first, later.last_position)
            restarts.merge(later.restarts)
            self.first, self.records, self.gaps = later.first, later.records, later.gaps
            self.files, self.rows = later.files, later.rows
        else:
            if later.first > self.next:
                self.gaps.add(self.next, later.last_position, count=later.first - self.next)
            self.records += later.records
            self.gaps.merge(later.gaps)
            self.files.merge(later.files)
            self.rows.merge(later.rows)
        self.next, self.last_position = later.next, later.last_position


@final
@dataclass(slots=True)
class KeysCheck:
    """How the key index compares with a part of the log, in entries."""

    same: int = 0
    missing: Tally = field(default_factory=Tally)
    """Keys that cannot be found; the detail is the key."""
    before: Tally = field(default_factory=Tally)
    """Keys of messages older than the first indexed one."""
    behind: Tally = field(default_factory=Tally)
    """Keys of messages newer than the last indexed one."""
    stray: Tally = field(default_factory=Tally)
    """Entries that lead to no record with their key."""

    def merge(self, later: "KeysCheck") -> None:
        self.same += later.same
        for name in ("missing", "before", "behind", "stray"):
            getattr(self, name).merge(getattr(later, name))
