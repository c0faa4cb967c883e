"""The repair of a store: rebuilds from the log what is derived from it."""

import shutil
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import final

from lanemq.local import make_directories, sync_path
from lanemq.wire import SystemTopic

from ..._clock import system_clock_ms
from ..._errors import StoreError
from ..._layouts import UNIT_BYTES
from ...checkpoint._watermarks import note_queues
from ...disk._real_files import RealFiles
from ...log._cut import cut_log
from ...log._segments import Segments
from ...queues._queues import digest_of_files
from ..checks._findings import Part, Progress, no_progress
from ..checks._verify import Verified, verify_directory
from ..reading._directory import TEMPORARY, StoreDirectory, look_into, read_store
from ..reading._index_files import index_paths
from ..reading._index_sizes import IndexSizes
from ..reading._locking import exclusive_lock
from ..reading._rocks_view import has_database
from ..reading._settings import NO_SETTINGS, BrokerSettings
from ._build_rows import finish_swap, mark_ready, swap_database
from ._losses import Loss, losses_of_files, losses_of_rows
from ._rebuild import Rebuild
from ._repair_kv import kv_actions, kv_damage, repair_kv
from ._repair_report import Action, RepairReport
from ._swap import replace_files


def repair_store(
    root: Path,
    *,
    settings: BrokerSettings = NO_SETTINGS,
    dry_run: bool = False,
    everything: bool = False,
    allow_loss: bool = False,
    queue_file_bytes: int | None = None,
    jobs: int = 1,
    progress: Progress = no_progress,
) -> RepairReport:
    """Check a store, and fix what can be fixed from its log.

    The log itself is touched only to cut off the remains of a write behind its last record.
    ``everything``: all indexes are made again, whatever is found. ``queue_file_bytes``: of queue
    files (mappedFileSizeConsumeQueue), which matters where none is left to tell. Where brokers
    can read messages now that they could not read afterwards, the report lists them, and the
    queue, or the RocksDB, is left alone; with ``allow_loss`` it is replaced.

    New files are built in a directory of their own, and put in place singly. Raises ``NotAStore``,
    ``StoreLocked``, ``StoreCorrupted`` and ``OSError``; then every file is either as it was, or
    new, and it can be run again.
    """
    if dry_run:
        return _planned(root, settings, everything, queue_file_bytes, jobs, progress)
    look = partial(look_into, root, settings=settings)
    look()  # before a lock file is made where there is no store
    with exclusive_lock(root):
        store = _with_size(look(), queue_file_bytes)
        temporary = root / TEMPORARY
        finish_swap(temporary / "rocksdb", store.consume_queue, system_clock_ms())
        shutil.rmtree(temporary, ignore_errors=True)
        verified = verify_directory(store, jobs=jobs, progress=progress)
        repair = _Repair(store, verified, everything, progress)
        report = RepairReport(verified.report, allow_loss=allow_loss)
        found, damaged = kv_damage(root)
        verified.report.findings += found
        repair_kv(root, damaged)
        if repair.plan():
            backup = _backup_directory(root)
            try:
                report.losses = repair.build(temporary)
            except (OSError, StoreError):
                shutil.rmtree(temporary, ignore_errors=True)
                raise
            if not allow_loss:
                repair.leave_alone(report.losses)
            report.actions = repair.plan()
            report.default_levels = repair.default_levels()
            report.default_index_sizes = repair.default_index_sizes()
            repair.put_in_place(backup)
            shutil.rmtree(temporary, ignore_errors=True)  # nothing is built for a torn tail
            report.backup = backup if backup.exists() else None
        if report.actions or damaged:
            report.actions += kv_actions(damaged)
            store = _with_size(look(), queue_file_bytes)
            report.after = verify_directory(store, jobs=jobs, progress=progress).report
            report.after.findings += kv_damage(root)[0]
        return report


def _planned(
    root: Path,
    settings: BrokerSettings,
    everything: bool,
    queue_file_bytes: int | None,
    jobs: int,
    progress: Progress,
) -> RepairReport:
    """Return what a repair would do."""
    with read_store(root, settings=settings) as store:
        store = _with_size(store, queue_file_bytes)
        verified = verify_directory(store, jobs=jobs, progress=progress)
        repair = _Repair(store, verified, everything, progress)
        found, damaged = kv_damage(root)
        verified.report.findings += found
        actions = repair.plan() + kv_actions(damaged)
        report = RepairReport(verified.report, actions, is_dry=True)
        with tempfile.TemporaryDirectory(prefix="lanemq-repair-") as name:
            report.losses = repair.build(Path(name) / TEMPORARY)
        return report


