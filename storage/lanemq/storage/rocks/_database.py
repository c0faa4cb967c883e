"""The RocksDB of a store's consume queues: opening, flushing, closing.

It lies in ``consumequeue``, where the queue files have their directories. What is written must
stay readable for RocksDB 8.4, which comes with RocketMQ 5.3.3: so tables have format 5 and no
newer feature is used, and the options that show on the disk are those of that broker.
Source: RocketMQ 5.3.3, ConsumeQueueRocksDBStorage and RocksDBOptionsFactory.
"""

import errno
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, final

from rocksdict import Cache, CompactOptions, IngestExternalFileOptions, Options, WriteBatch

from ._opening import OpenDatabase, rocks_error, without_wal
from ._options import bound_options, unit_options

UNITS: Final = "default"
BOUNDS: Final = "offset"
CACHE_BYTES: Final = 32 << 20
# Deleted before each flush, and never put: something of this key is in the memory to be flushed.
FLUSH_KEY: Final = b"\xfflanemq-flush"


@final
class QueueDatabase:
    """One open database. Keys and values are bytes as they are.

    ``write`` may be used while ``flush`` runs in a thread. Unflushed rows are lost when the
    process ends without ``close``: nothing is logged ahead.
    """

    def __init__(self, directory: Path, *, read_only: bool = False) -> None:
        """Open the database, which is made if missing, unless ``read_only``.

        To read only leaves no trace in ``directory``, and another process may have it open.
        Raises ``StoreLocked`` where another has it open to write, before anything is touched;
        ``StoreCorrupted`` where it cannot be opened.
        """
        cache = Cache(CACHE_BYTES)

        def families(present: Sequence[str]) -> dict[str, Options]:
            others = {name: unit_options(cache) for name in present}
            return others | {UNITS: unit_options(cache), BOUNDS: bound_options(cache)}

        self._opened = OpenDatabase(directory, unit_options(cache), families, read_only=read_only)
        self.directory = directory
        self.units = self._opened.rows
        self.bounds = self.units.get_column_family(BOUNDS)
        self.bounds_handle = self.units.get_column_family_handle(BOUNDS)
        """Handle of the family of bounds, for batches; without it a batch changes ``units``."""
        self._write_options = without_wal()

    def write(self, batch: WriteBatch) -> None:
        """Write a whole batch or nothing, to memory. Raises ``OSError``, also for an earlier
        flush."""
        self._opened.write(batch, self._write_options)

    def flush(self) -> None:
        """Wait, in a thread, until everything written before the call is durable.

        Raises ``OSError``; from then on nothing can be written until the database is opened again.

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
        """Close the database and release its lock; what is written becomes durable.

        Raises ``OSError`` where that failed; the database is closed all the same, as far as
        RocksDB releases it.
        """
        failure: Exception | None = None
        if not self._opened.is_view:
            try:
                self.flush()
            except OSError as error:
                failure = error
        try:
            self.bounds.close()
        except Exception as error:
            failure = failure or rocks_error(error, self.directory)
        del self.bounds_handle
        try:
            self._opened.close()
        except OSError as error:
            failure = failure or error
        if failure is not None:
            raise failure
