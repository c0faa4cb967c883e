"""The seam between the store and the disk.

Everything the store does to a disk goes through ``Files`` and ``File``; ``RealFiles`` is the
operating system's, ``lanemq.storage.testing`` has one in memory that crashes and tears.
"""

import errno
import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol, final

import trio

from ._errors import StoreLocked

MAX_OPEN_FILES = 400
ERASE_BYTES = 1 << 16


class Entry(NamedTuple):
    """One name in a directory."""

    name: str
    is_directory: bool
    size_bytes: int


class Usage(NamedTuple):
    """The partition a path lies on."""

    total_bytes: int
    used_bytes: int

    @property
    def ratio(self) -> float:
        """Used share, 0 to 1."""
        return self.used_bytes / self.total_bytes if self.total_bytes else 0.0


class File(Protocol):
    """One open file of fixed size. Positions and sizes count bytes. Only ``sync`` waits."""

    @property
    def path(self) -> Path: ...

    def read(self, position: int, size_bytes: int) -> bytes:
        """Fewer bytes at the end of the file."""

    def write(self, position: int, data: bytes | bytearray) -> None:
        """All of ``data`` or ``OSError``; after an error some of it may be there."""

    def erase(self, position: int) -> None:
        """Make every byte from ``position`` on zero; the size never changes, not for a moment."""

    def next_data(self, position: int) -> int:
        """First position from there on whose byte may not be zero; -1 for none."""

    async def sync(self) -> None:
        """Return once all that was written before the call survives a loss of power."""

    def close(self) -> None:
        """Forget the file; unsynced bytes stay where they are."""


class Lock(Protocol):
    """Held until released or until the process ends."""

    def release(self) -> None: ...


class Files(Protocol):
    """Directories and files. All errors are ``OSError`` but for ``lock``'s."""

    def open(self, path: Path) -> File: ...

    def create(self, path: Path, size_bytes: int) -> File:
        """A new file of zeros, without using space; missing directories are made."""

    def entries(self, directory: Path) -> list[Entry]:
        """Sorted by name; empty for what is not a directory."""

    def exists(self, path: Path) -> bool: ...

    def read_all(self, path: Path) -> bytes | None:
        """None where there is no file."""

    def write_all(self, path: Path, data: bytes) -> None:
        """Replace the content, unsynced; missing directories are made."""

    def make_directory(self, path: Path) -> None: ...

    def remove(self, path: Path) -> None:
        """One file, or one empty directory."""

    def move(self, source: Path, target: Path) -> None:
        """Atomic; replaces a file at ``target``."""

    def link(self, source: Path, target: Path) -> None:
        """A second name, or a copy where the file system has no second names."""

    def modified_s(self, path: Path) -> float:
        """Unix time of the last change in seconds."""

    def usage(self, path: Path) -> Usage: ...

    async def sync_path(self, path: Path) -> None:
        """``File.sync`` for a file by name, or for the names in a directory."""

    def lock(self, path: Path, root: Path) -> Lock:
        """Lock byte 0 of the file, which is made. Raises ``StoreLocked`` if it is held."""


