"""``lanemq store repair``: what is derived from the log is made anew from the log."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, final

from .._clock import system_clock_ms
from .._cut import cut_log
from .._files import RealFiles
from .._layouts import UNIT_BYTES
from .._segments import Segments
from ._build_queues import sync
from ._build_rows import finish_swap, swap_database
from ._directory import TEMPORARY, StoreDirectory, look_into, read_store
from ._errors import NotAStore
from ._findings import Part, Progress
from ._index_files import index_paths
from ._rebuild import Rebuild
from ._rocks_view import has_database
from ._swap import replace_files
from ._verify import Verified, VerifyReport, no_progress, verify_directory

BUFFERED_BYTES_MAX: Final = 64 << 20


@final
@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a repair does, or would do."""

    part: Part
    what: str
    count: int
    """Queues, files or bytes."""


@final
@dataclass(slots=True)
class RepairReport:
    """What a repair did."""

    before: VerifyReport
    actions: list[Action] = field(default_factory=list)
    is_dry: bool = False
    backup: Path | None = None
    """Where everything that was replaced or cut is kept; None where nothing was."""
    after: VerifyReport | None = None
    """The same checks once more; None where nothing was done."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is left that has to be done."""
        return (self.after or self.before).is_sound


def repair_store(
    root: Path,
    *,
    commit_log: Path | None = None,
    dry_run: bool = False,
    everything: bool = False,
    queue_file_bytes: int | None = None,
    jobs: int = 1,
    progress: Progress = no_progress,
    now_s: Callable[[], float] = time.time,
) -> RepairReport:
    """Check a store, and mend what can be mended from its log.

    The log itself is touched only to cut off the remains of a write behind its last record.
    ``everything``: all indexes are made anew, whatever is found. ``queue_file_bytes``: of queue
    files (mappedFileSizeConsumeQueue), which matters where none is left to tell.

    What is made is made beside, and put in place file by file. Raises ``NotAStore``,
    ``StoreLocked``, ``StoreCorrupted`` and ``OSError``; then every file is either as it was, or
    new, and it can be run again.
    """
    if dry_run:
        with read_store(root, commit_log=commit_log) as store:
            store = _with_size(store, queue_file_bytes)
            verified = verify_directory(store, jobs=jobs, progress=progress)
            return RepairReport(
                verified.report, _Repair(store, verified, everything, progress).plan(), is_dry=True
            )
    if not root.is_dir():
        raise NotAStore(root, "there is no such directory")
    look_into(root, commit_log=commit_log)  # before a lock file is made where there is no store
    with _exclusive(root):
        store = _with_size(look_into(root, commit_log=commit_log), queue_file_bytes)
        temporary = root / TEMPORARY
        finish_swap(temporary / "rocksdb", store.consume_queue, system_clock_ms())
        shutil.rmtree(temporary, ignore_errors=True)
        verified = verify_directory(store, jobs=jobs, progress=progress)
        repair = _Repair(store, verified, everything, progress)
        report = RepairReport(verified.report, repair.plan())
        if report.actions:
            stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime(now_s()))
            report.backup = root / f"repair-{stamp}"
            repair.run(temporary, report.backup)
            shutil.rmtree(temporary)
            store = _with_size(look_into(root, commit_log=commit_log), queue_file_bytes)
            report.after = verify_directory(store, jobs=jobs, progress=progress).report
        return report


def _with_size(store: StoreDirectory, queue_file_bytes: int | None) -> StoreDirectory:
    if queue_file_bytes is None:
        return store
    whole = max(UNIT_BYTES, -(-queue_file_bytes // UNIT_BYTES) * UNIT_BYTES)
    return replace(store, queue_file_bytes=whole)


@contextmanager
def _exclusive(root: Path) -> Iterator[None]:
    lock = RealFiles().lock(root / "lock", root)
    try:
        yield
    finally:
        lock.release()


@final
class _Repair:
    """One repair: ``plan`` says what ``run`` does."""

    def __init__(
        self, store: StoreDirectory, verified: Verified, everything: bool, progress: Progress
    ) -> None:
        self._store = store
        self._verified = verified
        self._progress = progress
        self._queues = set(verified.broken_queues)
        self._keys = verified.broken_keys
        self._rows = verified.broken_rows
        if everything:
            self._rows = self._rows or has_database(store.consume_queue)
            self._queues |= verified.known_queues
            self._keys = self._keys or verified.log.keys is not None

    def plan(self) -> list[Action]:
        actions = []
        log = self._verified.log
        if log.tail_bytes:
            what = f"cut {log.tail_bytes} bytes behind the last record, at {log.end}"
            actions.append(Action(Part.LOG, what, log.tail_bytes))
        if self._queues:
            count = len(self._queues)
            actions.append(
                Action(
                    Part.FILES,
                    f"make the files of {count} {'queue' if count == 1 else 'queues'} anew",
                    count,
                )
            )
        if self._rows:
            what = "make the queues in RocksDB anew"
            actions.append(Action(Part.ROCKSDB, what, len(self._verified.known_queues)))
        if self._keys:
            count = len(index_paths(self._store.root / "index"))
            actions.append(Action(Part.KEYS, f"make the key index anew ({count} files)", count))
        return actions

    def run(self, temporary: Path, backup: Path) -> None:
        """Build in ``temporary``, and put it in place of what goes to ``backup``."""
        store = self._store
        if self._verified.log.tail_bytes:
            self._cut_tail(backup)
        if not (self._queues or self._rows or self._keys):
            return
        rebuild = Rebuild(
            store,
            self._verified,
            temporary,
            queues=self._queues,
            rows=self._rows,
            keys=self._keys,
        )
        rebuild.run(self._progress)
        for (topic, queue_id), builder in rebuild.queues.items():
            place = Path("consumequeue") / topic / str(queue_id)
            queue = store.queue(topic, queue_id)
            old = [queue.pieces.path_of(piece.start) for piece in queue.pieces.pieces]
            replace_files(store.root / place, builder.finish(), old, backup / place)
        if self._rows:
            aside = swap_database(rebuild.rocksdb, store.consume_queue, system_clock_ms())
            if aside is not None:
                backup.mkdir(exist_ok=True)
                aside.rename(backup / "rocksdb")
        if self._keys:
            new = index_paths(rebuild.index)
            for path in new:
                sync(path)
            old = index_paths(store.root / "index")
            replace_files(store.root / "index", new, old, backup / "index")

    def _cut_tail(self, backup: Path) -> None:
        store, log = self._store, self._verified.log
        files = RealFiles()
        segments = Segments(files, store.log.directory, store.log.file_bytes)
        segments.load()
        cut_log(
            segments,
            log.end,
            why=log.why,
            files=files,
            save_to=backup / "commitlog",
            always_save=True,
        )
        paths = [file.path for _, file in segments.open_files()]
        segments.close()
        for path in paths[-1:]:
            sync(path)
        sync(store.log.directory)
