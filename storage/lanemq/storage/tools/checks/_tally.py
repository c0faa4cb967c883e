"""Counts of the faults of a queue or an index, with the first case of each kind."""

from dataclasses import dataclass, field
from typing import Final, final

RUNS_MAX: Final = 1 << 16


@final
@dataclass(slots=True)
class Tally:
    """The count of a kind of fault, with queue offset and log position of the first case."""

    count: int = 0
    offset: int = -1
    position: int = -1
    detail: str = ""
    runs: list[tuple[int, int, int]] = field(default_factory=list)
    """Queue offset of the first case and behind the last of each run of them, and the log position
    of its first; not more than ``RUNS_MAX``, which is enough to take cases back in all but the
    worst stores."""

    def add(self, offset: int, position: int, detail: str = "", count: int = 1) -> None:
        """Count a case; the first one is remembered."""
        if not self.count:
            self.offset, self.position, self.detail = offset, position, detail
        self.count += count
        if offset >= 0:
            self._add_run((offset, offset + count, position))

    def _add_run(self, run: tuple[int, int, int]) -> None:
        runs = self.runs
        if runs and runs[-1][1] == run[0]:
            runs[-1] = runs[-1][0], run[1], runs[-1][2]
        elif len(runs) < RUNS_MAX:
            runs.append(run)

    def merge(self, later: "Tally") -> None:
        """Merge the cases of a later part of the log."""
        if not later.count:
            return
        if not self.count:
            self.offset, self.position, self.detail = later.offset, later.position, later.detail
        self.count += later.count
        for run in later.runs:
            self._add_run(run)

    def cut(self, offset: int) -> int:
        """Take back the cases from a queue offset on; returns how many they were."""
        kept = [(begin, min(end, offset), at) for begin, end, at in self.runs if begin < offset]
        before = sum(end - begin for begin, end, _ in self.runs)
        removed = before - sum(end - begin for begin, end, _ in kept)
        self.runs = kept
        self.count -= removed
        if not self.count:
            self.offset, self.position, self.detail = -1, -1, ""
        elif kept and self.offset >= offset:
            self.offset, self.position = kept[0][0], kept[0][2]
        return removed

    def __bool__(self) -> bool:
        return self.count > 0


@final
@dataclass(slots=True)
class IndexCheck:
    """The comparison of one index of a queue with the log, in units."""

    same: int = 0
    wrong: Tally = field(default_factory=Tally)
    """Units that contradict their record."""
    missing: Tally = field(default_factory=Tally)
    """Messages without a unit, while there are units before and behind."""
    before: Tally = field(default_factory=Tally)
    """Messages older than the first unit."""
    behind: Tally = field(default_factory=Tally)
    """Messages newer than the last unit."""

    def cut(self, offset: int, records: int) -> None:
        """Take back the findings from a queue offset on, where ``records`` messages were."""
        tallies = (self.wrong, self.missing, self.before, self.behind)
        self.same = max(0, self.same - records + sum(tally.cut(offset) for tally in tallies))

    def merge(self, later: "IndexCheck") -> None:
        self.same += later.same
        self.wrong.merge(later.wrong)
        self.missing.merge(later.missing)
        self.before.merge(later.before)
        self.behind.merge(later.behind)


@final
@dataclass(slots=True)
class QueueSpan:
    """The messages of one queue in a part of the log. Offsets count messages."""

    first: int
    next: int
    """Offset behind the last record."""
    records: int = 0
    last_position: int = -1
    gaps: Tally = field(default_factory=Tally)
    """Offsets that no record has, between two records."""
    restarts: Tally = field(default_factory=Tally)
    """Records with which the queue began again, at its first offset or before it."""
    reused: Tally = field(default_factory=Tally)
    """Records whose offset an older message had: the queue goes on there, and what was at that
    offset and behind it cannot be reached."""
    files: IndexCheck = field(default_factory=IndexCheck)
    rows: IndexCheck = field(default_factory=IndexCheck)

    def go_back(self, offset: int, log_position: int) -> None:
        """Continue the queue at an offset that an older message has."""
        if offset <= self.first:
            self.restarts.add(offset, log_position)
        else:
            self.reused.add(offset, log_position)
        self._cut(offset)

    def _cut(self, offset: int) -> None:
        offsets = self.next - max(offset, self.first)
        records = offsets - self.gaps.cut(offset)
        self.records -= records
        self.files.cut(offset, records)
        self.rows.cut(offset, records)
        self.first, self.next = min(self.first, offset), offset

    def merge(self, later: "QueueSpan") -> None:
        """Merge a later part of the log."""
        if later.first < self.next:
            if not (later.restarts or later.reused):
                self.go_back(later.first, later.last_position)
            else:  # the later part knows where
                self._cut(later.first)
        elif later.first > self.next:
            self.gaps.add(self.next, later.last_position, count=later.first - self.next)
        self.restarts.merge(later.restarts)
        self.reused.merge(later.reused)
        self.records += later.records
        self.gaps.merge(later.gaps)
        self.files.merge(later.files)
        self.rows.merge(later.rows)
        self.next, self.last_position = later.next, later.last_position


@final
@dataclass(slots=True)
class KeysCheck:
    """The comparison of the key index with a part of the log, in entries."""

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
