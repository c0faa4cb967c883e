"""A consume queue in files: queue offset (counts messages) -> place in the commit log (bytes).

Source: RocketMQ 4.9.8, ConsumeQueue. Two deviations: a unit that stands for a message that is
gone (``BLANK_SIZE``) never counts as the first of a queue, and the last file always stays, so
that a queue never begins again at 0.
"""

from bisect import bisect_right
from typing import final

from ..._layouts import BLANK_SIZE, BLANK_UNIT, UNIT_BYTES, Unit, iter_units, pack_unit, unpack_unit
from ..._search import first_kept
from ...log._segments import Segments
from ._end import find_end

CHUNK_UNITS = 4096


@final
class FileConsumeQueue:
    """A queue in files. Offsets count messages. Units are readable at once, and in the file after
    ``write_out``."""

    __slots__ = (
        "_segments",
        "end",
        "log_end",
        "min",
        "next",
        "queue_id",
        "tail",
        "tail_start",
        "topic",
        "topic_data",
        "unwritten",
    )

    def __init__(
        self,
        topic: str,
        queue_id: int,
        segments: Segments,
        unwritten: "dict[FileConsumeQueue, None] | None" = None,
    ) -> None:
        """Take the files; ``unwritten`` is the set of those queues of a table that have a tail."""
        self.topic = topic
        self.topic_data = topic.encode()
        self.queue_id = queue_id
        self._segments = segments
        self.min = 0
        """Offset of the first message."""
        self.end = 0
        """Offset behind the last unit."""
        self.next = 0
        """Offset for the next message; ahead of ``end`` by what is not committed."""
        self.log_end = -1
        """Position behind the last unit's message; -1 for none."""
        self.tail = bytearray()
        """Units from ``tail_start`` to ``end``: not in the file yet."""
        self.tail_start = 0
        self.unwritten = unwritten if unwritten is not None else {}
        """The queues with a tail, of all those that are written out together."""

    def append(self, log_position: int, size_bytes: int, tags_code: int) -> None:
        """Add the unit of message ``end``. Nothing is written yet."""
        if not self.tail:
            self.unwritten[self] = None
        self.tail += pack_unit(log_position, size_bytes, tags_code)
        self.end += 1
        self.log_end = log_position + size_bytes

    def append_blanks(self, count: int) -> None:
        """Add units for messages that are gone."""
        if not self.tail:
            self.unwritten[self] = None
        self.tail += BLANK_UNIT * count
        self.end += count

    def extend(self, units: bytes) -> None:
        """Add units, none of them blank, from message ``end`` on. Nothing is written yet."""
        if not self.tail:
            self.unwritten[self] = None
        self.tail += units
        self.end += len(units) // UNIT_BYTES
        log_position, size_bytes, _ = unpack_unit(units, len(units) - UNIT_BYTES)
        self.log_end = log_position + size_bytes

    def begin_at(self, offset: int) -> None:
        """Begin an empty queue at ``offset``: the file up to there is filled with blanks."""
        assert self.end == 0
        if not len(self._segments):
            begin = self._segments.start_of(offset * UNIT_BYTES)
            self.tail_start = self.end = begin // UNIT_BYTES
        self.append_blanks(offset - self.end)
        self.min = offset

    def restart_at(self, offset: int) -> None:
        """Continue a queue without messages at ``offset``, behind its end.

        Where that is more than a file away its files go, and a new one begins.
        """
        if (offset - self.end) * UNIT_BYTES > self._segments.file_bytes:
            self.clear()
        if self.end == 0:
            self.begin_at(offset)

    def read(self, offset: int, count: int) -> bytes | bytearray:
        """Return up to ``count`` units from ``offset`` on, those below ``end``."""
        count = min(count, self.end - offset)
        if count <= 0:
            return b""
        tail_at = (offset - self.tail_start) * UNIT_BYTES
        if tail_at >= 0:
            return self.tail[tail_at : tail_at + count * UNIT_BYTES]
        from_files = min(count, self.tail_start - offset)
        data = self._segments.read(offset * UNIT_BYTES, from_files * UNIT_BYTES)
        if from_files < count:
            data += bytes(self.tail[: (count - from_files) * UNIT_BYTES])
        return data

    def resume_at(self, offset: int) -> int:
        """Return the offset at which a reader that found nothing at ``offset`` goes on: behind the
        file."""
        return min(self._segments.end_of(offset * UNIT_BYTES) // UNIT_BYTES, self.end)

    def unit(self, offset: int) -> Unit | None:
        data = self.read(offset, 1)
        return Unit(*unpack_unit(data, 0)) if len(data) == UNIT_BYTES else None

    def write_out(self) -> None:
        """Write the tail to the file, unsynced. Raises ``OSError``; nothing is forgotten then."""
        if self.tail:
            self._segments.write(self.tail_start * UNIT_BYTES, self.tail)
            self.tail = bytearray()
            self.tail_start = self.end

    async def sync(self) -> None:
        """Return once what ``write_out`` wrote before is durable."""
        await self._segments.sync()

    def close(self) -> None:
        self._segments.close()

    # For start-up and cleaning

    def recover(self, redo_position: int | None) -> None:
        """Find the end: behind the last of the valid units (position >= 0, size > 0).

        After a clean stop (None) they lie in one piece, so that the end can be searched by
        halves. After a crash, units of messages behind ``redo_position`` may be half written:
        they are dropped, and so is all that is not in the order of the log.
        """
        segments = self._segments
        segments.load()
        starts = segments.starts
        end = find_end(segments, redo_position)
        self._set_end(end)
        # Units behind a hole are remains: a binary search must never find them.
        if starts and (redo_position is not None or starts[-1] > end * UNIT_BYTES):
            segments.erase(end * UNIT_BYTES)

    def _set_end(self, end: int) -> None:
        self.end = self.next = self.tail_start = end
        self.tail = bytearray()
        self.log_end = -1
        unit = self.unit(end - 1) if end * UNIT_BYTES > self._segments.begin else None
        if unit is not None and unit.size_bytes != BLANK_SIZE:
            self.log_end = unit.log_position + unit.size_bytes

    @property
    def file_begin(self) -> int:
        """Offset of the first unit that is kept, in a file or in the tail."""
        return self._segments.begin // UNIT_BYTES if len(self._segments) else self.tail_start

    def holds(self, offset: int) -> bool:
        """Return whether there is a unit, blank or not: in a file that is there, or in the tail."""
        if not self.file_begin <= offset < self.end:
            return False
        return offset >= self.tail_start or self._segments.has(offset * UNIT_BYTES)

    @property
    def lacks_file(self) -> bool:
        """True if a file between two others is missing."""
        segments = self._segments
        return len(segments) * segments.file_bytes != segments.capacity_end - segments.begin

    def find_position(self, log_position: int) -> int:
        """Find the offset of the first message at or behind ``log_position``; ``end`` if there is
        none."""
        return first_kept(log_position, self.file_begin, self.end, self._row_from)

    def _row_from(self, offset: int, end: int) -> tuple[int, int] | None:
        found = self._skip_blanks(offset, end)
        return None if found is None else (found[0], found[1].log_position)

    def _skip_blanks(self, offset: int, end: int) -> tuple[int, Unit] | None:
        count = 1  # most units are not blank, but where one is there may be very many
        while offset < end:
            data = self.read(offset, min(count, end - offset))
            if not data:  # a file is missing
                starts = self._segments.starts
                behind = bisect_right(starts, offset * UNIT_BYTES)
                if behind == len(starts):
                    break
                offset = starts[behind] // UNIT_BYTES
                continue
            for fields in iter_units(data):
                if fields[1] != BLANK_SIZE:
                    return offset, Unit(*fields)
                offset += 1
            count = CHUNK_UNITS
        return None

    def unit_from(self, offset: int) -> tuple[int, Unit] | None:
        """Find the first unit from an offset on that is not blank; returns its offset, too."""
        return self._skip_blanks(offset, self.end)

    def truncate(self, log_position: int) -> int:
        """Drop the units of messages at or behind ``log_position``; returns how many."""
        cut = self.find_position(log_position)
        dropped = self.end - cut
        if dropped:
            self.cut(cut)
        return dropped

    def patch(self, offset: int, units: bytes) -> None:
        """Replace existing units, unsynced. Raises ``OSError``."""
        self.write_out()
        self._segments.write(offset * UNIT_BYTES, units)

    def clear(self) -> None:
        """Remove all files, so that the queue can begin anywhere."""
        self._segments.remove_behind(0)
        self._set_end(0)
        self.min = 0

    def cut(self, offset: int) -> None:
        """Drop the units from ``offset`` on."""
        self.write_out()
        self._segments.erase(offset * UNIT_BYTES)
        self._set_end(offset)
        self.min = min(self.min, offset)

    def correct_min(self, log_position: int) -> None:
        """Move the begin of the queue to the first message that the log still has."""
        self.min = max(self.min, self.find_position(log_position))

    def clean(self, log_position: int) -> int:
        """Remove files whose messages all lie before ``log_position``; returns how many.

        The last file stays.
        """
        removed = 0
        while len(self._segments) > 1:
            behind = self._segments.end_of(self._segments.begin) // UNIT_BYTES
            if behind > self.tail_start:
                break
            last = self.unit(behind - 1)
            if last is None or (
                last.size_bytes != BLANK_SIZE and last.log_position >= log_position
            ):
                break
            self._segments.remove_oldest()
            removed += 1
        if removed:
            self.correct_min(log_position)
        return removed
