"""Opening the engine of a store's keys, for the first time or again."""

import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, final

import trio

from lanemq.local import get_logger

from ..._config import KvEngine, StoreConfig
from ..._errors import ConfigInvalid, StartRefused, StoreCorrupted, StoreError, StoreLocked
from ...disk._files import Files
from ...disk._real_files import RealFiles
from ._engine import Engine, Table
from ._memory import FILE_NAME, MemoryEngine, move_file_aside

if TYPE_CHECKING:
    from ._rocks import RocksEngine

LOGGER = get_logger(__name__)
DIRECTORY: Final = "kv"
ROCKS_DIRECTORY: Final = "rocksdb"
LOOKS_MAX: Final = 50
LOOK_S: Final = 0.1
ROWS_A_TURN: Final = 500
"""Rows that a thread reads before it leaves the interpreter to others."""
_FIRST: Final = b""
_LAST: Final = b"\xff"
_T = TypeVar("_T")


@final
class EngineOpener:
    """Opens the engine that a configuration names, in the directory of the keys."""

    def __init__(self, config: StoreConfig, *, files: Files, clock_ms: Callable[[], int]) -> None:
        self._config = config
        self._files = files
        self._clock_ms = clock_ms
        self.directory = config.root / DIRECTORY
        """The directory of the keys, which need not be there."""

    @property
    def has_files(self) -> bool:
        """True if there are keys on the disk."""
        return bool(self._files.entries(self.directory))

    @property
    def is_slow(self) -> bool:
        """True if opening takes a database's time, so that it belongs into a thread."""
        # RocksDB is on the operating system's disk or nowhere.
        return self._config.kv_engine is KvEngine.ROCKSDB and isinstance(self._files, RealFiles)

    def open(self) -> Engine:
        """Open the engine; one that cannot be read is moved aside and made again.

        Raises ``StartRefused``, ``StoreLocked``, ``StoreCorrupted``, ``ConfigInvalid`` and
        ``OSError``.
        """
        rocks = self.directory / ROCKS_DIRECTORY
        in_rocks = bool(self._files.entries(rocks))
        in_memory = self._files.exists(self.directory / FILE_NAME)
        is_rocks = self.is_slow
        other = in_memory if is_rocks else in_rocks
        if other and not (in_rocks if is_rocks else in_memory):
            now, then = ("rocksdb", "memory") if is_rocks else ("memory", "rocksdb")
            raise StartRefused(
                f"kvEngine is {now}, but the keys in {self.directory} were written with "
                f"{then}: set it back; or export the keys, move that directory away, and "
                "import them again"
            )
        return self._open_rocks(rocks) if is_rocks else self._open_memory()

    async def open_again(self) -> Engine:
        """Open a database that met damage, without the tables that cannot be read to their ends.

        Nothing is merged while they are read: a damaged file would stop all writes again. Where all
        can be read, the damage may be in rows that were deleted: then without the tables that
        cannot be merged. Raises as ``open``.
        """
        if not self.is_slow:
            return self.open()
        in_thread = trio.to_thread.run_sync
        try:
            async with self._unmerged() as engine:
                names = set(engine.tables())
                unreadable = [
                    name
                    for name, table in sorted(engine.tables().items())
                    if await in_thread(self._is_unreadable, name, table)
                ]
                for name in unreadable:
                    self.keep_files()
                    await in_thread(engine.replace, name)
            while names and not unreadable:
                async with self._unmerged() as engine:
                    damaged = await in_thread(self._merge, engine, names)
                if damaged:
                    async with self._unmerged() as engine:
                        self.keep_files()
                        await in_thread(engine.replace, damaged)
        except StoreCorrupted:
            return await in_thread(self.open)  # which moves it aside
        return await self._unlocked(self.open)

    @asynccontextmanager
    async def _unmerged(self) -> "AsyncIterator[RocksEngine]":
        """Have the database open for the length of the block, and merge nothing by itself."""
        from ._rocks import RocksEngine

        rocks = self.directory / ROCKS_DIRECTORY
        engine = await self._unlocked(partial(RocksEngine, rocks, compacts=False))
        try:
            yield engine
        finally:
            with suppress(OSError):  # the next opening says what is wrong
                await trio.to_thread.run_sync(engine.close)

    def _is_unreadable(self, name: str, table: Table) -> bool:
        """In a thread, as ``why_unreadable``."""
        why = why_unreadable(table)
        if why:
            LOGGER.error("the rows of namespace %s cannot be read: %s", name, why)
        return bool(why)

    def _merge(self, engine: "RocksEngine", names: set[str]) -> str:
        """Merge tables in a thread, which leave ``names``; returns the first that cannot be merged,
        empty if there is none."""
        from ._rocks_options import merges

        while names:
            name = min(names)
            names.remove(name)
            if not merges(engine.database, engine.tables()[name].family):
                LOGGER.error("the rows of namespace %s cannot be merged: a file is damaged", name)
                return name
        return ""

    async def _unlocked(self, open_it: Callable[[], _T]) -> _T:
        """Open a database in a thread; one that readers in this process still hold soon is free."""
        for look in range(LOOKS_MAX):
            try:
                return await trio.to_thread.run_sync(open_it)
            except StoreLocked:
                if look == LOOKS_MAX - 1:
                    raise
            gc.collect()  # iterators and snapshots that nobody reads keep it open
            await trio.sleep(LOOK_S)
        raise AssertionError

    def keep_files(self) -> None:
        """Keep the files of the database beside it, as they are now, as links where possible."""
        if not self.is_slow:
            return
        from ...rocks import keep_files

        rocks = self.directory / ROCKS_DIRECTORY
        try:
            target = keep_files(rocks, self._clock_ms())
        except OSError as error:
            LOGGER.error("the files of %s cannot be kept beside it: %s", rocks, error)
        else:
            LOGGER.warning("the files of %s are kept in %s: remove them once", rocks, target)

    def _open_rocks(self, directory: Path) -> Engine:
        try:
            from ...rocks import move_aside
            from ._rocks import RocksEngine
        except ImportError as error:
            raise ConfigInvalid(
                f"kvEngine is rocksdb, which needs what lanemq[server] installs: {error}"
            ) from error
        self._files.make_directory(directory)
        try:
            return RocksEngine(directory)
        except StoreCorrupted as error:
            target = move_aside(directory, self._clock_ms())
            LOGGER.error("%s: its files are now in %s; keys are made again", error, target)
            if target is not None:
                self._salvage(target, directory)
            return RocksEngine(directory)

    def _salvage(self, source: Path, directory: Path) -> None:
        """Take over the partitions that are whole; where that fails, none."""
        from ...rocks import remove_files
        from ._salvage import salvage

        try:
            salvage(source, directory)
        except (OSError, StoreError) as error:
            LOGGER.error("nothing of %s can be kept: %s", source, error)
            remove_files(directory)

    def _open_memory(self) -> Engine:
        try:
            return MemoryEngine(self._files, self.directory)
        except StoreCorrupted as error:
            target = move_file_aside(self._files, self.directory, self._clock_ms())
            LOGGER.error("%s: it is now %s; keys are made again", error, target)
            return MemoryEngine(self._files, self.directory)


def why_unreadable(table: Table) -> str:
    """Read all rows of a table, in a thread; returns why one cannot be read, empty if all can.

    RocksDB compares the checksum of each block.
    """
    try:
        for count, _ in enumerate(table.items(_FIRST, _LAST)):
            if not count % ROWS_A_TURN:
                time.sleep(0)
    except OSError as error:
        return error.strerror or str(error)
    return ""
