"""Conversion of rows in RocksDB, or of the log where they are damaged, to queue files.

Each queue's files get what the rows have, and what is behind the rows comes from the log. Slots
stay where they are: what is missing in both is blank. What is already right is only compared, so
that a conversion that was killed is run again and goes on.
"""

import shutil
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import final

from ..._errors import RocksFault, StoreCorrupted, is_full
from ...queues.rocks._queue_rows import QueueRows
from ...rocks import QueueDatabase, is_present
from ...tools.checks._findings import Progress, no_progress
from ...tools.reading._delay_levels import find_delay_levels
from ...tools.reading._directory import StoreDirectory, look_into
from ...tools.reading._locking import exclusive_lock
from ...tools.reading._settings import NO_SETTINGS, BrokerSettings
from ..checks._conversion import Conversion, new_kept_directory, unless_empty
from ..checks._store_access import KnownWatermarks
from ..checks._survey import survey
from ._files_build import FilesBuild
from ._marker import CrashMarker
from ._shadow import ShadowFiles
from ._swap_files import begin_temporary, queue_shadow, swap_files


def convert_to_files(
    root: Path,
    *,
    from_log: bool = False,
    settings: BrokerSettings = NO_SETTINGS,
    queue_file_bytes: int | None = None,
    progress: Progress = no_progress,
) -> Conversion:
    """Make queue files with units for all messages of a store that no broker has open.

    Units that are there already stay where they are right; ``from_log`` makes all again from the
    log. ``settings`` is what the broker's file says, also where the log is if not inside;
    ``queue_file_bytes`` is the size of queue files where there are none yet
    (mappedFileSizeConsumeQueue). ``progress`` is told units, then bytes of the log. RocksDB is only
    read.
    Raises ``NotAStore``, ``StoreLocked``, ``StoreCorrupted`` and ``OSError``.
    """
    started_s = time.monotonic()
    with exclusive_lock(root):
        look_into(root, settings=settings)
        temporary = begin_temporary(root)
        try:
            store = look_into(root, settings=settings)
            if queue_file_bytes is not None and not store.has_queue_files:
                store = replace(store, queue_file_bytes=queue_file_bytes)
            run = _Run(store, from_log=from_log, progress=progress)
            try:
                conversion = run.build()
            except RocksFault as error:
                if is_full(error):
                    raise
                begin_temporary(root)
                conversion = run.build_without_rows(f"{error.filename}: {error.strerror}")
            run.put_in_place()
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    conversion.seconds = time.monotonic() - started_s
    return conversion


@final
class _Run:
    """One conversion of a store whose lock is held."""

    def __init__(self, store: StoreDirectory, *, from_log: bool, progress: Progress) -> None:
        self._store = store
        self._from_log = from_log
        self._progress = progress
        self._known = KnownWatermarks(store.root)
        self._marker = CrashMarker(store.root)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._conversion = Conversion("files")
        self._files = ShadowFiles(self._store.consume_queue, queue_shadow(self._store.root))

    def build(self) -> Conversion:
        """Build the result beside the store; returns its report.

        Raises ``RocksFault`` where a part of RocksDB cannot be read.
        """
        with ExitStack() as stack:
            self._build(_open_rows(self._store, self._conversion, stack))
        return self._conversion

    def build_without_rows(self, why: str) -> Conversion:
        """Build the result by the log, and by the queue files that are there."""
        self._begin_anew()
        self._conversion.notes.append(f"the log is read instead of RocksDB: {why}")
        self._build(None)
        return self._conversion

    def _build(self, rows: QueueRows | None) -> None:
        found = survey(self._store, rows, is_clean=self._marker.was_clean)
        build = FilesBuild(
            found,
            None if self._from_log else rows,
            self._files,
            self._known,
            self._conversion,
            self._progress,
            delays_ms=find_delay_levels(self._store, rows).delays_ms,
        )
        build.run(from_log=self._from_log)
        build.check(rows)

    def put_in_place(self) -> None:
        """Replace what changes. Raises ``OSError``."""
        root, log_end = self._store.root, self._conversion.log_end
        if self._files.changed():
            kept = new_kept_directory(root)
            swap_files(root, backup=kept, log_end=log_end, file_bytes=self._store.queue_file_bytes)
            self._conversion.kept = unless_empty(kept)
            return
        self._known.set_files(log_end)
        if self._marker.is_ours:
            self._marker.end()


def _open_rows(store: StoreDirectory, conversion: Conversion, stack: ExitStack) -> QueueRows | None:
    if not is_present(store.consume_queue):
        return None
    try:
        rows = QueueRows(QueueDatabase(store.consume_queue, read_only=True))
    except StoreCorrupted as error:
        conversion.notes.append(f"the log is read instead of RocksDB: {error}")
        return None
    stack.callback(rows.close)
    return rows
