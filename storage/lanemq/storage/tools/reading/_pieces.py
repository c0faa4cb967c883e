"""The files of one sequence of bytes, for reading only.

``Segments`` is for the store, which fixes what a crash left; nothing here writes, not even on
a file system that would let it.
"""

import errno
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, final

from ...disk._zeros import without_zeros
from ...log._segments import is_segment_name, segment_name


class Piece(NamedTuple):
    """One file: the position of its first byte, its length, and what it takes on the disk."""

    start: int
    size_bytes: int
    disk_bytes: int


def find_pieces(directory: Path) -> tuple[Piece, ...]:
    """Find the files of a sequence, in order; none where there is no such directory."""
    try:
        with os.scandir(directory) as entries:
            found = [
                Piece(int(entry.name), status.st_size, status.st_blocks * 512)
                for entry in entries
                if is_segment_name(entry.name) and entry.is_file()
                for status in (entry.stat(),)
            ]
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(sorted(found))


def likely_file_bytes(sequences: Iterable[tuple[Piece, ...]], default: int) -> int:
    """Return the most frequent file size, since a store does not say which one it was made with."""
    sizes = Counter(piece.size_bytes for pieces in sequences for piece in pieces)
    sizes.pop(0, None)
    return sizes.most_common(1)[0][0] if sizes else default


@final
class Pieces:
    """A reader across the files. It can be sent to another process, and keeps one file open at a
    time."""

    def __init__(self, directory: Path, pieces: tuple[Piece, ...], file_bytes: int) -> None:
        self.directory = directory
        self.pieces = pieces
        self.file_bytes = file_bytes
        self.starts = tuple(piece.start for piece in pieces)
        self._open_number = -1
        self._descriptor = -1

    def __reduce__(self) -> tuple[type["Pieces"], tuple[Path, tuple[Piece, ...], int]]:
        return Pieces, (self.directory, self.pieces, self.file_bytes)

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def begin(self) -> int:
        """First position that has a file; 0 where there is none."""
        return self.starts[0] if self.starts else 0

    @property
    def capacity_end(self) -> int:
        """Position behind the last file; 0 where there is none."""
        return self.starts[-1] + self.file_bytes if self.starts else 0

    def path_of(self, position: int) -> Path:
        """Return the file of a position, which need not exist."""
        return self.directory / segment_name(self.start_of(position))

    def _number(self, position: int) -> int:
        number = bisect_right(self.starts, position) - 1
        if number < 0 or position >= self.starts[number] + self.file_bytes:
            return -1
        return number

    def start_of(self, position: int) -> int:
        """Return the start of the file of ``position``, which need not exist."""
        number = self._number(position)
        if number >= 0:
            return self.starts[number]
        base = self.capacity_end
        return base + (position - base) // self.file_bytes * self.file_bytes

    def end_of(self, position: int) -> int:
        """Return the end of the file of ``position``, which need not exist."""
        return self.start_of(position) + self.file_bytes

    def _file(self, number: int) -> int:
        if number != self._open_number:
            self.close()
            path = self.directory / segment_name(self.starts[number])
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            self._open_number = number
        return self._descriptor

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return bytes from ``position`` on; fewer where a file is missing or too short."""
        parts = []
        while size_bytes > 0 and (number := self._number(position)) >= 0:
            room = self.starts[number] + self.file_bytes - position
            wanted = min(room, size_bytes)
            part = os.pread(self._file(number), wanted, position - self.starts[number])
            parts.append(part)
            if len(part) < wanted:
                break
            position += wanted
            size_bytes -= wanted
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def data(
        self, begin: int, end: int, *, chunk_bytes: int = 1 << 20
    ) -> Iterator[tuple[int, bytes]]:
        """Iterate over positions and bytes of non-zero data, in order; holes of the files cost
        nothing.

        A chunk comes without the zeros at its end, but may have some inside.
        """
        position = begin
        while position < end:
            number = self._number(position)
            if number < 0:
                following = bisect_right(self.starts, position)
                if following == len(self.starts):
                    return
                position = self.starts[following]
                continue
            start = self.starts[number]
            file_end = start + self.file_bytes
            found = start + self._next_data(number, position - start)
            if found < start or found >= min(end, file_end):
                position = file_end
                continue
            data = self.read(found, min(chunk_bytes, end - found, file_end - found))
            position = found + len(data) if data else file_end
            used = without_zeros(data)
            if used:
                yield found, used

    def _next_data(self, number: int, at: int) -> int:
        try:
            return os.lseek(self._file(number), at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # zeros to the end, or no such byte
                return -1
            raise

    def written_end(self) -> int:
        """Return the position behind the last byte that is not zero; ``begin`` without any."""
        for start in reversed(self.starts):
            end = -1
            for position, used in self.data(start, start + self.file_bytes):
                end = position + len(used)
            if end >= 0:
                return end
        return self.begin

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = self._open_number = -1
