"""The advice of an inspection: its findings, and the next steps."""

import os
from collections.abc import Iterator
from pathlib import Path

from .._config import Stage
from ..checkpoint._watermarks import lost_log
from ..disk._backups import CONVERT_TEMPORARY, KEPT
from ..log._records import NOTHING_WRITTEN, RECORD_BYTES_MIN
from ._summaries import GroupSummary, IndexSummary, LogSummary, QueueSummary, is_aside
from .checks._findings import Finding, Part, Severity
from .checks._judge_log import (
    damage_finding,
    judge_lights,
    odd_index_files,
    odd_log_files,
    unfinished,
)
from .checks._judge_tables import judge_tables
from .checks._log_check import why_no_record
from .checks._redo_start import redo_start
from .reading._directory import TEMPORARY, StoreDirectory
from .reading._index_files import has_entries, index_paths
from .reading._metadata import TableContents
from .reading._stage import StageFound, read_watermarks

DAMAGES_MAX = 20
VERIFY = "`verify_store` checks everything"


def advise(
    store: StoreDirectory,
    *,
    stage: StageFound,
    log: LogSummary,
    queues: list[QueueSummary],
    odd_files: list[Path],
    groups: list[GroupSummary],
    index: IndexSummary,
    tables: dict[str, TableContents],
) -> Iterator[Finding]:
    """Return the findings worth telling, the most important first."""
    yield from _odd_sizes(store, odd_files)
    for damage in log.damages[:DAMAGES_MAX]:
        yield damage_finding(store, damage, log.end)
    if len(log.damages) > DAMAGES_MAX:
        yield Finding(
            kind="damaged-more",
            severity=Severity.PROBLEM,
            part=Part.LOG,
            what=f"{len(log.damages) - DAMAGES_MAX} more pieces of the log are damaged",
            way_on=VERIFY,
            count=len(log.damages) - DAMAGES_MAX,
        )
    yield from _lost_begin(store, log)
    yield from _end_of_run(store, log)
    yield from _indexes(store, stage.stage, log, queues, index)
    yield from judge_tables(store, stage.stage, tables, topics={queue.topic for queue in queues})
    yield from judge_lights(store.settings, (queue.topic for queue in queues))
    if stage.stage.reads_rows and all(queue.rocksdb is None for queue in queues):
        groups = []  # nothing tells where the queues end
    yield from _groups(groups, _missing_queues(store, stage.stage, queues, groups, tables))
    yield from _aside(store)


def _odd_sizes(store: StoreDirectory, queue_files: list[Path]) -> Iterator[Finding]:
    yield from odd_log_files(store)
    if queue_files:
        yield Finding(
            kind="queue-file-size",
            severity=Severity.PROBLEM,
            part=Part.FILES,
            what=f"queue files of another size than {store.queue_file_bytes} bytes:"
            f" {len(queue_files)}, as {queue_files[0]}. No broker starts with them",
            way_on="`repair_store` makes their queues again from the log",
            count=len(queue_files),
        )
    paths = index_paths(store.root / "index")
    is_empty = store.index_sizes is None and not any(map(has_entries, paths))
    if store.settings.has_index is not False and not is_empty:
        yield from odd_index_files(store)


