"""The engine for large states: a RocksDB with one column family for each partition.

Nothing is logged ahead: what is not flushed is made again from the log of the namespace. RocksDB
must not make anything durable by itself, for the log may not be durable that far. So its memory
is larger than what may be written between two flushes (``kv._kv.DIRTY_BYTES_MAX``).
"""

import errno
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, cast, final

import trio
from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
)

from ...rocks._opening import OpenDatabase, rocks_error, without_wal
from ._engine import Unfinished
from ._gaps import Ranges
from ._rocks_view import RocksView
from ._rows import META

CACHE_BYTES: Final = 32 << 20
MEMTABLE_BYTES: Final = 256 << 20
BLOOM_BITS: Final = 10
METADATA_BYTES: Final = 8 << 10
OPEN_FILES_MAX: Final = 256
KEPT_LOGS: Final = 3
ROW_COSTS: Final = 64
LOOK_S: Final = 0.002
SKIPPED_MAX: Final = 500
"""Rows that are gone which one look passes over, in some ten microseconds."""
LOOKS_MAX: Final = 200
"""Looks before a read is continued in another turn."""
LOOK_GAVE_UP: Final = "Result incomplete"  # the binding has no class of its own for it
DEFAULT_FAMILY: Final = "default"
PREFIX: Final = "kv."
"""Column families of namespaces begin with it, since ``default`` is RocksDB's own."""


def _options(cache: Cache) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_max_open_files(OPEN_FILES_MAX)
    options.set_keep_log_file_num(KEPT_LOGS)
    options.set_max_background_jobs(2)
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_compression_type(DBCompressionType.lz4())
    tables = BlockBasedOptions()
    tables.set_block_cache(cache)
    # Index and filter of a table in pieces: as a whole they are larger than a part of the cache,
    # and would be read again, megabytes, for every key.
    tables.set_index_type(BlockBasedIndexType.two_level_index_search())
    tables.set_partition_filters(True)
    tables.set_metadata_block_size(METADATA_BYTES)
    tables.set_cache_index_and_filter_blocks(True)
    tables.set_pin_top_level_index_and_filter(True)
    tables.set_bloom_filter(BLOOM_BITS, False)
    options.set_block_based_table_factory(tables)
    return options


