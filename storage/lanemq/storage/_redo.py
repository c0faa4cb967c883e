"""Bringing an index up to the end of the log, record by record, from its watermark on.

What an index does with a record must be the same the second time: whatever lies between the
watermark and the end of the log may be in the index, in part, or not at all.
"""

import logging
from collections.abc import Iterator
from typing import Final, Protocol, final

from ._consume_queue import FileConsumeQueue
from ._errors import MessageIllegal
from ._index import Index
from ._layouts import BLANK_SIZE
from ._places import Place, Places
from ._queues import QueueTable
from ._records import LogWalk, Record
from ._segments import Segments
from ._tags import TagsCodes

LOGGER: Final = logging.getLogger(__name__)


class RedoTarget(Protocol):
    """An index of the log. ``watermark``: every record before it is in the index durably."""

    name: str
    watermark: int

    def redo(self, record: Record) -> None:
        """Take a record at or behind the watermark; they come in the order of the log."""

    def truncate(self, log_end: int) -> int:
        """Forget what points at or behind the end of the log; returns how much that was."""


def walk_over_damage(segments: Segments, begin: int, end: int) -> Iterator[Record]:
    """The records of a part of the log; what is broken costs the rest of its file."""
    position = begin
    while position < end:
        walk = LogWalk(segments, position, check_crc=False, end=end)
        yield from walk
        if walk.end >= end:
            break
        position = next((start for start in segments.starts if start > walk.end), end)
        LOGGER.warning(
            "no record at %d of the log (%s): dispatch goes on at %d", walk.end, walk.why, position
        )


@final
class KeyRedo:
    """The key index."""

    name = "key index"

    def __init__(self, index: Index, watermark: int) -> None:
        self._index = index
        self.watermark = watermark

    def redo(self, record: Record) -> None:
        self._index.submit(
            record.topic,
            record.position,
            record.store_timestamp_ms,
            record.sys_flag,
            record.properties,
        )

    def truncate(self, log_end: int) -> int:
        if self._index.newest[1] >= log_end > 0:
            self._index.drain()
            self._index.cut(log_end)
        return 0


@final
class FileRedo:
    """The queue files. A unit that is there stays, if it names the right record.

    One that names another stands in a wrong slot, and so may all behind it: they are dropped,
    and the walk brings them again. A gap is closed with units of older records, or with units
    that stand for messages that are gone; the reference lets every later message move up into
    the wrong place.
    """

    name = "queue files"

    def __init__(
        self,
        queues: QueueTable,
        *,
        segments: Segments,
        tags: TagsCodes,
        places: Places,
        watermark: int,
    ) -> None:
        self._queues = queues
        self._segments = segments
        self._tags = tags
        self._places = places
        self._older: dict[tuple[str, int], dict[int, Record]] | None = None
        self.watermark = watermark
        self.moved = 0
        """Units that stood in a wrong slot, or of messages that are not the queue's any more."""

    def redo(self, record: Record) -> None:
        for place in self._places.of(record):
            try:
                queue = self._queues.make(place.topic, place.queue_id)
            except MessageIllegal as error:
                LOGGER.warning("the record at %d has no queue: %s", record.position, error)
            else:
                self._put(queue, place, record)

    def truncate(self, log_end: int) -> int:
        return self._queues.truncate(log_end) if self._queues.max_log_end() > log_end else 0

    def _put(self, queue: FileConsumeQueue, place: Place, record: Record) -> None:
        offset = place.queue_offset
        if offset < queue.end:
            if self._has(queue, offset, record):
                return
            self.moved += queue.end - offset
            LOGGER.warning(
                "queue %d of %s: unit %d names another message; %d units are made anew",
                queue.queue_id,
                queue.topic,
                offset,
                queue.end - offset,
            )
            queue.cut(offset)
        elif record.end <= queue.log_end:
            return  # of a topic that was deleted and made again
        if offset > queue.end:
            self._close_gap(queue, offset)
        self._append(queue, record)

    def _has(self, queue: FileConsumeQueue, offset: int, record: Record) -> bool:
        if offset < queue.file_begin:
            return True  # expired
        unit = queue.unit(offset)
        if unit is None:
            return True
        return unit.size_bytes != BLANK_SIZE and unit.log_position == record.position

    def _append(self, queue: FileConsumeQueue, record: Record) -> None:
        code = self._tags.code(record.topic, record.properties, record.store_timestamp_ms)
        queue.append(record.position, record.size_bytes, code)

    def _close_gap(self, queue: FileConsumeQueue, offset: int) -> None:
        if self._older is None:
            self._older = self._records_without_unit()
        older = self._older.get((queue.topic, queue.queue_id), {})
        missing, found = offset - queue.end, 0
        if queue.log_end <= self._segments.begin:
            # None of its messages is left: blanks from the begin of a file on are enough.
            first = min((known for known in older if queue.end <= known < offset), default=offset)
            queue.restart_at(first)
        while queue.end < offset:
            record = older.get(queue.end)
            if record is None:
                queue.append_blanks(1)
            else:
                found += 1
                self._append(queue, record)
        LOGGER.warning(
            "queue %d of %s lacked %d units before %d: %d were found in the log",
            queue.queue_id,
            queue.topic,
            missing,
            offset,
            found,
        )

    def _records_without_unit(self) -> dict[tuple[str, int], dict[int, Record]]:
        older: dict[tuple[str, int], dict[int, Record]] = {}
        for record in walk_over_damage(self._segments, self._segments.begin, self.watermark):
            for place in self._places.of(record):
                queue = self._queues.find(place.topic, place.queue_id)
                end = queue.end if queue is not None else 0
                if place.queue_offset >= end:
                    key = place.topic, place.queue_id
                    older.setdefault(key, {})[place.queue_offset] = record
        return older
