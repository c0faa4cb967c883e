"""The plan of a start, by who had the store last, in which stage, and the stage asked for.

One pure table: what a start trusts, what it loads and from where it goes over the log again. Why
each can be trusted is told in ADR 007; ``storage/tests/test_start_plan.py`` prints the table.
"""

import enum
from dataclasses import dataclass
from typing import final

from .._config import Stage


class LastUser(enum.Enum):
    """The broker that had the store last, as our own watermarks tell."""

    OURS = "lanemq"
    OTHER_SINCE = "another since"
    """A broker of another kind closed the store after our last run."""
    OTHER = "another"
    """Unknown: there are no watermarks of ours."""


class FilesUse(enum.Enum):
    """The use that a start makes of the queue files."""

    SKIPPED = "skipped"
    """None, if the RocksDB is the one of our last run; else as ``COMPARED``."""
    COMPARED = "compared"
    """They are loaded to see whether RocksDB has all of them, and then dropped from memory."""
    REDONE = "redone"
    """They are brought up to the end of the log; they are read, and written from then on."""


class RedoFrom(enum.Enum):
    """The position from which on an index is brought up to the end of the log."""

    NOTED = "noted"
    """The watermark of our own last run."""
    INDEX = "index"
    """The newest message that it has; queue files beside a RocksDB only as far as their units are
    in their slots."""


class DroppedFrom(enum.Enum):
    """The position from which on a crash may have damaged an index."""

    NOTED = "noted"
    LATER = "later"
    """The later one of our watermark and the begin of the redo, up to which another broker's
    changes are durable."""
    REDO = "redo"
    """The begin of the redo."""


class MissedBy(enum.Enum):
    """The sign by which queue files are missed after a clean stop."""

    DIGEST = "digest"
    """The digest that our last stop left."""
    GROUPS = "groups"
    """Groups that are beyond the files."""


class RowsBy(enum.Enum):
    """The way in which RocksDB gets what it lacks."""

    NOBODY = "-"
    """Nobody does: this stage has no RocksDB."""
    START = "start"
    """The start writes it."""
    START_IF_LITTLE = "start if little"
    """The start writes it where that is little, else the task does."""
    TASK = "task"
    """The task does, while the store is used."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlan:
    """The plan of one start."""

    files_use: FilesUse
    files_from: RedoFrom
    keys_from: RedoFrom
    dropped_from: DroppedFrom
    """The place where files and key index are cut after a crash."""
    proves_log: bool
    """Takes our watermarks as proof, after a crash, that the log was whole up to there."""
    missed_by: MissedBy
    files_may_lack: bool
    """Accepts files that end before RocksDB does, because RocksDB was used alone."""
    goes_on_as_rows: bool
    """Lets queues go on behind their last row, where the rows know more."""
    rows_by: RowsBy
    counts_rows: bool
    """Counts the rows, as another broker may have written many."""
    cuts_rows: bool
    """Cuts rows behind the watermark, whose messages may no longer be there."""

    @property
    def reads_rows(self) -> bool:
        """True if queues are read from RocksDB alone, and the queue files stay as they are."""
        return self.files_use is not FilesUse.REDONE

    @property
    def may_begin_rows_late(self) -> bool:
        """True if a new RocksDB may begin at the end of the log: it is not read yet."""
        return self.rows_by is not RowsBy.NOBODY and not self.reads_rows


def plan_start(last: LastUser, last_stage: Stage | None, stage: Stage) -> StartPlan:
    """Plan a start in ``stage``; ``last_stage`` is that of our last run, None without one."""
    is_ours = last is LastUser.OURS
    came_from_rows = last_stage is Stage.ROCKSDB
    return StartPlan(
        files_use=_files_use(last_stage if is_ours else None, stage),
        files_from=RedoFrom.NOTED if is_ours or came_from_rows else RedoFrom.INDEX,
        keys_from=RedoFrom.NOTED if is_ours else RedoFrom.INDEX,
        dropped_from={
            LastUser.OURS: DroppedFrom.NOTED,
            LastUser.OTHER_SINCE: DroppedFrom.LATER,
            LastUser.OTHER: DroppedFrom.REDO,
        }[last],
        proves_log=is_ours,
        missed_by=MissedBy.DIGEST if is_ours else MissedBy.GROUPS,
        files_may_lack=came_from_rows,
        goes_on_as_rows=stage is not Stage.ROCKSDB and (not is_ours or came_from_rows),
        rows_by=_rows_by(last_stage if is_ours else None, stage),
        counts_rows=stage is Stage.ROCKSDB and not is_ours,
        cuts_rows=stage is not Stage.FILES and (not is_ours or last_stage is Stage.FILES),
    )


def _files_use(last_stage: Stage | None, stage: Stage) -> FilesUse:
    if stage is not Stage.ROCKSDB:
        return FilesUse.REDONE
    return FilesUse.SKIPPED if last_stage is Stage.ROCKSDB else FilesUse.COMPARED


def _rows_by(last_stage: Stage | None, stage: Stage) -> RowsBy:
    if stage is Stage.FILES:
        return RowsBy.NOBODY
    if stage is Stage.ROCKSDB:
        return RowsBy.START
    had_rows = last_stage in (Stage.BOTH, Stage.ROCKSDB)
    return RowsBy.START_IF_LITTLE if had_rows else RowsBy.TASK
