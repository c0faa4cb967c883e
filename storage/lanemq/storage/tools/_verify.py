"""``lanemq store verify``: the log against itself, and every index against the log."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from .._config import Stage
from .._errors import StoreCorrupted
from ._directory import StoreDirectory, read_store
from ._findings import Finding, Part, Progress, Severity
from ._judge_log import judge_keys, judge_log
from ._judge_queues import QueueJudge
from ._keys_check import check_chains
from ._log_check import CheckPlan, LogCheck, check_log
from ._metadata import read_tables
from ._rocks_view import has_database
from ._rows_view import RowsView
from ._stage import StageFound, derive_stage, files_end, read_watermarks
from ._tally import Tally


def no_progress(what: str, done: int, total: int) -> None:
    """Tell nobody."""


@final
@dataclass(slots=True)
class VerifyReport:
    """What was checked, and what was found."""

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
    commit_log: Path | None = None,
    jobs: int = 1,
    progress: Progress = no_progress,
) -> VerifyReport:
    """Check a store. Nothing in it is changed.

    ``jobs``: how many processes, for all but small stores; more than one wants a main module
    that can be imported, as all of ``multiprocessing``. Raises
    ``NotAStore``, ``StoreLocked`` and ``OSError``.
    """
    with read_store(root, commit_log=commit_log) as store:
        return verify_directory(store, jobs=jobs, progress=progress).report


@final
@dataclass(slots=True)
class Verified:
    """A report with all that a repair needs."""

    report: VerifyReport
    log: LogCheck
    broken_queues: list[tuple[str, int]]
    """Queues whose files a repair makes anew."""
    broken_rows: bool
    """Whether a repair makes the RocksDB anew."""
    broken_keys: bool
    known_queues: set[tuple[str, int]]
    """Queues with messages in the log, those of deleted topics left out."""
    resume_at: dict[tuple[str, int], int]
    """Of broken queues without a message in the log: offset for the next one."""


def verify_directory(
    store: StoreDirectory, *, jobs: int = 1, progress: Progress = no_progress
) -> Verified:
    """As ``verify_store``, for a store that the caller keeps others off."""
    began = time.monotonic()
    findings: list[Finding] = []
    with ExitStack() as stack:
        rows, unreadable = rows_of(store, stack)
        findings += unreadable
        has_keys = (store.root / "index").is_dir()
        plan = CheckPlan(files=True, keys=has_keys, rows=rows)
        log = check_log(store, plan, jobs=jobs, progress=progress)
        stage = derive_stage(
            store,
            files_end=files_end(store),
            rocksdb_end=rows.watermark() if rows is not None else None,
            log_end=log.end,
        )
        if stage.stage is Stage.ROCKSDB and rows is None and not unreadable:
            unreadable = [_unreadable(f"{store.consume_queue}: there is no RocksDB database")]
            findings += unreadable
        findings += judge_log(store, log)
        topics = read_tables(store.config, from_rocksdb=stage.stage is Stage.ROCKSDB)["topics"]
        noted = read_watermarks(store)
        judge = QueueJudge(
            store,
            log,
            rows,
            stage.stage,
            topics=None if topics.problem or topics.source == "none" else set(topics.entries),
            deleted=noted.deleted if noted is not None else {},
        )
        findings += judge.run(progress)
        chains = Tally()
        for file in store.index_files() if has_keys else ():
            chains.merge(check_chains(file))
        key_findings = list(judge_keys(store, log, chains))
        findings += key_findings
    report = VerifyReport(
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
        seconds=time.monotonic() - began,
        findings=sorted(findings, key=lambda found: found.severity is Severity.NOTE),
    )
    return Verified(
        report,
        log,
        broken_queues=judge.broken,
        broken_rows=judge.broken_rows or bool(unreadable),
        broken_keys=any(
            found.severity is Severity.PROBLEM or found.kind == "keys-behind"
            for found in key_findings
        ),
        known_queues=judge.known,
        resume_at=judge.resume_at,
    )


def rows_of(store: StoreDirectory, stack: ExitStack) -> tuple[RowsView | None, list[Finding]]:
    """The RocksDB of the queues, if there is one that can be read; else what is wrong with it."""
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


def _unreadable(what: str) -> Finding:
    return Finding(
        kind="rocksdb-unreadable",
        severity=Severity.PROBLEM,
        part=Part.ROCKSDB,
        what=what,
        way_on="`lanemq store repair DIR` moves its files aside and makes it anew from the log; so"
        " does lanemq's next start that uses it",
    )
