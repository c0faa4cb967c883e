"""A disk in memory for a store, for as long as its test runs.

Files take the memory of what was written to them; the zeros that a new file consists of take
none. One store uses it, from one thread.
"""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

import trio
from attrs import define, field

from lanemq.storage import Entry, StoreLocked, Usage

DISK_BYTES = 1 << 40
"""The pretended size of the disk, so large that no store ever finds it full."""


@define(eq=False, repr=False)
class _Content:
    size_bytes: int
    modified_s: float
    data: bytearray = field(init=False, factory=bytearray)


@final
@define(eq=False, repr=False)
class MemoryFile:
    """One open file in memory; see ``lanemq.storage.File``."""

    path: Path
    _content: _Content
    _now_s: Callable[[], float]

    def read(self, position: int, size_bytes: int) -> bytes:
        content = self._content
        size_bytes = max(0, min(size_bytes, content.size_bytes - position))
        return bytes(content.data[position : position + size_bytes]).ljust(size_bytes, b"\0")

    def write(self, position: int, data: bytes | bytearray) -> None:
        content = self._content
        content.data.extend(bytes(max(0, position - len(content.data))))
        content.data[position : position + len(data)] = data
        content.size_bytes = max(content.size_bytes, len(content.data))
        content.modified_s = self._now_s()

    def erase(self, position: int) -> None:
        del self._content.data[position:]

    def next_data(self, position: int) -> int:
        rest = self._content.data[position:]
        zeros = len(rest) - len(rest.lstrip(b"\0"))
        return position + zeros if zeros < len(rest) else -1

    async def sync(self) -> None:
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Do nothing: the file holds nothing open."""


@final
@define(eq=False, repr=False)
class _Lock:
    _locked: set[Path]
    _path: Path

    def release(self) -> None:
        self._locked.discard(self._path)


@final
class MemoryFiles:
    """Directories and files; see ``lanemq.storage.Files``. ``now_s`` is the clock of file times."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._contents: dict[Path, _Content] = {}
        self._directories: set[Path] = set()
        self._locked: set[Path] = set()

    def open(self, path: Path) -> MemoryFile:
        return MemoryFile(path, self._existing(path), self._now_s)

    def create(self, path: Path, size_bytes: int) -> MemoryFile:
        if path in self._contents:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self.make_directory(path.parent)
        content = self._contents[path] = _Content(size_bytes, self._now_s())
        return MemoryFile(path, content, self._now_s)

    def entries(self, directory: Path) -> list[Entry]:
        files = [
            Entry(path.name, False, content.size_bytes)
            for path, content in self._contents.items()
            if path.parent == directory
        ]
        folders = [
            Entry(path.name, True, 0) for path in self._directories if path.parent == directory
        ]
        return sorted(files + folders)

    def exists(self, path: Path) -> bool:
        return path in self._contents or path in self._directories

    def read_all(self, path: Path) -> bytes | None:
        content = self._contents.get(path)
        if content is None:
            return None
        return bytes(content.data).ljust(content.size_bytes, b"\0")

    async def write_parts(self, path: Path, parts: Sequence[bytes]) -> None:
        await trio.lowlevel.checkpoint()
        self.write_all(path, b"".join(parts))
        await trio.lowlevel.checkpoint()

    def write_all(self, path: Path, data: bytes) -> None:
        self.make_directory(path.parent)
        content = self._contents.setdefault(path, _Content(0, 0.0))
        content.data[:] = data
        content.size_bytes, content.modified_s = len(data), self._now_s()

    def make_directory(self, path: Path) -> None:
        while path != path.parent and path not in self._directories:
            self._directories.add(path)
            path = path.parent

    def remove(self, path: Path) -> None:
        if path not in self._directories:
            self._existing(path)
            del self._contents[path]
        elif self.entries(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        else:
            self._directories.discard(path)

    def move(self, source: Path, target: Path) -> None:
        def moved(path: Path) -> Path:
            return target / path.relative_to(source) if path.is_relative_to(source) else path

        if source not in self._directories:
            self._existing(source)
        self.make_directory(target.parent)
        self._directories = {moved(path) for path in self._directories}
        # Entries at the target come first, so that the source replaces them.
        files = sorted(self._contents.items(), key=lambda item: item[0].is_relative_to(source))
        self._contents = {moved(path): content for path, content in files}

    def link(self, source: Path, target: Path) -> None:
        self._contents[target] = self._existing(source)

    def modified_s(self, path: Path) -> float:
        return self._existing(path).modified_s

    def usage(self, path: Path) -> Usage:
        return Usage(DISK_BYTES, 0)

    async def sync_path(self, path: Path) -> None:
        await trio.lowlevel.checkpoint()

    def lock(self, path: Path, root: Path) -> _Lock:
        if path in self._locked:
            raise StoreLocked(root)
        self.write_all(path, b"lock")
        self._locked.add(path)
        return _Lock(self._locked, path)

    def _existing(self, path: Path) -> _Content:
        content = self._contents.get(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return content
