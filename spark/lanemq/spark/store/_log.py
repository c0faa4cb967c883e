"""One file of a log, as records and damage are looked for in it."""

from collections.abc import Iterator
from typing import Final, NamedTuple, final

from ._files import Buffer, StoreFiles

NAME_DIGITS: Final = 20


class Piece(NamedTuple):
    """A file of a sequence: the position of its first byte, its size in bytes."""

    start: int
    size_bytes: int

    @property
    def end(self) -> int:
        return self.start + self.size_bytes

    @property
    def name(self) -> str:
        return f"{self.start:0{NAME_DIGITS}d}"


def find_pieces(files: StoreFiles, directory: str) -> list[Piece]:
    """Find the files of a sequence, in order; empty ones hold nothing."""
    return [
        Piece(int(name), size)
        for name, is_directory, size in files.entries(directory)
        if not is_directory and size and len(name) == NAME_DIGITS and name.isdigit()
    ]


@final
class LogFile:
    """A log of one file. Positions count bytes of the whole log."""

    def __init__(self, files: StoreFiles, path: str, piece: Piece) -> None:
        self.shown = files.shown(path)
        self.start = piece.start
        self.starts = (piece.start,)
        self.capacity_end = piece.end
        self._file = files.open(path)

    def start_of(self, _position: int) -> int:
        return self.start

    def end_of(self, _position: int) -> int:
        return self.capacity_end

    def window(self, position: int, size_bytes: int) -> Buffer:
        """Return bytes from ``position`` on, without a copy if possible."""
        return self._file.read(position - self.start, size_bytes)

    def read(self, position: int, size_bytes: int) -> bytes:
        """Return bytes from ``position`` on; fewer where the file ends."""
        return bytes(self._file.read(position - self.start, size_bytes))

    def data(
        self, begin: int, end: int, *, chunk_bytes: int = 1 << 20
    ) -> Iterator[tuple[int, bytes]]:
        """Iterate over positions and bytes of what is not zero, each without zeros at its end."""
        position, end = begin, min(end, self.capacity_end)
        while position < end:
            found = self._file.next_data(position - self.start)
            if found < 0 or self.start + found >= end:
                return
            position = self.start + found
            data = self.read(position, min(chunk_bytes, end - position))
            if not data:
                return
            if used := data.rstrip(b"\0"):
                yield position, used
            position += len(data)

    def close(self) -> None:
        self._file.close()
