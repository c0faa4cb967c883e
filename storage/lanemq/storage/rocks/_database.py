"""The RocksDB of a store's consume queues: opening, flushing, closing.

It lies in ``consumequeue``, where the queue files have their directories. What is written must
stay readable for RocksDB 8.4, which comes with RocketMQ 5.3.3: so tables have format 5 and no
newer feature is used, and the options that show on the disk are those of that broker.
Source: RocketMQ 5.3.3, ConsumeQueueRocksDBStorage and RocksDBOptionsFactory.
"""

import errno
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, final

from rocksdict import (
    AccessType,
    Cache,
    CompactOptions,
    IngestExternalFileOptions,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from .._errors import StoreCorrupted, StoreLocked
from ._lock import LOCK_FILE, LockWatch
from ._options import bound_options, database_options, unit_options

UNITS: Final = "default"
BOUNDS: Final = "offset"
CACHE_BYTES: Final = 32 << 20
STRAY_FILE: Final = "rocksdict-config.json"  # the binding leaves it behind, even where it reads
# Deleted before each flush, and never put: something of this key is in the memory to be flushed.
FLUSH_KEY: Final = b"\xfflanemq-flush"
DATA_FILE: Final = re.compile(r"CURRENT|IDENTITY|MANIFEST-\d+|OPTIONS-\d+|\d+\.(sst|log)")
ANY_FILE: Final = re.compile(
    rf"{DATA_FILE.pattern}|LOCK|LOG|LOG\.old\.\d+|OPTIONS-\d+\.dbtmp|\d+\.dbtmp|"
    rf"{re.escape(STRAY_FILE)}"
)


def is_present(directory: Path) -> bool:
    """Whether there is a database. One whose making was interrupted does not count."""
    return (directory / "CURRENT").exists()


def move_aside(directory: Path, now_ms: int) -> Path | None:
    """Move the files of a database that cannot be opened away; returns where, None without any.

    Nothing is touched that has not a name RocksDB gives. Raises ``OSError``.
    """
    names = [
        name
        for name in sorted(os.listdir(directory))
        if ANY_FILE.fullmatch(name) and (directory / name).is_file()
    ]
    if not names:
        return None
    target = directory.with_name(f"{directory.name}.bad-{now_ms}")
    target.mkdir()
    # Without CURRENT nobody takes the rest for a database, should this be interrupted.
    for name in sorted(names, key=lambda name: name != "CURRENT"):
        (directory / name).rename(target / name)
    return target


def rocks_error(error: Exception, path: Path) -> OSError:
    """What RocksDB says, for which the binding has no class of its own."""
    is_full = "No space left" in str(error)
    return OSError(errno.ENOSPC if is_full else errno.EIO, f"RocksDB: {error}", str(path))


@final
class QueueDatabase:
    """One open database. Keys and values are bytes as they are.

    ``write`` may be used while ``flush`` runs in a thread. What is not flushed is lost when the
    process ends without ``close``: nothing is logged ahead.
    """

    def __init__(self, directory: Path, *, read_only: bool = False) -> None:
        """Open the database; one that is not there is made, but not ``read_only``.

        To read only leaves no trace in ``directory``, and another process may have it open.
        Raises ``StoreLocked`` where another has it open to write, before anything is touched;
        ``StoreCorrupted`` where it cannot be opened.
        """
        self.directory = directory
        self._view: tempfile.TemporaryDirectory[str] | None = None
        self._lock: LockWatch | None = None
        path = directory
        if read_only:
            if not is_present(directory):
                raise StoreCorrupted(directory, "there is no RocksDB database")
            self._view = tempfile.TemporaryDirectory(prefix="lanemq-rocksdb-")
            path = Path(self._view.name)
            _link(directory, path)
        else:
            directory.mkdir(parents=True, exist_ok=True)
            self._lock = LockWatch(directory)
        cache = Cache(CACHE_BYTES)
        access = AccessType.read_only() if read_only else AccessType.read_write()
        try:
            names = Rdict.list_cf(str(path), database_options()) if is_present(path) else []
            # A family that is there must be opened, whatever it is.
            families = {name: unit_options(cache) for name in names}
            families |= {UNITS: unit_options(cache), BOUNDS: bound_options(cache)}
            self.units = Rdict(str(path), unit_options(cache), families, access)
        except Exception as error:
            self._forget()
            if "lock" in str(error).lower():
                raise StoreLocked(directory, LOCK_FILE) from error
            raise StoreCorrupted(directory, f"RocksDB cannot open it: {error}") from error
        finally:
            (path / STRAY_FILE).unlink(missing_ok=True)
        self.bounds = self.units.get_column_family(BOUNDS)
        self.bounds_handle = self.units.get_column_family_handle(BOUNDS)
        """For batches; without one a batch changes ``units``."""
        self._write_options = WriteOptions()
        setattr(self._write_options, "disable_wal", True)  # noqa: B010 - typed as a method
        if self._lock is not None:
            self._lock.opened()

    def write(self, batch: WriteBatch) -> None:
        """Write all of it or nothing, to memory. Raises ``OSError``, also for an earlier flush."""
        try:
            self.units.write(batch, self._write_options)
        except Exception as error:
            raise rocks_error(error, self.directory) from error

    def flush(self) -> None:
        """Return once all that was written before the call is durable; for a thread.

        Raises ``OSError``; from then on nothing can be written until the database is opened anew.

        The binding can flush one family only, and a crash between two would leave them in
        disagreement. A compaction of next to nothing flushes both at one point.
        """
        before = self._background_errors()
        batch = WriteBatch(raw_mode=True)
        batch.delete(FLUSH_KEY, self.bounds_handle)
        self.write(batch)
        options = CompactOptions()
        options.set_exclusive_manual_compaction(False)
        try:
            self.bounds.compact_range(FLUSH_KEY, FLUSH_KEY, options)
        except Exception as error:
            raise rocks_error(error, self.directory) from error
        # A compaction does not report what went wrong.
        if self._background_errors() != before:
            raise OSError(errno.EIO, "RocksDB: a flush failed", str(self.directory))

    def _background_errors(self) -> list[int | None]:
        name = "rocksdb.background-errors"
        return [family.property_int_value(name) for family in (self.units, self.bounds)]

    def ingest(self, units: Iterable[Path]) -> None:
        """Move sorted tables into ``units``, durably; their rows replace those of the same keys.

        Raises ``OSError``; then none was taken.
        """
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        try:
            self.units.ingest_external_file([str(path) for path in units], options)
        except Exception as error:
            raise rocks_error(error, self.directory) from error

    def close(self) -> None:
        """Give up the database and its lock; what is written becomes durable.

        Raises ``OSError`` where that failed; the database is given up all the same, as far as
        RocksDB lets go of it.
        """
        failure: Exception | None = None
        if self._view is None:
            try:
                self.flush()
            except OSError as error:
                failure = error
        for family in (self.bounds, self.units):
            try:
                family.close()
            except Exception as error:
                failure = failure or rocks_error(error, self.directory)
        del self.bounds_handle
        self._forget()
        if failure is not None:
            raise failure

    def _forget(self) -> None:
        if self._view is not None:
            self._view.cleanup()
        if self._lock is not None:
            self._lock.closed()


def _link(directory: Path, view: Path) -> None:
    source = directory.resolve()
    for entry in os.scandir(source):
        if entry.is_file() and DATA_FILE.fullmatch(entry.name):
            (view / entry.name).symlink_to(source / entry.name)