def _missing_queues(
    store: StoreDirectory,
    stage: Stage,
    queues: list[QueueSummary],
    groups: list[GroupSummary],
    tables: dict[str, TableContents],
) -> list[tuple[str, int]]:
    """Return the queues of known topics that groups have been in, but that have no unit."""
    if stage.reads_rows or not store.is_clean:
        return []
    ends = {(queue.topic, queue.queue_id): queue.end for queue in queues}
    possible = range(1, store.log.capacity_end // RECORD_BYTES_MIN + 1)
    found = {
        (group.topic, queue_id)
        for group in groups
        if group.topic in tables["topics"].entries
        for queue_id, offset in group.offsets.items()
        if offset in possible and not ends.get((group.topic, queue_id))
    }
    return sorted(found)


def _lost_begin(store: StoreDirectory, log: LogSummary) -> Iterator[Finding]:
    known = read_watermarks(store)
    if known is None or known.checkpoint_ms != store.checkpoint().latest_ms:
        return  # another broker ran since, and may have removed what had expired
    gone = lost_log(known, log.begin) if store.is_clean and log.files else ""
    if gone:
        yield Finding(
            kind="log-begin",
            severity=Severity.PROBLEM,
            part=Part.LOG,
            what=gone,
            way_on="put the files back from a copy, unless they were removed on purpose; a start"
            " goes on without them",
            count=log.begin - (known.log_begin or 0),
            log_position=known.log_begin,
        )


def _end_of_run(store: StoreDirectory, log: LogSummary) -> Iterator[Finding]:
    why = why_no_record(store.log, log.end)
    if why not in ("", NOTHING_WRITTEN) and log.end < store.log.capacity_end:
        yield Finding(
            kind="torn-tail",
            severity=Severity.PROBLEM if store.is_clean else Severity.NOTE,
            part=Part.LOG,
            what=f"behind the last record, at {log.end}, there is something else: {why}",
            way_on="the next start cuts it off; `repair_store` does, and keeps a copy",
            log_position=log.end,
        )
    if not store.is_clean:
        begin = redo_start(store)
        yield Finding(
            kind="not-closed",
            severity=Severity.NOTE,
            part=Part.LOG,
            what="the last broker did not close the store: it was killed, or this is a copy made"
            " while it ran",
            way_on=f"nothing: the next start goes over the log again from {begin} on,"
            f" {max(0, log.end - begin)} bytes",
            log_position=begin,
        )


def _indexes(
    store: StoreDirectory,
    stage: Stage,
    log: LogSummary,
    queues: list[QueueSummary],
    index: IndexSummary,
) -> Iterator[Finding]:
    if store.is_clean and log.end > log.begin and 0 <= index.newest_position < log.begin:
        yield Finding(
            kind="keys-behind",
            severity=Severity.PROBLEM,
            part=Part.KEYS,
            what="the key index knows none of the messages in the log",
            way_on="`repair_store` makes it again",
        )
    if stage is Stage.BOTH:
        late = [
            queue
            for queue in queues
            if queue.files is not None
            and queue.messages
            and (
                queue.rocksdb is None
                or queue.rocksdb[0] > queue.files[0]
                or queue.rocksdb[1] < queue.files[1]
            )
        ]
        if late:
            yield Finding(
                kind="rocksdb-covers-less",
                severity=Severity.NOTE,
                part=Part.ROCKSDB,
                what=f"RocksDB has not all messages of {len(late)} of {len(queues)} queues, as of"
                f" queue {late[0].queue_id} of {late[0].topic}: it is too early for"
                " storeType=defaultRocksDB",
                way_on="let lanemq run on with rocksdbCQDoubleWriteEnable=true, or"
                " `convert_to_rocksdb`; `diff_store` tells when",
                count=len(late),
            )
    if stage.reads_rows:
        behind = [
            queue
            for queue in queues
            if queue.rocksdb is not None
            and (queue.files is None or queue.files[1] < queue.rocksdb[1])
        ]
        if behind:
            yield Finding(
                kind="files-behind",
                severity=Severity.NOTE,
                part=Part.FILES,
                what=f"the queue files lack messages of {len(behind)} queues, which are in RocksDB",
                way_on="nothing, as long as storeType=defaultRocksDB; before a step back to an"
                " Apache broker without it: `convert_to_files`",
                count=len(behind),
            )


def _groups(groups: list[GroupSummary], missing: list[tuple[str, int]]) -> Iterator[Finding]:
    if missing:
        topic, queue_id = missing[0]
        yield Finding(
            kind="queue-files-missing",
            severity=Severity.NOTE,
            part=Part.FILES,
            topic=topic,
            queue_id=queue_id,
            what=f"queues without files that groups have read: {len(missing)}, as queue"
            f" {queue_id} of {topic}",
            way_on="lanemq's next start makes them again from the log, as `repair_store`"
            " does; an Apache broker would give their offsets again",
            count=len(missing),
        )
    topics = {topic for topic, _ in missing}
    for group in groups:
        if group.beyond and group.topic not in topics:
            yield Finding(
                kind="offset-beyond-end",
                severity=Severity.NOTE,
                part=Part.TABLES,
                topic=group.topic,
                what=f"group {group.group} is beyond the end of {group.beyond} queues of"
                f" {group.topic}: messages were lost, or the topic was made again",
                way_on="its consumers are sent to the end of the queue;"
                " `resetOffsetByTime` sends them elsewhere",
                count=group.beyond,
            )


def _aside(store: StoreDirectory) -> Iterator[Finding]:
    every = sorted(
        entry.name for entry in os.scandir(store.root) if entry.is_dir() and is_aside(entry.name)
    )
    yield from unfinished(store)
    kept = [name for name in every if name.startswith(KEPT)]
    if kept:
        yield Finding(
            kind="kept-by-conversion",
            severity=Severity.NOTE,
            part=Part.FILES,
            what=f"{', '.join(kept)}: what a conversion replaced",
            way_on="nothing: lanemq removes it with its next start after a clean stop",
            count=len(kept),
        )
    names = [name for name in every if name not in (*kept, TEMPORARY, CONVERT_TEMPORARY)]
    if names:
        yield Finding(
            kind="set-aside",
            severity=Severity.NOTE,
            part=Part.LOG,
            what=f"{', '.join(names)}: set aside by a start or a repair",
            way_on="remove it once nothing in it is missed; no broker reads it",
            count=len(names),
        )