@final
class RocksTable:
    """The rows of a namespace."""

    def __init__(self, engine: "RocksEngine", family: Rdict, name: str) -> None:
        self._engine = engine
        self.family = family
        self._handle = engine.database.get_column_family_handle(name)
        self.dirty_bytes = 0
        self.writes = 0
        """Number of writes so far."""

    def get(self, key: bytes) -> bytes | None:
        try:
            row: bytes | None = self.family.get(key)
            return row
        except Exception as error:
            raise rocks_error(error, self._engine.directory) from error

    def items(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        options = ReadOptions()
        options.set_iterate_upper_bound(end)
        try:
            yield from self._read(begin, options)
        except Exception as error:
            raise self.error(error) from error

    def some(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        ranges, looks = Ranges(begin, end), 0
        while not ranges.is_done:
            if looks == LOOKS_MAX:
                raise Unfinished(ranges.begin)
            looks += 1
            until = ranges.end
            options = ReadOptions()
            options.set_iterate_upper_bound(until)
            options.set_max_skippable_internal_keys(SKIPPED_MAX)
            row: tuple[bytes, bytes] | None = None
            try:
                for row in self._read(ranges.begin, options):
                    yield row
            except Exception as error:
                if not str(error).startswith(LOOK_GAVE_UP):
                    raise self.error(error) from error
                ranges.gave_up(ranges.begin if row is None else row[0] + b"\0")
            else:
                ranges.read(until)

    def _read(self, begin: bytes, options: ReadOptions) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the rows from ``begin`` on. Raises what the binding raises."""
        row: tuple[bytes, bytes] | None = None
        # One call for each row, not four; but an error looks like the end of the rows.
        for row in cast("Iterator[tuple[bytes, bytes]]", self.family.items(False, begin, options)):
            yield row
        rest = self.family.iter(options)
        rest.seek(begin if row is None else row[0] + b"\0")
        while rest.valid():
            yield cast("bytes", rest.key()), cast("bytes", rest.value())
            rest.next()
        rest.status()

    def snapshot(self) -> RocksView:
        return RocksView(self)

    def error(self, error: Exception) -> OSError:
        """Turn an error of RocksDB into ``OSError``."""
        return rocks_error(error, self._engine.directory)

    def write(self, drops: list[tuple[bytes, bytes]], rows: dict[bytes, bytes | None]) -> None:
        batch, handle = WriteBatch(raw_mode=True), self._handle
        for begin, end in drops:
            batch.delete_range(begin, end, handle)
        for key, row in rows.items():
            if row is None:
                batch.delete(key, handle)
            else:
                batch.put(key, row, handle)
        self.writes += 1  # one that fails counts too
        self._engine.write(batch)
        row_bytes = sum(map(len, filter(None, rows.values())))
        self.dirty_bytes += sum(map(len, rows)) + row_bytes + ROW_COSTS * (len(rows) + len(drops))

    def close(self) -> None:
        """Release the family's handles."""
        self.family.close()
        del self._handle


@final
class RocksEngine:
    """The database of all namespaces; ``freeze`` begins to make it durable."""

    def __init__(self, directory: Path, *, read_only: bool = False) -> None:
        """Open the database, which is made if missing, unless ``read_only``, which leaves no trace.

        Raises ``StoreLocked``, and ``StoreCorrupted`` where it cannot be opened.
        """
        self.directory = directory
        self._options = _options(Cache(CACHE_BYTES))

        def families(present: Sequence[str]) -> dict[str, Options]:
            return dict.fromkeys([*present, DEFAULT_FAMILY], self._options)

        self._opened = OpenDatabase(directory, self._options, families, read_only=read_only)
        self.database = self._opened.rows
        self._write_options = without_wal()
        self._tables: dict[str, RocksTable] = {}
        for name in self._opened.families:
            if name.startswith(PREFIX):
                family = self.database.get_column_family(name)
                self._tables[name[len(PREFIX) :]] = RocksTable(self, family, name)

    def names(self) -> list[str]:
        return [name for name, table in self._tables.items() if table.get(META) is not None]

    def table(self, name: str) -> RocksTable:
        table = self._tables.get(name)
        if table is None:
            family_name = PREFIX + name
            try:
                family = self.database.create_column_family(family_name, self._options)
            except Exception as error:
                raise rocks_error(error, self.directory) from error
            table = RocksTable(self, family, family_name)
            # A thread may be here: others have the tables of before, or these.
            self._tables = {**self._tables, name: table}
        return table

    def write(self, batch: WriteBatch) -> None:
        """Write a batch to memory: all of it or nothing. Raises ``OSError``."""
        self._opened.write(batch, self._write_options)

    @property
    def dirty_bytes(self) -> int:
        return sum(table.dirty_bytes for table in self._tables.values())

    def freeze(self) -> Callable[[], Awaitable[None]]:
        frozen = [(table, table.dirty_bytes) for table in self._tables.values()]
        frozen = [(table, dirty_bytes) for table, dirty_bytes in frozen if dirty_bytes]
        before = self._property("background-errors")
        try:
            for table, _ in frozen:
                table.family.flush(wait=False)
        except Exception as error:
            raise rocks_error(error, self.directory) from error

        async def finish() -> None:
            for table, dirty_bytes in frozen:
                await trio.to_thread.run_sync(self._wait_until_flushed, table.family, before)
                table.dirty_bytes -= dirty_bytes

        return finish

    def _wait_until_flushed(self, family: Rdict, before: int) -> None:
        """Wait, in a thread, for what is set apart; the binding has no call that does."""
        while family.property_int_value("rocksdb.num-immutable-mem-table"):
            if self._property("background-errors") != before:
                raise OSError(errno.EIO, "RocksDB: a flush failed", str(self.directory))
            time.sleep(LOOK_S)

    def _property(self, name: str) -> int:
        return int(self.database.property_int_value(f"rocksdb.{name}") or 0)

    def close(self) -> None:
        """Close the database. RocksDB may make what was written durable, or not."""
        for table in self._tables.values():
            table.close()
        self._tables.clear()
        self._opened.close()
