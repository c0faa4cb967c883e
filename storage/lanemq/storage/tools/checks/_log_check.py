"""The checks of all parts of a log, merged."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Final, final

from ..._workers import end_with_parent
from ...log._records import check_record
from ..reading._directory import StoreDirectory
from ..reading._pieces import Pieces
from ..reading._rows_view import RowsView
from ..reading._scan import Damage, damage_between
from ._findings import Progress
from ._range_check import RangeCheck, RangeReport
from ._tally import KeysCheck, QueueSpan

RANGE_BYTES: Final = 32 << 20
PARALLEL_FROM_BYTES: Final = 16 * RANGE_BYTES


@final
@dataclass(slots=True)
class LogCheck:
    """The result for the whole log. Positions count bytes."""

    begin: int
    end: int
    """Position behind the last whole record."""
    why: str = ""
    """The fault at ``end``, where there might be one more record."""
    tail_bytes: int = 0
    """Bytes behind the end, up to the last that is not zero: remains of a write."""
    records: int = 0
    unqueued: int = 0
    inner_batches: int = 0
    last_store_timestamp_ms: int = 0
    damages: list[Damage] = field(default_factory=list)
    queues: dict[tuple[str, int], QueueSpan] = field(default_factory=dict)
    keys: KeysCheck | None = None

    def add(self, report: RangeReport, log: Pieces) -> None:
        """Merge the next part in."""
        if report.first is None:
            if report.dirty_end > self.end:
                self.tail_bytes = report.dirty_end - self.end
                self.why = self.why or why_no_record(log, self.end)
            self._add_keys(report)
            return
        if report.first > self.end:
            why = self.why or why_no_record(log, self.end)
            if why:
                self.damages.append(damage_between(log, self.end, report.first, why))
        self.end, self.why = report.stopped, report.why
        self.tail_bytes = max(0, report.dirty_end - report.stopped)
        self.records += report.records
        self.unqueued += report.unqueued
        self.inner_batches += report.inner_batches
        self.last_store_timestamp_ms = report.last_store_timestamp_ms
        self.damages += report.damages
        for name, span in report.queues.items():
            known = self.queues.setdefault(name, span)
            if known is not span:
                known.merge(span)
        self._add_keys(report)

    def _add_keys(self, report: RangeReport) -> None:
        if report.keys is not None:
            if self.keys is None:
                self.keys = report.keys
            else:
                self.keys.merge(report.keys)


def why_no_record(log: Pieces, position: int) -> str:
    """Describe the fault at a position that should have a record; empty where a file ends."""
    if position in log.starts or log.start_of(position) in log.starts:
        data = log.read(position, 1 << 20)
        found = check_record(data, 0, position, log.end_of(position) - position, check_crc=True)
        return getattr(found, "why", "")
    return "no file begins here"


def log_ranges(log: Pieces) -> Iterator[tuple[int, int]]:
    """Iterate over parts of the log, none of which crosses files."""
    for start in log.starts:
        end = start + log.file_bytes
        for begin in range(start, end, RANGE_BYTES):
            yield begin, min(begin + RANGE_BYTES, end)


@final
@dataclass(frozen=True, slots=True)
class CheckPlan:
    """The indexes to compare the log with."""

    files: bool
    keys: bool
    rows: RowsView | None = None

    def check(self, store: StoreDirectory) -> RangeCheck:
        return RangeCheck(store, files=self.files, rows=self.rows, keys=self.keys)


def check_log(store: StoreDirectory, plan: CheckPlan, *, jobs: int, progress: Progress) -> LogCheck:
    """Walk the whole log. Raises ``OSError``."""
    log = store.log
    result = LogCheck(log.begin, log.begin)
    ranges = list(log_ranges(log))
    total = sum(piece.disk_bytes for piece in log.pieces)
    if jobs > 1 and total < PARALLEL_FROM_BYTES:
        jobs = 1
    checked = 0
    with _checker(store, plan, jobs) as check:
        for report in check(ranges):
            if report.first is not None and report.first < result.end:
                # The bytes that passed for a record there lie inside of one.
                report = plan.check(store).run(result.end, max(report.end, result.end))
            result.add(report, log)
            checked += min(report.end - report.begin, max(0, report.stopped - report.begin))
            progress("log", min(checked, total), total)
    progress("log", total, total)
    return result


_worker: RangeCheck | None = None


def _start_worker(store: StoreDirectory, files: bool, keys: bool, rows: Path | None) -> None:
    global _worker
    end_with_parent()
    view = RowsView(rows) if rows is not None else None
    if view is not None:  # at the end of such a process nothing else is called
        Finalize(None, view.close, exitpriority=1)
    _worker = RangeCheck(store, files=files, rows=view, keys=keys)


def _run_in_worker(part: tuple[int, int]) -> RangeReport:
    assert _worker is not None
    return _worker.run(*part)


@contextmanager
def _checker(
    store: StoreDirectory, plan: CheckPlan, jobs: int
) -> Iterator[Callable[[list[tuple[int, int]]], Iterator[RangeReport]]]:
    if jobs <= 1:
        checker = plan.check(store)
        yield lambda ranges: (checker.run(*part) for part in ranges)
        return
    # A fork would take the threads of a progress bar along.
    context = multiprocessing.get_context("spawn")
    rows = plan.rows.directory if plan.rows is not None else None
    arguments = (store, plan.files, plan.keys, rows)
    with ProcessPoolExecutor(jobs, context, _start_worker, arguments) as pool:
        yield lambda ranges: pool.map(_run_in_worker, ranges)
