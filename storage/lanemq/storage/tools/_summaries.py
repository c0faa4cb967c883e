"""The pieces of an inspection: log, queues, groups, key index, disk."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from lanemq.wire.bodies import DataVersion
from lanemq.wire.logical import PROGRESS_PREFIX
from lanemq.wire.message import is_stage_group

from .._config import Stage
from .._layouts import BLANK_SIZE
from ..disk._backups import CONVERT_TEMPORARY, KEPT
from .reading._directory import TEMPORARY, StoreDirectory
from .reading._metadata import TableContents, consumer_offsets
from .reading._pieces import Pieces
from .reading._rocks_view import DATABASE_FILES
from .reading._rows_view import RowsView
from .reading._scan import Damage, LogScan, find_record

SAMPLE_BYTES: Final = 1 << 20
TAIL_BYTES: Final = 32 << 20
ASIDE: Final = ("commitlog-cut", "repair-", TEMPORARY, CONVERT_TEMPORARY, KEPT)
ASIDE_MARKS: Final = (".aside-", ".bad-")


@final
@dataclass(frozen=True, slots=True)
class LogSummary:
    """The summary of the log. Positions count bytes; ``end`` is behind the last record."""

    begin: int
    end: int
    files: int
    spare_files: int
    """Number of files made ahead by a broker, still empty."""
    file_bytes: int
    records_estimate: int
    first_store_timestamp_ms: int
    last_store_timestamp_ms: int
    damages: list[Damage]
    """Damage in the sampled parts: the first MiB, and the tail."""


def summarize_log(log: Pieces, indexed: int) -> LogSummary:
    """Find the end of the log with the help of the indexes, and sample its records."""
    first = LogScan(log, log.begin, min(log.begin + SAMPLE_BYTES, log.capacity_end))
    damages = first.damages
    records = sampled = first_ms = last_ms = 0
    for record in first:
        first_ms = first_ms or record.store_timestamp_ms
        last_ms = record.store_timestamp_ms
        records, sampled = records + 1, sampled + record.size_bytes
    end = first.stopped if first.first is not None else log.begin
    at = _tail_start(log, indexed)
    if at > end or (first.first is not None and not first.why):
        tail = LogScan(log, max(at, end), log.capacity_end)
        for record in tail:
            last_ms = record.store_timestamp_ms
            records, sampled = records + 1, sampled + record.size_bytes
        end = max(end, tail.stopped) if tail.first is not None else end
        damages = damages + tail.damages
    return LogSummary(
        begin=log.begin,
        end=end,
        files=len(log),
        spare_files=sum(start >= end for start in log.starts),
        file_bytes=log.file_bytes,
        records_estimate=round((end - log.begin) * records / sampled) if sampled else 0,
        first_store_timestamp_ms=first_ms,
        last_store_timestamp_ms=last_ms,
        damages=damages,
    )


def _tail_start(log: Pieces, indexed: int) -> int:
    """Return the position at which to look for the end: some way before the newest message with a
    unit."""
    at = max(log.begin, min(indexed, log.capacity_end - 1))
    for start in reversed(log.starts):  # a file that has a record where the indexes end early
        if start > at and find_record(log, start, start + 1) is not None:
            return start
    return max(log.start_of(at), at - TAIL_BYTES) if log.starts else 0


@final
@dataclass(frozen=True, slots=True)
class QueueSummary:
    """The summary of a queue. Offsets count messages; an end is behind the last one."""

    topic: str
    queue_id: int
    min: int
    end: int
    """The end in the index that brokers read."""
    files: tuple[int, int] | None
    """Offset of the first message that the log still has, and end, in the files; None without
    files."""
    rocksdb: tuple[int, int] | None
    """The same in RocksDB."""

    @property
    def messages(self) -> int:
        return max(0, self.end - self.min)


@final
@dataclass(frozen=True, slots=True)
class FilesSurvey:
    """The survey of the queue files."""

    bounds: dict[tuple[str, int], tuple[int, int]]
    """(topic, queue id) -> offset of the first message that the log still has, and end."""
    odd: list[Path]
    """Files of a size with which no broker starts."""
    log_end: int
    """Position behind the newest message that has a unit; -1 without any."""


def survey_files(store: StoreDirectory) -> FilesSurvey:
    """Survey every queue once."""
    begin, newest = store.log.begin, -1
    bounds: dict[tuple[str, int], tuple[int, int]] = {}
    odd: list[Path] = []
    for queue in store.queues():
        odd += _odd_files(queue.pieces)
        end = queue.end() if len(queue.pieces) else 0
        unit = queue.unit(end - 1) if end > queue.begin else None
        if unit is not None and unit.size_bytes < BLANK_SIZE:
            newest = max(newest, unit.log_position + unit.size_bytes)
        bounds[queue.topic, queue.queue_id] = (queue.first_from(begin, end), end)
        queue.close()
    return FilesSurvey(bounds, odd, newest)


def _odd_files(pieces: Pieces) -> Iterator[Path]:
    last = len(pieces.pieces) - 1
    for number, piece in enumerate(pieces.pieces):
        # An empty last file is removed by a start, and one that is too short is filled up.
        is_mended = number == last and (
            not piece.size_bytes or (number > 0 and piece.size_bytes < pieces.file_bytes)
        )
        if piece.size_bytes != pieces.file_bytes and not is_mended:
            yield pieces.path_of(piece.start)


def summarize_queues(
    store: StoreDirectory, files: FilesSurvey, rows: RowsView | None, stage: Stage
) -> list[QueueSummary]:
    """Summarize all queues, by topic and id."""
    begin, in_files = store.log.begin, files.bounds
    in_rows: dict[tuple[str, int], tuple[int, int]] = {}
    if rows is not None:
        for name in rows.queues():
            _, end = rows.bounds(*name) or (0, 0)
            in_rows[name] = (rows.queue(*name).first_from(begin, end), end)
    found = []
    for name in sorted(in_files.keys() | in_rows.keys()):
        here, rocksdb = in_files.get(name), in_rows.get(name)
        read = (rocksdb if stage.reads_rows else here) or (0, 0)
        found.append(QueueSummary(*name, *read, here, rocksdb))
    return found


@final
@dataclass(frozen=True, slots=True)
class GroupSummary:
    """The progress of a group in a topic. Offsets and lag count messages."""

    group: str
    topic: str
    offsets: dict[int, int]
    """Queue id -> offset of the next message."""
    lag: int
    """Number of unconsumed messages in the queues for which it has an offset."""
    beyond: int
    """Number of queues that end before the group's offset."""


