"""Opening the engine of a store's keys, for the first time or again."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from ..._config import KvEngine, StoreConfig
from ..._errors import ConfigInvalid, StartRefused, StoreCorrupted
from ...disk._files import Files
from ...disk._real_files import RealFiles
from ._engine import Engine
from ._memory import FILE_NAME, MemoryEngine, move_file_aside

LOGGER = logging.getLogger(__name__)
DIRECTORY: Final = "kv"
ROCKS_DIRECTORY: Final = "rocksdb"


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
        """Open the engine; one that cannot be read is moved aside and made anew.

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
            LOGGER.error("%s: its files are now in %s; keys are made anew", error, target)
            return RocksEngine(directory)

    def _open_memory(self) -> Engine:
        try:
            return MemoryEngine(self._files, self.directory)
        except StoreCorrupted as error:
            target = move_file_aside(self._files, self.directory, self._clock_ms())
            LOGGER.error("%s: it is now %s; keys are made anew", error, target)
            return MemoryEngine(self._files, self.directory)