def _backup_directory(root: Path) -> Path:
    """Return a directory, not yet there, for what a repair replaces."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime())
    backup, number = root / f"repair-{stamp}", 0
    while backup.exists():  # of another repair within the same second
        number += 1
        backup = root / f"repair-{stamp}-{number}"
    return backup


def _with_size(store: StoreDirectory, queue_file_bytes: int | None) -> StoreDirectory:
    if queue_file_bytes is None:
        return store
    whole = max(UNIT_BYTES, -(-queue_file_bytes // UNIT_BYTES) * UNIT_BYTES)
    return replace(store, queue_file_bytes=whole)


@final
class _Repair:
    """One repair: ``plan`` decides, ``build`` builds, ``put_in_place`` replaces."""

    def __init__(
        self, store: StoreDirectory, verified: Verified, everything: bool, progress: Progress
    ) -> None:
        self._store = store
        self._verified = verified
        self._progress = progress
        self._queues = set(verified.broken_queues)
        self._keys = verified.broken_keys
        self._rows = verified.broken_rows
        self._rebuild: Rebuild | None = None
        self._new_files: dict[tuple[str, int], list[Path]] = {}
        self._rows_losses: list[Loss] = []
        if everything:
            self._rows = self._rows or has_database(store.consume_queue)
            self._queues |= verified.known_queues
            knows_sizes = store.index_sizes is not None
            self._keys = self._keys or (knows_sizes and verified.log.keys is not None)

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
                    f"make the files of {count} {'queue' if count == 1 else 'queues'} again",
                    count,
                )
            )
        if self._rows:
            what = "make the queues in RocksDB again"
            actions.append(Action(Part.ROCKSDB, what, len(self._verified.known_queues)))
        if self._keys:
            count = len(index_paths(self._store.root / "index"))
            actions.append(Action(Part.KEYS, f"make the key index again ({count} files)", count))
        return actions

    def build(self, temporary: Path) -> list[Loss]:
        """Build in ``temporary``; returns what brokers could no longer read. Raises
        ``OSError``."""
        if not (self._queues or self._rows or self._keys):
            return []
        self._rebuild = Rebuild(
            self._store,
            self._verified,
            temporary,
            queues=self._queues,
            rows=self._rows,
            keys=self._keys,
        )
        self._rebuild.run(self._progress)
        for name, builder in self._rebuild.queues.items():
            self._new_files[name] = builder.finish()
        stage = self._verified.report.stage
        found, damaged = [], self._rebuild.damaged
        if not stage.is_sure or stage.stage.has_files:
            found += losses_of_files(
                self._store, self._rebuild.queue_files, self._new_files, damaged=damaged
            )
        if self._rows and (not stage.is_sure or stage.stage.reads_rows):
            self._rows_losses = losses_of_rows(self._store, self._rebuild.rocksdb, damaged=damaged)
            found += self._rows_losses
        return found

    def default_levels(self) -> list[int]:
        """Return the levels whose queue is rebuilt, and whose delay is a guess."""
        if self._rebuild is None:
            return []
        names = self._queues | (self._verified.known_queues if self._rows else set())
        levels = {number + 1 for topic, number in names if topic == SystemTopic.SCHEDULE}
        return sorted(level for level in levels if not self._rebuild.delay_levels.is_known(level))

    def default_index_sizes(self) -> IndexSizes | None:
        """Return the sizes of a key index to be rebuilt, where they are a guess."""
        store = self._store
        told = store.settings.index_sizes is not None or index_paths(store.root / "index")
        return None if told or not self._keys else store.index_sizes

    def leave_alone(self, found: list[Loss]) -> None:
        """Take steps that would lose messages out of the plan."""
        for loss in found:
            if loss in self._rows_losses:
                self._rows = False
            else:
                self._queues.discard((loss.topic, loss.queue_id))

    def put_in_place(self, backup: Path) -> None:
        """Cut the log's tail, and put the rebuilt indexes in place; the old ones go to
        ``backup``."""
        store = self._store
        if self._verified.log.tail_bytes:
            self._cut_tail(backup)
        if self._rebuild is None:
            return
        note_queues(RealFiles(), store.root, "")
        for topic, queue_id in sorted(self._queues):
            place = Path("consumequeue") / topic / str(queue_id)
            queue = store.queue(topic, queue_id)
            old = [queue.pieces.path_of(piece.start) for piece in queue.pieces.pieces]
            new = self._new_files[topic, queue_id]
            replace_files(store.root / place, new, old, backup / place)
        if self._rows:
            mark_ready(self._rebuild.rocksdb)
            aside = swap_database(self._rebuild.rocksdb, store.consume_queue, system_clock_ms())
            if aside is not None:
                make_directories(backup)
                aside.rename(backup / "rocksdb")
        if self._keys:
            new = index_paths(self._rebuild.index)
            for path in new:
                sync_path(path)
            old = index_paths(store.root / "index")
            replace_files(store.root / "index", new, old, backup / "index")
        digest = digest_of_files(
            RealFiles(), store.consume_queue, file_bytes=store.queue_file_bytes
        )
        note_queues(RealFiles(), store.root, digest)

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
            sync_path(path)
        sync_path(store.log.directory)
