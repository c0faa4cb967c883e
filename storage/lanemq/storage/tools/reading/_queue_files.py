"""Consume queues in files, for reading only: queue offset (counts messages) -> unit."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import final

from ..._layouts import BLANK_SIZE, UNIT_BYTES, Unit, iter_units, unpack_unit
from ..._search import first_kept, first_offset
from ._pieces import Pieces, find_pieces

SEARCHED_FILES = 3
CHUNK_UNITS = 4096


@final
class QueueFiles:
    """A queue in files. Offsets count messages."""

    def __init__(self, topic: str, queue_id: int, pieces: Pieces) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.pieces = pieces

    @property
    def begin(self) -> int:
        """Offset of the first unit in a file; its message may be gone."""
        return self.pieces.begin // UNIT_BYTES

    @property
    def per_file(self) -> int:
        return self.pieces.file_bytes // UNIT_BYTES

    def read(self, offset: int, count: int) -> bytes:
        """Read whole units from ``offset`` on, as bytes; fewer where the files end."""
        data = self.pieces.read(offset * UNIT_BYTES, count * UNIT_BYTES)
        return data[: len(data) // UNIT_BYTES * UNIT_BYTES]

    def unit(self, offset: int) -> Unit | None:
        data = self.read(offset, 1)
        return Unit(*unpack_unit(data, 0)) if data else None

    def units(self, begin: int, end: int) -> Iterator[tuple[int, Unit]]:
        """Iterate over offsets and units of a range, where there are files for it."""
        offset = begin
        while offset < end:
            data = self.read(offset, min(CHUNK_UNITS, end - offset))
            if not data:
                return
            for fields in iter_units(data):
                yield offset, Unit(*fields)
                offset += 1

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Iterate over all units in runs: the offset of the first, and their bytes."""
        end = self.written_end()
        for start in self.pieces.starts:
            offset, stop = start // UNIT_BYTES, start // UNIT_BYTES + self.per_file
            while offset < min(stop, end):
                data = self.read(offset, min(CHUNK_UNITS, stop - offset, end - offset))
                if not data:
                    break
                yield offset, data
                offset += len(data) // UNIT_BYTES

    def written_end(self) -> int:
        """Return the offset behind the last unit with a byte that is not zero."""
        return -(-self.pieces.written_end() // UNIT_BYTES)

    def end(self) -> int:
        """Return the offset behind the last unit, as a broker finds it after a clean stop.

        That is the first unit of the last three files that is not valid.
        Source: RocketMQ 4.9.8, ConsumeQueue.recover.
        """

        def is_invalid(offset: int) -> bool:
            unit = self.unit(offset)
            return unit is None or unit.log_position < 0 or unit.size_bytes <= 0

        end = self.begin
        for start in self.pieces.starts[-SEARCHED_FILES:]:
            first = start // UNIT_BYTES
            end = first_offset(first, first + self.per_file, is_invalid)
            if end < first + self.per_file:
                break
        return end

    def first_from(self, log_position: int, end: int) -> int:
        """Return the offset of the first message at or behind a position of the log; ``end`` for
        none."""
        low = self.begin
        first = self.unit(low) if low < end else None
        if first and log_position <= first.log_position and 0 < first.size_bytes != BLANK_SIZE:
            return low
        return first_kept(log_position, low, end, self._row_from)

    def _row_from(self, offset: int, end: int) -> tuple[int, int] | None:
        for at, unit in self.units(offset, end):
            if unit.size_bytes != BLANK_SIZE:
                return at, unit.log_position
        return None

    def close(self) -> None:
        self.pieces.close()


def queue_directories(consume_queue: Path) -> Iterator[tuple[str, int, Path]]:
    """Iterate over topic, queue id and directory of every queue below ``consumequeue``, by name.

    Other files are passed over: a RocksDB may lie in the same directory.
    """
    for topic in _directories(consume_queue):
        names = [
            name
            for name in _directories(consume_queue / topic)
            if name.isascii() and name.isdigit()
        ]
        for name in sorted(names, key=int):
            yield topic, int(name), consume_queue / topic / name


def _directories(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def open_queue(topic: str, queue_id: int, directory: Path, file_bytes: int) -> QueueFiles:
    return QueueFiles(topic, queue_id, Pieces(directory, find_pieces(directory), file_bytes))
