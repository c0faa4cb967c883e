"""One long sequence of bytes, kept in files of equal size.

A file is named by the position of its first byte, in 20 digits, and has its full size from the
start; what was not written reads as zeros. Source: RocketMQ 4.9.8, MappedFileQueue.
"""

from bisect import bisect_right
from pathlib import Path
from typing import Protocol, final

from lanemq.local import get_logger

from .._errors import StoreCorrupted
from ..disk._files import Entry, File

LOGGER = get_logger(__name__)
NAME_DIGITS = 20


def segment_name(start: int) -> str:
    return f"{start:0{NAME_DIGITS}d}"


def is_segment_name(name: str) -> bool:
    return len(name) == NAME_DIGITS and name.isascii() and name.isdigit()


class SegmentFiles(Protocol):
    """The part of a disk that segments need; meanings as in ``Files``."""

    def open(self, path: Path) -> File: ...

    def create(self, path: Path, size_bytes: int) -> File: ...

    def entries(self, directory: Path) -> list[Entry]: ...

    def remove(self, path: Path) -> None: ...

    async def sync_path(self, path: Path) -> None: ...


@final
class SegmentFile:
    """One of the files; ``start`` is the position of its first byte."""

    __slots__ = ("dirty", "file", "start")

    def __init__(self, start: int, file: File) -> None:
        self.start = start
        self.file = file
        self.dirty = False


