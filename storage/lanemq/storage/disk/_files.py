"""The seam between the store and the disk.

Everything the store does to a disk goes through ``Files`` and ``File``; ``RealFiles`` is the
operating system's, ``lanemq.testkit.storage.disk`` has one in memory that crashes and tears.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """One name in a directory."""

    name: str
    is_directory: bool
    size_bytes: int


class Usage(NamedTuple):
    """Use of the partition that a path lies on."""

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
        """Return bytes from a position on; fewer at the end of the file."""

    def write(self, position: int, data: bytes | bytearray) -> None:
        """Write all of ``data``. Raises ``OSError``; some of it may be written then."""

    def erase(self, position: int) -> None:
        """Zero every byte from ``position`` on, without changing the size even for a moment."""

    def next_data(self, position: int) -> int:
        """Return the first position from there on whose byte may not be zero; -1 for none."""

    async def sync(self) -> None:
        """Return once all that was written before the call survives a loss of power."""

    def close(self) -> None:
        """Close the file; unsynced bytes stay where they are."""


class Lock(Protocol):
    """A lock, held until it is released or the process ends."""

    def release(self) -> None: ...


class Files(Protocol):
    """Directories and files. All errors are ``OSError``, except those of ``lock``."""

    def open(self, path: Path) -> File: ...

    def create(self, path: Path, size_bytes: int) -> File:
        """Make a file of zeros that takes no space yet; missing directories are made."""

    def entries(self, directory: Path) -> list[Entry]:
        """Return the entries of a directory, sorted by name; none for what is not a directory."""

    def exists(self, path: Path) -> bool: ...

    def read_all(self, path: Path) -> bytes | None:
        """Return the content of a file; None where there is no file."""

    def write_all(self, path: Path, data: bytes) -> None:
        """Replace the content of a file, unsynced; missing directories are made."""

    async def write_parts(self, path: Path, parts: Sequence[bytes]) -> None:
        """Do ``write_all`` with all ``parts``, while the loop serves others."""

    def make_directory(self, path: Path) -> None: ...

    def remove(self, path: Path) -> None:
        """Remove one file, or one empty directory."""

    def move(self, source: Path, target: Path) -> None:
        """Move a file atomically; a file at ``target`` is replaced."""

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, or make a copy where the file system has no second names."""

    def modified_s(self, path: Path) -> float:
        """Return the Unix time of the last change in seconds."""

    def usage(self, path: Path) -> Usage: ...

    async def sync_path(self, path: Path) -> None:
        """Sync a file by name, or the names in a directory, as ``File.sync``."""

    def lock(self, path: Path, root: Path) -> Lock:
        """Lock byte 0 of the file, which is made if missing. Raises ``StoreLocked`` if it is
        held."""
