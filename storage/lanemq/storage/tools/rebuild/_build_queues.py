"""Rebuilding queue files from the records of the log."""

import os
from pathlib import Path
from typing import Final, final

from ..._layouts import BLANK_UNIT, UNIT_BYTES, pack_unit
from ...disk._real_files import sync_path
from ...log._segments import segment_name

RUN_BYTES: Final = 1 << 20


@final
class QueueBuilder:
    """A builder of one queue in a directory of its own. Offsets count messages."""

    def __init__(self, directory: Path, file_bytes: int) -> None:
        self._directory = directory
        self._file_bytes = file_bytes
        self.next: int | None = None
        """Offset for the next unit; None before the first."""
        self._first = 0
        self._position = 0  # byte of the queue that the buffer begins at
        self._buffer = bytearray()

    def begin_at(self, offset: int) -> None:
        """Begin the queue at ``offset``: its file has blanks up to there."""
        self._remove_files()
        self._position = offset * UNIT_BYTES // self._file_bytes * self._file_bytes
        self._buffer = bytearray(BLANK_UNIT * (offset - self._position // UNIT_BYTES))
        self.next = self._first = offset

    def _go_back(self, offset: int) -> None:
        """Drop the units from ``offset`` on, which must exist."""
        self.flush()
        self._position = offset * UNIT_BYTES
        start = self._position // self._file_bytes * self._file_bytes
        for path in self._directory.iterdir():
            if int(path.name) > start:
                path.unlink()
            elif int(path.name) == start:
                os.truncate(path, self._position - start)  # the next write makes it long again
        self.next = offset

    def add(self, offset: int, log_position: int, size_bytes: int, tags_code: int) -> None:
        """Add the unit of the next message; blanks take the place of those that are gone.

        An offset that goes back is one handed out again, or that of a topic that was made anew:
        the queue goes on there, and what was from there on does not count.
        """
        if self.next is None or offset <= self._first:
            self.begin_at(offset)
        elif offset < self.next:
            self._go_back(offset)
        assert self.next is not None
        if offset > self.next:
            self._buffer += BLANK_UNIT * (offset - self.next)
        self._buffer += pack_unit(log_position, size_bytes, tags_code)
        self.next = offset + 1
        if len(self._buffer) >= RUN_BYTES:
            self.flush()

    def add_blank(self) -> None:
        """Add a unit for a message that is gone."""
        assert self.next is not None
        self._buffer += BLANK_UNIT
        self.next += 1

    @property
    def buffered_bytes(self) -> int:
        return len(self._buffer)

    def flush(self) -> None:
        """Write what is buffered, unsynced. Raises ``OSError``."""
        self._directory.mkdir(parents=True, exist_ok=True)
        data = memoryview(self._buffer)
        while data:
            start = self._position // self._file_bytes * self._file_bytes
            room = start + self._file_bytes - self._position
            self._write(start, self._position - start, data[:room])
            self._position += min(room, len(data))
            data = data[room:]
        data.release()
        self._buffer = bytearray()

    def finish(self) -> list[Path]:
        """Write the rest, durably; returns the files."""
        self.flush()
        if not any(self._directory.iterdir()):  # its name keeps the place of the queue
            self._write(self._position, 0, b"")
        paths = sorted(self._directory.iterdir())
        for path in (*paths, self._directory):
            sync_path(path)
        return paths

    def _write(self, start: int, at: int, data: "bytes | memoryview") -> None:
        path = self._directory / segment_name(start)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(descriptor).st_size < self._file_bytes:
                os.ftruncate(descriptor, self._file_bytes)
            while data:
                written = os.pwrite(descriptor, data, at)
                at, data = at + written, data[written:]
        finally:
            os.close(descriptor)

    def _remove_files(self) -> None:
        if self._directory.exists():
            for path in self._directory.iterdir():
                path.unlink()
