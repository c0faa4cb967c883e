"""The files of the operating system; see ``Files``."""

import errno
import fcntl
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import ClassVar, Final, final

import trio

from lanemq.local import (
    FILE_MODE,
    copy_file,
    create_file,
    create_temporary,
    make_directories,
    sync_path,
)

from .._errors import StoreLocked, is_exhausted
from ._files import Entry, File, Usage
from ._threads import in_thread

MAX_OPEN_FILES = 400
PARTS_AT_ONCE: Final = 256
"""Parts of a file that are written together: not one call each, nor a copy of the whole file."""
ERASE_BYTES = 1 << 16
GIVEN_UP_FILES = 8
"""Number of files that are closed where the process has no descriptor left."""
FLOCK: Final = Struct("hhqqi4x")
"""Type, whence, start, length, process. Source: fcntl_locking(2), of Linux with 64 bits."""


def erase(file: File, position: int) -> None:
    """Zero the bytes of a file from ``position`` on, as ``File.erase`` says; zeros are not written
    again. Raises ``OSError``."""
    # To cut the file off and make it long again would be quicker. A kill between the two
    # would leave a file of a wrong size, which no start takes for one of ours.
    while (position := file.next_data(position)) >= 0:
        data = file.read(position, ERASE_BYTES)
        if not data:
            return
        if data.count(0) < len(data):
            file.write(position, bytes(len(data)))
        position += len(data)


@final
class RealFile:
    """A file that is opened on use, since the number of open files is limited."""

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
            self.descriptor = self._files.open_descriptor(self.path)
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
        erase(self, position)

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
            await in_thread(os.fdatasync, descriptor)
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
        """Close files not used since the last call, until there is room for one more."""
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

    def open_descriptor(self, path: Path) -> int:
        """Open a file for reading and writing; where no descriptor is left, others are closed for
        it."""
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            if not is_exhausted(error):
                raise
            for idle in [one for one in self.opened if not one.in_use][:GIVEN_UP_FILES]:
                idle.close()
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def open(self, path: Path) -> RealFile:
        return RealFile(self, path)

    def create(self, path: Path, size_bytes: int) -> RealFile:
        make_directories(path.parent)
        with create_file(path) as made:
            try:
                os.ftruncate(made.fileno(), size_bytes)
            except OSError:
                path.unlink()
                raise
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
        _write_parts(path, [data])

    async def write_parts(self, path: Path, parts: Sequence[bytes]) -> None:
        await trio.to_thread.run_sync(_write_parts, path, parts)

    def make_directory(self, path: Path) -> None:
        make_directories(path)

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
            copy_file(source, target)

    def modified_s(self, path: Path) -> float:
        return path.stat().st_mtime

    def usage(self, path: Path) -> Usage:
        found = os.statvfs(path)
        total = found.f_blocks * found.f_frsize
        # Space for the superuser alone is not free for anyone else; df counts it so, too.
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        available = found.f_bavail * found.f_frsize
        return Usage(used + available or total, used)

    async def sync_path(self, path: Path) -> None:
        await trio.to_thread.run_sync(sync_path, path)

    def lock(self, path: Path, root: Path) -> RealLock:
        make_directories(path.parent)
        if not path.exists():
            path.touch(FILE_MODE)
        status = path.stat()
        key = (status.st_dev, status.st_ino)
        # To close any descriptor of a file gives up this process's locks on it: look first.
        if key in self.locked:
            raise StoreLocked(root)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            holder = lock_holder(descriptor)
            os.close(descriptor)
            raise StoreLocked(root, holder=holder) from error
        # The reference's text; written here, for closing a second descriptor gives up the lock.
        try:
            os.pwrite(descriptor, b"lock", 0)
        except OSError:
            os.close(descriptor)
            raise
        self.locked.add(key)
        return RealLock(descriptor, key)


def lock_holder(descriptor: int) -> int | None:
    """Return the process that holds another one's lock on the first byte of a file.

    None where that is not to be known: gone by now, in another container, on another host, or not
    on Linux.
    """
    if sys.platform != "linux":
        return None
    asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    try:
        kind, *_, holder = FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    except OSError:
        return None
    return holder if kind != fcntl.F_UNLCK and holder > 0 else None


def _write_parts(path: Path, parts: Sequence[bytes]) -> None:
    make_directories(path.parent)
    with create_temporary(path) as opened:
        for first in range(0, len(parts), PARTS_AT_ONCE):
            opened.write(b"".join(parts[first : first + PARTS_AT_ONCE]))
