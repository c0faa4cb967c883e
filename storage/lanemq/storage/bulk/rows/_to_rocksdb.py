"""Conversion of queue files, or of the log where they are damaged, to rows in RocksDB.

It goes over the log in windows. The rows of a window become a sorted table that RocksDB takes in
as it is, and then the watermark moves behind the window. So the rows are a whole prefix at any
time, and a conversion that was killed goes on where it was: as a broker would.
"""

import shutil
import time
from pathlib import Path

from lanemq.local import make_directories

from ..._errors import StoreCorrupted
from ..._workers import Workers
from ...disk._backups import CONVERT_TEMPORARY
from ...queues.rocks._cover import RocksCover
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
from ..files._swap_files import begin_temporary
from ._built_tables import MakeTables
from ._rows_build import RowsBuild
from ._swap_rows import copy_database, finish_rows, swap_rows


def convert_to_rocksdb(
    root: Path,
    *,
    from_log: bool = False,
    settings: BrokerSettings = NO_SETTINGS,
    progress: Progress = no_progress,
    tables: MakeTables | None = None,
    jobs: int = 1,
) -> Conversion:
    """Make a RocksDB with rows for all messages of a store that no broker has open.

    Rows that are there already stay where they are right; ``from_log`` makes all again from the
    log. ``settings`` is what the broker's file says, also where the log is if not inside;
    ``progress`` is told bytes of the log. ``tables`` makes the rows of all the log elsewhere, which
    ``from_log`` has to be given for. ``jobs``: how many processes make rows of queue files and
    compare them, for a million messages or more; more than one wants a main module that can be
    imported, as all of ``multiprocessing``.
    Raises ``NotAStore``, ``StoreLocked``, ``StoreCorrupted`` and ``OSError``.
    """
    started_s = time.monotonic()
    with exclusive_lock(root):
        store = look_into(root, settings=settings)
        new = root / CONVERT_TEMPORARY / "rocksdb"
        finish_rows(new, store.consume_queue)
        temporary = begin_temporary(root)
        try:
            store = look_into(root, settings=settings)
            make_directories(store.consume_queue)
            conversion = Conversion("rocksdb")
            database, is_copy = _open_copy(store, new, conversion)
            workers = Workers(jobs)
            try:
                rows = QueueRows(database)
                found = survey(store, rows, is_clean=store.is_clean)
                build = RowsBuild(
                    found,
                    rows,
                    conversion,
                    temporary,
                    progress,
                    delays_ms=find_delay_levels(store, rows).delays_ms,
                    workers=workers,
                )
                build.run(from_log=from_log, tables=tables)
                build.check()
            finally:
                workers.close()
                database.close()
            if build.has_changed or not is_copy:
                kept = new_kept_directory(root)
                known = KnownWatermarks(root)
                known.set_rocksdb(None)
                identity = (new / "IDENTITY").read_text().strip()
                swap_rows(new, store.consume_queue, kept, is_copy=is_copy)
                known.set_rocksdb(RocksCover(identity=identity, begin=0, end=found.log_end))
                conversion.kept = unless_empty(kept)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    conversion.seconds = time.monotonic() - started_s
    return conversion


def _open_copy(
    store: StoreDirectory, new: Path, conversion: Conversion
) -> tuple[QueueDatabase, bool]:
    """Open the database to be changed; returns it, and whether it is a copy of the store's."""
    if is_present(store.consume_queue):
        copy_database(store.consume_queue, new)
        try:
            return QueueDatabase(new), True
        except StoreCorrupted as error:
            text = str(error).replace(str(new), str(store.consume_queue))
            conversion.notes.append(f"{text}; its files are kept, and a new one was made")
            shutil.rmtree(new)
    return QueueDatabase(new), False