@final
class RealFile:
    """A file that is opened when it is used, for a process may have only so many open."""

    __slots__ = ("_closing", "_files", "_syncs", "descriptor", "path", "used")

    def __init__(self, files: "RealFiles", path: Path) -> None:
        self._files = files
        self.path = path
        self.descriptor = -1
        self.used = False
        self._syncs = 0
        self._closing = False

    @property
    def in_use(self) -> bool:
        return self._syncs > 0

    def _open(self) -> int:
        self.used = True
        if self.descriptor < 0:
            self._files.make_room()
            self.descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            self._files.opened[self] = None
        return self.descriptor

    def read(self, position: int, size_bytes: int) -> bytes:
        return os.pread(self._open(), size_bytes, position)

    def write(self, position: int, data: bytes | bytearray) -> None:
        descriptor = self._open()
        written = os.pwrite(descriptor, data, position)
        while written < len(data):  # a nearly full disk takes a part, and the rest gives the error
            written += os.pwrite(descriptor, memoryview(data)[written:], position + written)

    def erase(self, position: int) -> None:
        # To cut the file off and make it long again would be quicker. A kill between the two
        # would leave a file of a wrong size, which no start takes for one of ours.
        while (position := self.next_data(position)) >= 0:
            data = self.read(position, ERASE_BYTES)
            if not data:
                return
            if data.count(0) < len(data):
                self.write(position, bytes(len(data)))
            position += len(data)

    def next_data(self, position: int) -> int:
        try:
            return os.lseek(self._open(), position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # zeros to the end
                return -1
            raise

    async def sync(self) -> None:
        descriptor = self._open()
        self._syncs += 1
        try:
            await trio.to_thread.run_sync(os.fdatasync, descriptor)
        finally:
            self._syncs -= 1
            if self._closing:
                self.close()

    def close(self) -> None:
        if self._syncs:
            self._closing = True
        elif self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
            self._files.opened.pop(self, None)


@final
class RealLock:
    """An exclusive lock of the operating system on the first byte of a file."""

    def __init__(self, descriptor: int, key: tuple[int, int]) -> None:
        self._descriptor = descriptor
        self._key = key

    def release(self) -> None:
        RealFiles.locked.discard(self._key)
        os.close(self._descriptor)


@final
class RealFiles:
    """The operating system's files."""

    # POSIX record locks do not keep a process from itself: device and inode of what it holds.
    locked: ClassVar[set[tuple[int, int]]] = set()

    def __init__(self) -> None:
        self.opened: dict[RealFile, None] = {}

    def make_room(self) -> None:
        """Close files that were not used since the last look, until there is room for one."""
        for _ in range(2 * len(self.opened)):
            if len(self.opened) < MAX_OPEN_FILES:
                break
            oldest = next(iter(self.opened))
            del self.opened[oldest]
            if oldest.used or oldest.in_use:
                oldest.used = False
                self.opened[oldest] = None
            else:
                oldest.close()

    def open(self, path: Path) -> RealFile:
        return RealFile(self, path)

    def create(self, path: Path, size_bytes: int) -> RealFile:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, size_bytes)
        except OSError:
            path.unlink()
            raise
        finally:
            os.close(descriptor)
        return RealFile(self, path)

    def entries(self, directory: Path) -> list[Entry]:
        entries = []
        try:
            with os.scandir(directory) as found:
                for entry in found:
                    # A RocksDB in the directory may remove files of its own at any time.
                    with suppress(FileNotFoundError):
                        entries.append(Entry(entry.name, entry.is_dir(), entry.stat().st_size))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(entries)

    def exists(self, path: Path) -> bool:
        return path.exists()

    def read_all(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def write_all(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def remove(self, path: Path) -> None:
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()

    def move(self, source: Path, target: Path) -> None:
        source.replace(target)

    def link(self, source: Path, target: Path) -> None:
        with suppress(FileNotFoundError):
            target.unlink()
        try:
            target.hardlink_to(source)
        except OSError:  # some file systems have no second names
            shutil.copyfile(source, target)

    def modified_s(self, path: Path) -> float:
        return path.stat().st_mtime

    def usage(self, path: Path) -> Usage:
        found = os.statvfs(path)
        total = found.f_blocks * found.f_frsize
        # What only the superuser may use is not free for anyone else, as df counts it.
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        available = found.f_bavail * found.f_frsize
        return Usage(used + available or total, used)

    async def sync_path(self, path: Path) -> None:
        await trio.to_thread.run_sync(_sync_path, path)

    def lock(self, path: Path, root: Path) -> RealLock:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.touch()
        status = path.stat()
        key = (status.st_dev, status.st_ino)
        # To close any descriptor of a file gives up this process's locks on it: look first.
        if key in self.locked:
            raise StoreLocked(root)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            os.close(descriptor)
            raise StoreLocked(root) from error
        # The reference's text; written here, for closing a second descriptor gives up the lock.
        os.pwrite(descriptor, b"lock", 0)
        self.locked.add(key)
        return RealLock(descriptor, key)


def _sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
