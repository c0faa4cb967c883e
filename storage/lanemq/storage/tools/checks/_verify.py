"""The check of the log itself, and of every index against it."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar, final

from ..._errors import RocksFault, StoreCorrupted
from ..reading._directory import StoreDirectory, read_store
from ..reading._metadata import read_tables
from ..reading._rocks_view import has_database
from ..reading._rows_view import RowsView
from ..reading._settings import NO_SETTINGS, BrokerSettings
from ..reading._stage import StageFound, derive_stage, files_end, read_watermarks
from ._findings import Finding, Part, Progress, Severity, no_progress
from ._judge_log import judge_keys, judge_lights, judge_log
from ._judge_queues import QueueJudge
from ._judge_tables import judge_tables
from ._keys_check import check_chains
from ._log_check import CheckPlan, LogCheck, check_log
from ._redo_start import indexed_to
from ._tally import Tally

FoundT = TypeVar("FoundT")
RowsFound = Callable[[ExitStack], tuple[RowsView | None, list[Finding]]]
"""Opens the RocksDB, if it can be read; else tells its fault."""


@final
@dataclass(slots=True)
class VerifyReport:
    """The scope and the findings of a check."""

    root: Path
    stage: StageFound
    is_clean: bool
    log_begin: int
    log_end: int
    records: int
    queues: int
    file_units: int
    """Units of queue files that agree with the log."""
    rocksdb_rows: int
    """Rows that agree with the log."""
    index_entries: int
    """Entries of the key index that agree with the log."""
    seconds: float
    findings: list[Finding] = field(default_factory=list)

    @property
    def problems(self) -> list[Finding]:
        return [found for found in self.findings if found.severity is Severity.PROBLEM]

    @property
    def is_sound(self) -> bool:
        return not self.problems


def verify_store(
    root: Path,
    *,
    settings: BrokerSettings = NO_SETTINGS,
    jobs: int = 1,
    progress: Progress = no_progress,
) -> VerifyReport:
    """Check a store. Nothing in it is changed.

    ``jobs``: how many processes, for all but small stores; more than one wants a main module
    that can be imported, as all of ``multiprocessing``. Raises
    ``NotAStore``, ``StoreLocked`` and ``OSError``.
    """
    with read_store(root, settings=settings) as store:
        return verify_directory(store, jobs=jobs, progress=progress).report


@final
@dataclass(slots=True)
class Verified:
    """A report with everything that a repair needs."""

    report: VerifyReport
    log: LogCheck
    broken_queues: list[tuple[str, int]]
    """Queues whose files a repair rebuilds."""
    broken_rows: bool
    """True if a repair rebuilds the RocksDB."""
    broken_keys: bool
    known_queues: set[tuple[str, int]]
    """Queues with messages in the log, those of deleted topics left out."""
    resume_at: dict[tuple[str, int], int]
    """Broken queue without a message in the log -> offset for the next one."""


def verify_directory(
    store: StoreDirectory, *, jobs: int = 1, progress: Progress = no_progress
) -> Verified:
    """Check a store from which the caller keeps others away; see ``verify_store``."""
    return with_readable_rows(store, partial(_verify, store, jobs=jobs, progress=progress))


def _verify(store: StoreDirectory, found: RowsFound, *, jobs: int, progress: Progress) -> Verified:
    began = time.monotonic()
    findings: list[Finding] = []
    with ExitStack() as stack:
        rows, unreadable = found(stack)
        findings += unreadable
        has_keys = store.settings.has_index is not False
        plan = CheckPlan(files=True, keys=has_keys, rows=rows)
        log = check_log(store, plan, jobs=jobs, progress=progress)
        stage = derive_stage(
            store,
            files_end=files_end(store),
            rocksdb_end=rows.watermark() if rows is not None else None,
            log_end=log.end,
        )
        if stage.stage.reads_rows and rows is None and not unreadable:
            unreadable = [_unreadable(f"{store.consume_queue}: there is no RocksDB database")]
            findings += unreadable
        findings += judge_log(store, log)
        findings += judge_lights(store.settings, (topic for topic, _ in log.queues))
        tables = read_tables(store.config, from_rocksdb=stage.stage.reads_rows)
        findings += judge_tables(
            store, stage.stage, tables, topics={topic for topic, _ in log.queues}
        )
        topics = tables["topics"]
        noted = read_watermarks(store)
        judge = QueueJudge(
            store,
            log,
            rows,
            stage.stage,
            # Brokers have topics of their own: a table without any topic proves nothing.
            topics=set(topics.entries) if topics.entries and not topics.problem else None,
            indexed_to=indexed_to(store, rows, stage.stage),
            deleted=noted.deleted if noted is not None else {},
        )
        findings += judge.run(progress)
        if rows is not None and not judge.broken_rows:
            unreadable = _unread_rows(store, rows)
            findings += unreadable
        chains = Tally()
        for file in store.index_files() if has_keys else ():
            chains.merge(check_chains(file))
        key_findings = list(judge_keys(store, log, chains))
        findings += key_findings
    return Verified(
        _report(store, stage, log, findings, time.monotonic() - began),
        log,
        broken_queues=judge.broken,
        broken_rows=judge.broken_rows or bool(unreadable),
        broken_keys=any(
            (found.severity is Severity.PROBLEM and found.kind != "index-sizes")
            or found.kind == "keys-behind"
            for found in key_findings
        ),
        known_queues=judge.known,
        resume_at=judge.resume_at,
    )


def _report(
    store: StoreDirectory,
    stage: StageFound,
    log: LogCheck,
    findings: list[Finding],
    seconds: float,
) -> VerifyReport:
    return VerifyReport(
        root=store.root,
        stage=stage,
        is_clean=store.is_clean,
        log_begin=log.begin,
        log_end=log.end,
        records=log.records,
        queues=len(log.queues),
        file_units=sum(span.files.same for span in log.queues.values()),
        rocksdb_rows=sum(span.rows.same for span in log.queues.values()),
        index_entries=log.keys.same if log.keys is not None else 0,
        seconds=seconds,
        findings=sorted(findings, key=lambda found: found.severity is Severity.NOTE),
    )


def rows_of(store: StoreDirectory, stack: ExitStack) -> tuple[RowsView | None, list[Finding]]:
    """Open the RocksDB of the queues, if it can be read; else return its fault."""
    if not has_database(store.consume_queue):
        return None, []
    try:
        rows = RowsView(store.consume_queue)
    except StoreCorrupted as error:
        return None, [_unreadable(str(error))]
    stack.callback(rows.close)
    try:
        for _ in rows.queues():
            pass
    except OSError as error:
        return None, [_unreadable(f"{error.filename}: {error.strerror}")]
    return rows, []


def _unread_rows(store: StoreDirectory, rows: RowsView) -> list[Finding]:
    """Read the rows that no check has looked at, too: damage there would stop writers."""
    try:
        rows.read_all()
    except RocksFault as error:
        return [_unreadable(f"{store.consume_queue}: {error.strerror}")]
    return []


def with_readable_rows(store: StoreDirectory, look: Callable[[RowsFound], FoundT]) -> FoundT:
    """Check a store with its RocksDB; and without, where a part of it proves unreadable."""
    try:
        return look(partial(rows_of, store))
    except RocksFault as error:
        if error.filename != str(store.consume_queue):
            raise
        fault = _unreadable(f"{error.filename}: {error.strerror}")
        return look(lambda _stack: (None, [fault]))


def _unreadable(what: str) -> Finding:
    return Finding(
        kind="rocksdb-unreadable",
        severity=Severity.PROBLEM,
        part=Part.ROCKSDB,
        what=what,
        way_on="`repair_store` moves its files aside and makes it again from the log; so does"
        " lanemq's next start that uses it",
    )
