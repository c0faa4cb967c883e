"""The newest bytes of the log, kept in memory for readers close behind the writer."""

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import final


@final
class TailCache:
    """A ring that remembers the last ``size_bytes`` of what was appended."""

    __slots__ = ("_begin", "_end", "_ring", "_size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        # Costs memory, and time to clear it, only as far as the ring was used.
        self._ring = mmap(-1, size_bytes, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        self._begin = 0
        self._end = 0

    def append(self, position: int, data: bytes) -> None:
        """Remember bytes written at ``position``; a jump forgets everything before."""
        if position != self._end:
            self._begin = position
        size = self._size_bytes
        if len(data) > size:
            position += len(data) - size
            data = data[-size:]
        self._end = end = position + len(data)
        at = position % size
        room = size - at
        if len(data) <= room:
            self._ring[at : at + len(data)] = data
        else:
            self._ring[at:] = data[:room]
            self._ring[: len(data) - room] = data[room:]
        if self._begin < end - size:
            self._begin = end - size

    def read(self, position: int, size_bytes: int) -> bytes | None:
        """Return the bytes, or None where not all of them are remembered."""
        if position < self._begin or position + size_bytes > self._end:
            return None
        at = position % self._size_bytes
        end = at + size_bytes
        if end <= self._size_bytes:
            return self._ring[at:end]
        return self._ring[at:] + self._ring[: end - self._size_bytes]
