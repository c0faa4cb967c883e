"""The newest bytes of the log, kept in memory for readers close behind the writer."""

from typing import final


@final
class TailCache:
    """A ring that remembers the last ``size_bytes`` of what was appended."""

    __slots__ = ("_begin", "_end", "_ring", "_size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._ring = bytearray(size_bytes)
        self._begin = 0
        self._end = 0

    def append(self, position: int, data: bytes) -> None:
        """Remember bytes that were written at ``position``; a jump forgets what was before."""
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
        """The bytes, or None where not all of them are remembered."""
        if position < self._begin or position + size_bytes > self._end:
            return None
        at = position % self._size_bytes
        end = at + size_bytes
        if end <= self._size_bytes:
            return bytes(self._ring[at:end])
        return bytes(self._ring[at:]) + bytes(self._ring[: end - self._size_bytes])
