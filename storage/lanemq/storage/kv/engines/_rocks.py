"""The engine for large states: a RocksDB with one column family for each partition.

Nothing is logged ahead: what is not flushed is made again from the log of the namespace. RocksDB
must not make anything durable by itself, for the log may not be durable that far. So its memory
is larger than what may be written between two flushes (``kv._kv.DIRTY_BYTES_MAX``).
"""

import errno
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, cast, final

import trio
from rocksdict import (
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
)

from ..._errors import RocksFault
from ...rocks._opening import OpenDatabase, rocks_error, without_wal
from ._engine import OnFault, Unfinished, ignore_fault
from ._gaps import Ranges, ReversedRanges
from ._rocks_options import CLOSED, is_damage, new_options
from ._rocks_view import RocksView

ROW_COSTS: Final = 64
LOOK_S: Final = 0.002
ROOM_BYTES: Final = 64 << 20
"""Free bytes of the disk below which a write that fails is taken for one that found no room."""
SKIPPED_MAX: Final = 500
"""Rows that are gone which one look passes over, in some ten microseconds."""
LOOKS_MAX: Final = 200
"""Looks before a read is continued in another turn."""
BACK_ROWS_MAX: Final = 200
BACK_BYTES_MAX: Final = 1 << 20
"""Rows, and bytes of them, that a look back takes at once."""
LOOK_GAVE_UP: Final = "Result incomplete"  # the binding has no class of its own for it
DEFAULT_FAMILY: Final = "default"
PREFIX: Final = "kv."
"""Column families of namespaces begin with it, since ``default`` is RocksDB's own."""


@final
class RocksTable:
    """The rows of a namespace."""

    def __init__(self, engine: "RocksEngine", family: Rdict, name: str) -> None:
        self._engine = engine
        self._name = name
        self.is_closed = False
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
            raise self.error(error) from error

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

    def some_back(self, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        # The binding takes no lower bound, and a step back passes over all rows that are gone. So
        # ranges are read forward, each so small that it is read to its end.
        ranges, looks = ReversedRanges(begin, end), 0
        while not ranges.is_done:
            if looks == LOOKS_MAX:
                raise Unfinished(ranges.end)
            looks += 1
            since, until = ranges.begin, ranges.end
            options = ReadOptions()
            options.set_iterate_upper_bound(until)
            options.set_max_skippable_internal_keys(SKIPPED_MAX)
            rows, size_bytes = list[tuple[bytes, bytes]](), 0
            try:
                for row in self._read(since, options):
                    rows.append(row)
                    size_bytes += len(row[1])
                    if len(rows) > BACK_ROWS_MAX or size_bytes > BACK_BYTES_MAX:
                        break
            except Exception as error:
                if not str(error).startswith(LOOK_GAVE_UP):
                    raise self.error(error) from error
                ranges.gave_up(until)
                continue
            if len(rows) > 1 and (len(rows) > BACK_ROWS_MAX or size_bytes > BACK_BYTES_MAX):
                ranges.gave_up(until)
                continue
            yield from reversed(rows)
            ranges.read(since)

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
        """Turn an error of RocksDB about these rows into ``OSError``."""
        fault = rocks_error(error, self._engine.directory)
        error.with_traceback(None)  # whose frames have iterators, which hold the database
        if is_damage(fault) and not self.is_closed:
            self._engine.on_fault(self._name[len(PREFIX) :], fault)
        return fault

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
        try:
            self._engine.write(batch)
        finally:
            del batch, handle  # an error keeps this frame, and they keep the database
        row_bytes = sum(map(len, filter(None, rows.values())))
        self.dirty_bytes += sum(map(len, rows)) + row_bytes + ROW_COSTS * (len(rows) + len(drops))

    def close(self) -> None:
        """Release the family's handles. Raises ``OSError``."""
        self.is_closed = True
        del self._handle
        # One that cannot be closed in order holds the database's lock for as long as it is held.
        family, self.family = self.family, cast("Rdict", CLOSED)
        try:
            family.close()
        except Exception as error:  # it flushes, and has no class of its own for what fails
            raise rocks_error(error, self._engine.directory) from None
        finally:
            del family


@final
class RocksEngine:
    """The database of all namespaces; ``freeze`` begins to make it durable."""

    def __init__(self, directory: Path, *, read_only: bool = False, compacts: bool = True) -> None:
        """Open the database, which is made if missing, unless ``read_only``, which leaves no trace.

        It merges its files only if it ``compacts``: a damaged one stops all writes.

        Raises ``StoreLocked``, and ``StoreCorrupted`` where it cannot be opened.
        """
        self.directory = directory
        self.on_fault: OnFault = ignore_fault
        self._options = new_options(compacts=compacts)

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

    def tables(self) -> dict[str, RocksTable]:
        return self._tables

    def replace(self, name: str) -> None:
        table = self._tables.get(name)
        if table is None:
            return
        self._tables = {other: kept for other, kept in self._tables.items() if other != name}
        with suppress(OSError):  # what it could not flush goes anyway
            table.close()
        try:
            self.database.drop_column_family(PREFIX + name)
        except Exception as error:
            raise rocks_error(error, self.directory) from error

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
        try:
            self._opened.write(batch, self._write_options)
        except RocksFault as error:
            self._cannot_write(error)
            raise
        finally:
            del batch

    def _cannot_write(self, error: OSError) -> None:
        has_room = shutil.disk_usage(self.directory).free > ROOM_BYTES
        if has_room and is_damage(error):
            self.on_fault(None, error)

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
            fault = rocks_error(error, self.directory)
            self._cannot_write(fault)
            raise fault from error

        async def finish() -> None:
            for table, dirty_bytes in frozen:
                try:
                    await trio.to_thread.run_sync(self._wait_until_flushed, table, before)
                except OSError as error:
                    self._cannot_write(error)
                    raise
                table.dirty_bytes -= dirty_bytes

        return finish

    def _wait_until_flushed(self, table: RocksTable, before: int) -> None:
        """Wait, in a thread, for what is set apart; the binding has no call that does."""
        while table.family.property_int_value("rocksdb.num-immutable-mem-table"):
            if self._property("background-errors") != before:
                raise OSError(errno.EIO, "RocksDB: IO error: a flush failed", str(self.directory))
            time.sleep(LOOK_S)

    def _property(self, name: str) -> int:
        return int(self.database.property_int_value(f"rocksdb.{name}") or 0)

    def close(self) -> None:
        """Close the database. RocksDB may make what was written durable, or not. Raises
        ``OSError``, of the last part that could not be closed in order."""
        failed: OSError | None = None
        for table in self._tables.values():
            try:
                table.close()
            except OSError as error:
                failed = error
        self._tables = {}
        self.database = cast("Rdict", CLOSED)
        self._opened.close()
        if failed is not None:
            raise failed
