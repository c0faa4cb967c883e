"""What an inspection finds wrong, and what to do next."""

import os
from collections.abc import Iterator

from .._config import Stage
from ._directory import StoreDirectory
from ._findings import Finding, Part, Severity
from ._judge_queues import redo_start
from ._log_check import why_no_record
from ._metadata import (
    TABLES,
    TableContents,
    has_table_database,
    read_json_table,
    read_rocks_table,
)
from ._stage import StageFound
from ._summaries import GroupSummary, IndexSummary, LogSummary, QueueSummary, is_aside

NOTHING = "nothing was written here"
VERIFY = "`lanemq store verify DIR` checks everything"


def advise(
    store: StoreDirectory,
    *,
    stage: StageFound,
    log: LogSummary,
    queues: list[QueueSummary],
    groups: list[GroupSummary],
    index: IndexSummary,
    tables: dict[str, TableContents],
) -> Iterator[Finding]:
    """Everything worth telling, what matters most first."""
    yield from _end_of_run(store, log)
    yield from _indexes(store, stage.stage, log, queues, index)
    yield from _tables(store, stage.stage, tables)
    yield from _groups(groups)
    yield from _aside(store)


def _end_of_run(store: StoreDirectory, log: LogSummary) -> Iterator[Finding]:
    why = why_no_record(store.log, log.end)
    if why not in ("", NOTHING) and log.end < store.log.capacity_end:
        yield Finding(
            kind="torn-tail",
            severity=Severity.PROBLEM if store.is_clean else Severity.NOTE,
            part=Part.LOG,
            what=f"behind the last record, at {log.end}, there is something else: {why}",
            way_on="the next start cuts it off; `lanemq store repair DIR` does, and keeps a copy",
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
            way_on="`lanemq store repair DIR` makes it anew",
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
                way_on="let lanemq run on with rocksdbCQDoubleWriteEnable=true, or `lanemq store"
                " convert DIR --to rocksdb`; `lanemq store diff-consume-queue DIR` tells when",
                count=len(late),
            )
    if stage is Stage.ROCKSDB:
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
                " Apache broker without it: `lanemq store convert DIR --to files`",
                count=len(behind),
            )


def _tables(
    store: StoreDirectory, stage: Stage, tables: dict[str, TableContents]
) -> Iterator[Finding]:
    for table in tables.values():
        if table.problem:
            yield Finding(
                kind="table-unreadable",
                severity=Severity.PROBLEM,
                part=Part.TABLES,
                what=table.problem,
                way_on="put a backup of it in its place; no broker starts, or it starts without"
                " what was in it",
            )
    if (store.config / "rdb").is_dir():
        yield Finding(
            kind="config-v2",
            severity=Severity.PROBLEM,
            part=Part.TABLES,
            what="config/rdb holds tables of Apache's configManagerVersion=v2, which nothing here"
            " reads",
            way_on="export them with Apache's tools first, or move config/rdb away to go on with"
            " the other tables",
        )
    for kind in TABLES:
        if stage is not Stage.ROCKSDB or not has_table_database(store.config, kind):
            continue
        kept, json = read_rocks_table(store.config, kind), read_json_table(store.config, kind)
        lacking = len(json.entries.keys() - kept.entries.keys())
        if kept.version is None and not kept.problem and lacking:
            yield Finding(
                kind="never-merged",
                severity=Severity.NOTE,
                part=Part.TABLES,
                what=f"config/{kind.file} was never taken over into RocksDB: it has {lacking}"
                f" entries that config/{kept.path.name} has not",
                way_on="lanemq takes them over at its next start with storeType=defaultRocksDB;"
                " Apache 5.3.3 does not, and groups begin at their initial position",
                count=lacking,
            )


def _groups(groups: list[GroupSummary]) -> Iterator[Finding]:
    for group in groups:
        if group.beyond:
            yield Finding(
                kind="offset-beyond-end",
                severity=Severity.NOTE,
                part=Part.TABLES,
                topic=group.topic,
                what=f"group {group.group} is beyond the end of {group.beyond} queues of"
                f" {group.topic}: messages were lost, or the topic was made anew",
                way_on="its consumers are sent to the end of the queue; `lanemq admin"
                " resetOffsetByTime` sends them elsewhere",
                count=group.beyond,
            )


def _aside(store: StoreDirectory) -> Iterator[Finding]:
    names = sorted(
        entry.name for entry in os.scandir(store.root) if entry.is_dir() and is_aside(entry.name)
    )
    if names:
        yield Finding(
            kind="set-aside",
            severity=Severity.NOTE,
            part=Part.LOG,
            what=f"{', '.join(names)}: set aside by a start or a repair",
            way_on="remove it once nothing in it is missed; no broker reads it",
            count=len(names),
        )
