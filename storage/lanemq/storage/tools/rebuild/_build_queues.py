"""Rebuilding queue files from the records of the log."""

from pathlib import Path
from typing import Final, final

from lanemq.local import sync_path

from ..._layouts import UNIT_BYTES
from ...derive._units import DerivedUnit
from ...disk._files import Files
from ...log._segments import Segments
from ...queues.files._consume_queue import FileConsumeQueue

RUN_BYTES: Final = 1 << 20


@final
class QueueBuilder:
    """A builder of one queue in a directory of its own. Offsets count messages."""

    def __init__(
        self, files: Files, directory: Path, topic: str, queue_id: int, file_bytes: int
    ) -> None:
        """Take the disk, and the directory that queues have theirs in."""
        self._directory = directory / topic / str(queue_id)
        self._segments = Segments(files, self._directory, file_bytes)
        self._queue = FileConsumeQueue(topic, queue_id, self._segments)
        self._first: int | None = None

    @property
    def next(self) -> int | None:
        """Offset for the next unit; None before the first."""
        return self._queue.end if self._first is not None else None

    def begin_at(self, offset: int) -> None:
        """Begin the queue at ``offset``: its file has blanks up to there."""
        self._queue.clear()
        self._queue.begin_at(offset)
        self._first = offset

    def add(self, unit: DerivedUnit) -> None:
        """Add the unit of the next message; blanks take the place of those that are gone.

        An offset that goes back is one handed out again, or that of a topic that was made again:
        the queue goes on there, and what was from there on does not count.
        """
        queue, offset = self._queue, unit.queue_offset
        if self._first is None or offset <= self._first:
            self.begin_at(offset)
        elif offset < queue.end:
            queue.cut(offset)
        if offset > queue.end:
            queue.append_blanks(offset - queue.end)
        queue.append(unit.log_position, unit.size_bytes, unit.tags_code)
        if len(queue.tail) >= RUN_BYTES:
            self.flush()

    def add_blank(self) -> None:
        """Add a unit for a message that is gone."""
        self._queue.append_blanks(1)

    @property
    def buffered_bytes(self) -> int:
        return len(self._queue.tail)

    def flush(self) -> None:
        """Write what is buffered, unsynced. Raises ``OSError``."""
        self._queue.write_out()

    def finish(self) -> list[Path]:
        """Write the rest, durably; returns the files."""
        self.flush()
        self._segments.make(self._queue.file_begin * UNIT_BYTES)  # its name keeps the place
        paths = [file.path for _, file in self._segments.open_files()]
        self._queue.close()
        for path in (*paths, self._directory):
            sync_path(path)
        return paths