@final
class Segments:
    """The files of one sequence. The end of the written part is known to the user of this class."""

    def __init__(
        self, files: SegmentFiles, directory: Path, file_bytes: int, *, setting: str = ""
    ) -> None:
        """Take the files' size; ``setting`` is the users' name of ``file_bytes``."""
        self._files = files
        self._setting = setting or "the size"
        self.directory = directory
        self.file_bytes = file_bytes
        self._starts: list[int] = []
        self._segments: list[SegmentFile] = []
        self._names_dirty = False
        self._directory_is_new = False
        self._closed = False

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def starts(self) -> tuple[int, ...]:
        return tuple(self._starts)

    @property
    def begin(self) -> int:
        """First position that has a file; 0 where there is none."""
        return self._starts[0] if self._starts else 0

    @property
    def capacity_end(self) -> int:
        """Position behind the last file; 0 where there is none."""
        return self._starts[-1] + self.file_bytes if self._starts else 0

    def load(self) -> None:
        """Find the files. Names that are not positions are left alone.

        An empty last file is what a crash leaves between making a file and giving it its size:
        it is removed, and a last file that is too short behind a whole one is filled up.
        Raises ``StoreCorrupted`` for any other size.
        """
        found = [
            (int(entry.name), entry.size_bytes)
            for entry in self._files.entries(self.directory)
            if not entry.is_directory and is_segment_name(entry.name)
        ]
        if found and found[-1][1] == 0:
            path = self._path(found.pop()[0])
            LOGGER.warning("%s is empty: removed, a crash interrupted its creation", path)
            self._files.remove(path)
        for index, (start, size_bytes) in enumerate(found):
            path = self._path(start)
            if size_bytes != self.file_bytes:
                if size_bytes > self.file_bytes or index == 0 or index + 1 < len(found):
                    raise StoreCorrupted(
                        path,
                        f"has {size_bytes} bytes where {self._setting}={self.file_bytes} says how"
                        f" large every file is; {self._way_on(found)}",
                    )
                LOGGER.warning("%s has only %d bytes: filled up with zeros", path, size_bytes)
                self._files.open(path).write(self.file_bytes - 1, b"\0")
            if self._starts and start != self.capacity_end:
                LOGGER.warning("%s: the file before it ends at %d", path, self.capacity_end)
            self._add(SegmentFile(start, self._files.open(path)))

    def _way_on(self, found: list[tuple[int, int]]) -> str:
        sizes = {size_bytes for _, size_bytes in found}
        if len(sizes) == 1:
            (size_bytes,) = sizes
            made = f"was the store made with {self._setting}={size_bytes}? Then say so"
            if len(found) > 1 or size_bytes > self.file_bytes:
                return made
            return (
                f"{made}. It is the only file there, so it may have been cut short as well: then"
                " put another copy in its place; files of queues and of the key index are made"
                " again by `repair_store`"
            )
        return "the files have several sizes: put another copy of this one in its place"

    def _path(self, start: int) -> Path:
        return self.directory / segment_name(start)

    def _add(self, segment: SegmentFile) -> None:
        self._starts.append(segment.start)
        self._segments.append(segment)

    def _find(self, position: int) -> SegmentFile | None:
        index = bisect_right(self._starts, position) - 1
        if index < 0 or position >= self._starts[index] + self.file_bytes:
            return None
        return self._segments[index]

    def has(self, position: int) -> bool:
        """Return whether there is a file with a position."""
        return self._find(position) is not None

    def start_of(self, position: int) -> int:
        """Return the start of the file of ``position``, which need not exist."""
        segment = self._find(position)
        if segment is not None:
            return segment.start
        base = self.capacity_end
        return base + (position - base) // self.file_bytes * self.file_bytes

    def end_of(self, position: int) -> int:
        """Return the end of the file of ``position``, which need not exist."""
        return self.start_of(position) + self.file_bytes

    def make(self, position: int) -> None:
        """Make the file of ``position``, behind all others, where there is none."""
        if self._find(position) is None:
            start = self.start_of(position)
            assert not self._starts or start > self._starts[-1]
            self._names_dirty = True
            self._directory_is_new |= not self._starts
            self._add(SegmentFile(start, self._files.create(self._path(start), self.file_bytes)))

    def write(self, position: int, data: bytes | bytearray) -> None:
        """Write ``data``, which may span files. Raises ``OSError``; a part may be written."""
        while True:
            segment = self._find(position)
            if segment is None:
                self.make(position)
                segment = self._find(position)
                assert segment is not None
            room = segment.start + self.file_bytes - position
            segment.dirty = True
            if len(data) <= room:
                segment.file.write(position - segment.start, data)
                return
            segment.file.write(position - segment.start, data[:room])
            position, data = position + room, data[room:]

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return bytes from ``position`` on; fewer where the files end."""
        segment = self._find(position)
        if segment is None:
            return b""
        room = segment.start + self.file_bytes - position
        if size_bytes <= room:
            return segment.file.read(position - segment.start, size_bytes)
        return segment.file.read(position - segment.start, room) + self.read(
            position + room, size_bytes - room
        )

    def erase(self, position: int) -> None:
        """Zero all bytes from ``position`` on, and remove the files that begin behind it.

        The last file stays, for its name keeps the place of the sequence.
        """
        while len(self._segments) > 1 and self._starts[-1] > position:
            self._remove(len(self._segments) - 1)
        if self._segments and position < self.capacity_end:
            last = self._segments[-1]
            last.dirty = True
            last.file.erase(max(0, position - last.start))

    def remove_behind(self, position: int) -> None:
        """Remove the unused files that begin at or behind ``position``."""
        while self._starts and self._starts[-1] >= position:
            self._remove(len(self._segments) - 1)

    def remove_oldest(self) -> None:
        """Remove the first file, which must not be the last."""
        assert len(self._segments) > 1
        self._remove(0)

    def _remove(self, index: int) -> None:
        path = self._segments[index].file.path
        self._files.remove(path)
        segment = self._segments.pop(index)
        segment.dirty = False
        segment.file.close()
        del self._starts[index]
        self._names_dirty = True

    def mark_dirty(self, position: int) -> None:
        """Make the next ``sync`` cover what an earlier process wrote from ``position`` on."""
        for segment in self._segments:
            segment.dirty |= segment.start + self.file_bytes > position

    def open_files(self) -> list[tuple[int, File]]:
        """Iterate over start and file, in order."""
        return [(segment.start, segment.file) for segment in self._segments]

    def path_of_oldest(self) -> Path:
        return self._segments[0].file.path

    async def sync(self) -> None:
        """Return once all bytes and names written before the call are durable."""
        try:
            await self._sync()
        except FileNotFoundError:
            if not self._closed:  # else the files were removed meanwhile
                raise

    async def _sync(self) -> None:
        if self._names_dirty:
            self._names_dirty = False
            try:
                await self._files.sync_path(self.directory)
                if self._directory_is_new:
                    await self._files.sync_path(self.directory.parent)
                    await self._files.sync_path(self.directory.parent.parent)
                    self._directory_is_new = False
            except BaseException:
                self._names_dirty = True
                raise
        for segment in list(self._segments):
            if not segment.dirty:  # perhaps removed while another was synced
                continue
            segment.dirty = False
            try:
                await segment.file.sync()
            except BaseException:
                segment.dirty = True
                raise

    def close(self) -> None:
        """Close the files; unsynced bytes are left to the operating system."""
        self._closed = True
        self._names_dirty = False
        for segment in self._segments:
            segment.dirty = False
            segment.file.close()