def summarize_groups(table: TableContents, queues: list[QueueSummary]) -> list[GroupSummary]:
    """Compare the groups' offsets with the ends of the queues.

    Stage records are not offsets, and are left out. Offsets in logical queues count on through
    other brokers, so no queue of this store tells how far behind they are.
    """
    ends = {(queue.topic, queue.queue_id): queue.end for queue in queues}
    found = []
    for (group, topic), offsets in sorted(consumer_offsets(table).items()):
        if is_stage_group(group):
            continue
        is_logical = topic.startswith(PROGRESS_PREFIX)
        behind = [
            0 if is_logical else ends.get((topic, number), 0) - at for number, at in offsets.items()
        ]
        found.append(
            GroupSummary(
                group,
                topic,
                dict(sorted(offsets.items())),
                lag=sum(max(0, lag) for lag in behind),
                beyond=sum(lag < 0 for lag in behind),
            )
        )
    return found


@final
@dataclass(frozen=True, slots=True)
class IndexSummary:
    """The summary of the key index."""

    files: int
    entries: int
    slots_per_file: int | None
    entries_per_file: int | None
    newest_position: int
    newest_timestamp_ms: int


def summarize_index(store: StoreDirectory) -> IndexSummary:
    files = [file for file in store.index_files() if file.next_entry > 1]
    sizes = store.index_sizes
    return IndexSummary(
        files=len(store.index_files()),
        entries=sum(file.next_entry - 1 for file in files),
        slots_per_file=sizes.slots if sizes is not None else None,
        entries_per_file=sizes.entries if sizes is not None else None,
        newest_position=files[-1].header.end_position if files else -1,
        newest_timestamp_ms=files[-1].header.end_timestamp_ms if files else 0,
    )


@final
@dataclass(frozen=True, slots=True)
class TableSummary:
    """The summary of one of the tables under ``config``."""

    name: str
    source: str
    """The source of the table: ``json``, ``rocksdb`` or ``none``."""
    entries: int
    version: DataVersion | None
    problem: str


def summarize_table(table: TableContents) -> TableSummary:
    return TableSummary(
        table.kind.name, table.source, len(table.entries), table.version, table.problem
    )


def is_aside(name: str) -> bool:
    """Return whether a directory of a store holds files that were set aside."""
    return name.startswith(ASIDE) or any(mark in name for mark in ASIDE_MARKS)


def disk_use(store: StoreDirectory) -> dict[str, int]:
    """Return part of the store -> bytes it takes on the disk, holes in files left out."""
    used = {"commitlog": sum(piece.disk_bytes for piece in store.log.pieces)}
    names = {"consumequeue": "queue files", "index": "index", "config": "config"}
    with os.scandir(store.root) as entries:
        for entry in entries:
            if Path(entry.path).resolve() == store.log.directory.resolve():
                continue
            part = "set aside" if is_aside(entry.name) else names.get(entry.name, "other")
            for directory, path, blocks in _files(Path(entry.path)):
                name = part
                if directory == store.consume_queue and DATABASE_FILES.fullmatch(path):
                    name = "queues in rocksdb"
                used[name] = used.get(name, 0) + blocks * 512
    return used


def _files(path: Path) -> "list[tuple[Path, str, int]]":
    if path.is_symlink() or not path.is_dir():
        return [(path.parent, path.name, path.lstat().st_blocks)]
    return [
        (Path(directory), name, os.lstat(os.path.join(directory, name)).st_blocks)
        for directory, _, names in os.walk(path)
        for name in names
    ]
