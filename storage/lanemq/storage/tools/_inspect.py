"""The inspection: an overview of a store, without reading all of it."""

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

from ..log._records import record_at
from ._advice import advise
from ._summaries import (
    GroupSummary,
    IndexSummary,
    LogSummary,
    QueueSummary,
    TableSummary,
    disk_use,
    summarize_groups,
    summarize_index,
    summarize_log,
    summarize_queues,
    summarize_table,
    survey_files,
)
from .checks._findings import Finding
from .checks._verify import RowsFound, with_readable_rows
from .reading._directory import StoreCheckpoint, StoreDirectory, read_store
from .reading._metadata import read_tables
from .reading._settings import NO_SETTINGS, BrokerSettings
from .reading._stage import StageFound, derive_stage


@final
@dataclass(frozen=True, slots=True)
class Inspection:
    """The overview that ``inspect`` shows."""

    root: Path
    is_clean: bool
    abort_text: str
    """The text that the last broker wrote into ``abort``: its process id, with 5.x and lanemq."""
    checkpoint: StoreCheckpoint
    stage: StageFound
    log: LogSummary
    watermarks: dict[str, int]
    """Name of an index -> position up to which it has the log."""
    queues: list[QueueSummary]
    groups: list[GroupSummary]
    index: IndexSummary
    tables: list[TableSummary]
    disk_bytes: dict[str, int]
    """Part of the directory -> bytes it takes on the disk."""
    findings: list[Finding]


def inspect_store(root: Path, *, settings: BrokerSettings = NO_SETTINGS) -> Inspection:
    """Inspect a store. Nothing in it is changed, and little of the log is read.

    Raises ``NotAStore``, ``StoreLocked`` and ``OSError``.
    """
    with read_store(root, settings=settings) as store:
        return with_readable_rows(store, partial(_inspect, store))


def _inspect(store: StoreDirectory, found: RowsFound) -> Inspection:
    with ExitStack() as stack:
        rows, unreadable = found(stack)
        files = survey_files(store)
        indexed = files.log_end
        mark = rows.watermark() if rows is not None else None
        log = summarize_log(store.log, max(indexed, mark or 0))
        stage = derive_stage(store, files_end=indexed, rocksdb_end=mark, log_end=log.end)
        queues = summarize_queues(store, files, rows, stage.stage)
        tables = read_tables(store.config, from_rocksdb=stage.stage.reads_rows)
        groups = summarize_groups(tables["consumerOffsets"], queues)
        index = summarize_index(store)
        newest = record_at(store.log, index.newest_position) if index.entries else None
        watermarks = {"queue files": max(indexed, log.begin)}
        if mark is not None:
            watermarks["rocksdb"] = mark
        watermarks["key index"] = newest.end if newest is not None else log.begin
        advice = advise(
            store,
            stage=stage,
            log=log,
            queues=queues,
            odd_files=files.odd,
            groups=groups,
            index=index,
            tables=tables,
        )
        return Inspection(
            root=store.root,
            is_clean=store.is_clean,
            abort_text=_abort_text(store),
            checkpoint=store.checkpoint(),
            stage=stage,
            log=log,
            watermarks=watermarks,
            queues=queues,
            groups=groups,
            index=index,
            tables=[summarize_table(table) for table in tables.values()],
            disk_bytes=disk_use(store),
            findings=[*unreadable, *advice],
        )


def _abort_text(store: StoreDirectory) -> str:
    try:
        return (store.root / "abort").read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""
