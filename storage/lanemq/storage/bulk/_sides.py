"""What a conversion shares with whoever opens the store next: the lock, and what is known."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import final

import msgspec

from .._errors import StoreError
from .._files import RealFiles
from .._watermarks import RocksCover, WatermarkFile, Watermarks
from ..tools._errors import NotAStore
from ..tools._metadata import read_tables


@contextmanager
def locked(root: Path) -> Iterator[None]:
    """Hold the store's lock. Raises ``NotAStore``, and ``StoreLocked`` where it is in use."""
    if not root.is_dir():
        raise NotAStore(root, "there is no such directory")
    lock = RealFiles().lock(root / "lock", root)
    try:
        yield
    finally:
        lock.release()


def sync(path: Path) -> None:
    """Return once a file, or the names in a directory, survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@final
class KnownWatermarks:
    """``config/dispatchWatermark.json``, which only our own brokers write. Raises ``OSError``."""

    def __init__(self, root: Path) -> None:
        self._file = WatermarkFile(RealFiles(), root)
        self.found: Watermarks | None = self._file.load()
        """None for a store of another broker: the next start finds out by itself."""

    def set_rocksdb(self, cover: RocksCover | None) -> None:
        """Note durably what RocksDB has, or that nobody knows."""
        if self.found is not None:
            self._write(msgspec.structs.replace(self.found, rocksdb=cover))

    def set_files(self, log_position: int) -> None:
        """Note durably how far the queue files go."""
        if self.found is not None:
            self._write(msgspec.structs.replace(self.found, files=log_position))

    def _write(self, watermarks: Watermarks) -> None:
        self._file.write(watermarks)
        sync(self._file.path)
        sync(self._file.path.parent)
        self.found = watermarks


def known_topics(config: Path) -> set[str]:
    """The topics that exist, by either kind of tables; fewer where they cannot be read."""
    topics: set[str] = set()
    for from_rocksdb in (False, True):
        with suppress(StoreError, OSError):
            topics |= read_tables(config, from_rocksdb=from_rocksdb)["topics"].entries.keys()
    return topics
