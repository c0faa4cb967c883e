"""Consume queues in RocksDB: a row per message, and two for the begin and the end of a queue.

New units are in memory until ``RocksIndex`` has written them in a batch. Queues are found in the
database when they are used, so that a start does not touch those that are not; where a queue
begins is found when it is asked for. Source: RocketMQ 5.3.3, RocksDBConsumeQueue,
RocksDBConsumeQueueStore and RocksDBConsumeQueueOffsetTable.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final, final

import trio

from ..._layouts import UNIT_BYTES, Unit, pack_unit, unpack_unit
from ..._search import first_kept
from .._queues import check_names
from ._queue_rows import QueueBounds, QueueRows
from ._row_format import OffsetRow

SLICE_QUEUES: Final = 64


@final
class RocksConsumeQueue:
    """A queue in use. Offsets count messages; units are readable at once."""

    __slots__ = (
        "_begin_of",
        "_min",
        "_table",
        "end",
        "next",
        "queue_id",
        "tail",
        "tail_start",
        "topic",
        "topic_data",
    )

    def __init__(self, topic: str, queue_id: int, table: "RocksQueueTable", end: int) -> None:
        self.topic = topic
        self.topic_data = topic.encode()
        self.queue_id = queue_id
        self._table = table
        self.end = self.next = self.tail_start = end
        """Offset behind the last unit; of the next message; of the first unit in the tail."""
        self.tail = bytearray()
        """Units from ``tail_start`` to ``end``, some of which may be in the database already."""
        self._min = 0
        self._begin_of = -1  # where the log began when the minimum was found

    @property
    def min(self) -> int:
        """Offset of the first message that the log still has; ``end`` without any."""
        log_begin = self._table.log_begin()
        if self._begin_of != log_begin:
            self._min = self._table.find_min(self, log_begin)
            self._begin_of = log_begin
        return self._min

    def append(self, log_position: int, size_bytes: int, tags_code: int) -> None:
        """Add the unit of message ``end``. Its row is written by ``RocksIndex``."""
        self.tail += pack_unit(log_position, size_bytes, tags_code)
        self.end += 1

    def extend(self, units: bytes) -> None:
        """Add units from message ``end`` on. Their rows are written by ``RocksIndex``."""
        self.tail += units
        self.end += len(units) // UNIT_BYTES

    def written(self, offset: int) -> None:
        """Drop units before ``offset`` from memory, since they have rows."""
        del self.tail[: (offset - self.tail_start) * UNIT_BYTES]
        self.tail_start = offset

    def read(self, offset: int, count: int) -> bytes | bytearray:
        """Return up to ``count`` units from ``offset`` on, to the first that is missing."""
        count = min(count, self.end - offset)
        if count <= 0:
            return b""
        tail_at = (offset - self.tail_start) * UNIT_BYTES
        if tail_at >= 0:
            return self.tail[tail_at : tail_at + count * UNIT_BYTES]
        from_rows = min(count, self.tail_start - offset)
        data = self._table.rows.read_units(self.topic_data, self.queue_id, offset, from_rows)
        if from_rows < count and len(data) == from_rows * UNIT_BYTES:
            data += bytes(self.tail[: (count - from_rows) * UNIT_BYTES])
        return data

    def unit(self, offset: int) -> Unit | None:
        data = self.read(offset, 1)
        return Unit(*unpack_unit(data, 0)) if data else None

    def unit_from(self, offset: int) -> tuple[int, Unit] | None:
        """Find the first unit from an offset on; returns its offset, too."""
        unit = self.unit(offset)
        if unit is None:
            offset = self.resume_at(offset)
            unit = self.unit(offset)
        return None if unit is None else (offset, unit)

    def resume_at(self, offset: int) -> int:
        """Return the offset at which a reader that found nothing at ``offset`` goes on: the next
        unit's."""
        found = self._table.rows.next_unit(self.topic_data, self.queue_id, offset)
        return min(found if found is not None else self.tail_start, self.end)


@final
class RocksQueueTable:
    """The queues of a store in RocksDB. ``log_begin`` returns the position at which the log
    begins."""

    def __init__(self, rows: QueueRows, *, log_begin: Callable[[], int]) -> None:
        self.rows = rows
        self.log_begin = log_begin
        self._queues: dict[tuple[str, int], RocksConsumeQueue] = {}
        self._in_use: dict[str, list[int]] = {}
        """Topic -> ids of its queues among these."""
        self._counts: dict[str, int] = {}
        """Topic -> number of its queues."""
        self._count = 0
        self._newest: tuple[QueueBounds, OffsetRow] | None = None

    def load(self) -> None:
        """Count the queues, and find the newest. Queues in use before are looked up again."""
        self._queues.clear()
        self._in_use.clear()
        self._counts.clear()
        self._count = 0
        self._newest = None
        for bounds in self.rows.queues():
            if bounds.max is not None:
                self._counted(bounds.topic)
                if self._newest is None or bounds.max > self._newest[1]:
                    self._newest = bounds, bounds.max

    @property
    def newest_position(self) -> int:
        """Position of the newest message when the table was loaded; -1 without any."""
        return self._newest[1].log_position if self._newest is not None else -1

    def __len__(self) -> int:
        return self._count

    def keys(self) -> Iterator[tuple[str, int]]:
        """Return topic and id of every queue that has messages."""
        new = {key: None for key, queue in self._queues.items() if queue.tail}
        for bounds in self.rows.queues():
            if bounds.max is not None:
                key = bounds.topic, bounds.queue_id
                new.pop(key, None)
                yield key
        yield from new

    def find(self, topic: str, queue_id: int) -> RocksConsumeQueue | None:
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            newest = self.rows.max_row(topic, queue_id)
            if newest is not None:
                queue = RocksConsumeQueue(topic, queue_id, self, newest.queue_offset + 1)
                self._use(queue)
        return queue

    def make(self, topic: str, queue_id: int) -> RocksConsumeQueue:
        """Return the queue, which may be new. Raises ``MessageIllegal`` for a name no file can
        have."""
        queue = self.find(topic, queue_id)
        if queue is None:
            check_names(topic, queue_id)
            queue = RocksConsumeQueue(topic, queue_id, self, 0)
            self._use(queue)
            self._counted(topic)
        return queue

    def _use(self, queue: RocksConsumeQueue) -> None:
        self._queues[queue.topic, queue.queue_id] = queue
        self._in_use.setdefault(queue.topic, []).append(queue.queue_id)

    def _counted(self, topic: str) -> None:
        self._count += 1
        self._counts[topic] = self._counts.get(topic, 0) + 1

    def find_min(self, queue: RocksConsumeQueue, log_begin: int) -> int:
        """Find the offset of the first message at or behind ``log_begin``; it is kept in the min
        row."""
        known = self.rows.min_row(queue.topic, queue.queue_id)
        low = 0
        if known is not None and known.queue_offset <= queue.end:
            if known.log_position >= log_begin and known.queue_offset < queue.end:
                return known.queue_offset
            low = known.queue_offset

        def row_from(offset: int, _end: int) -> tuple[int, int] | None:
            found = queue.unit_from(offset)
            return None if found is None else (found[0], found[1].log_position)

        found = first_kept(log_begin, low, queue.end, row_from)
        if found < queue.tail_start:
            unit = queue.unit(found)
            if unit is not None:
                batch = self.rows.batch()
                batch.put_min(queue.topic_data, queue.queue_id, unit.log_position, found)
                with suppress(OSError):  # it only saves the next caller the search
                    batch.write()
        return found

    # Landmarks of the log

    def max_log_end(self) -> int:
        """Return the position behind the last message that has a row; -1 without any."""
        if self._newest is None:
            return -1
        bounds, (position, offset) = self._newest
        row = self.rows.unit(bounds.topic, bounds.queue_id, offset)
        return position + (row.size_bytes if row is not None else 0)

    def first_message_from(self, log_position: int) -> int:
        """Return the position of a message at or behind ``log_position``: the first of the newest
        queue.

        ``log_position`` itself must lie before the last message.
        """
        assert self._newest is not None
        bounds, (position, offset) = self._newest

        row_from = partial(self.rows.row_from, bounds.topic, bounds.queue_id)
        found = row_from(first_kept(log_position, 0, offset + 1, lambda at, _: row_from(at)))
        return found[1] if found is not None else position

    # Cleaning

    async def clean(self, log_position: int) -> None:
        """Remove rows of messages before ``log_position``, the begin of the log."""
        for number, bounds in enumerate(self.rows.queues()):
            if number % SLICE_QUEUES == 0:
                await trio.lowlevel.checkpoint()
            if bounds.max is not None:
                self._clean_queue(bounds.topic, bounds.queue_id, bounds.max, log_position)

    def _clean_queue(self, topic: str, queue_id: int, newest: OffsetRow, log_position: int) -> None:
        data = topic.encode()
        first = self.rows.next_unit(data, queue_id, 0)
        row = self.rows.unit(topic, queue_id, first) if first is not None else None
        if first is None or row is None or row.log_position >= log_position:
            return
        batch = self.rows.batch()
        end = newest.queue_offset + 1

        row_from = partial(self.rows.row_from, topic, queue_id)
        kept = first_kept(log_position, first, end, lambda at, _: row_from(at))
        kept_row = row_from(kept)
        position = kept_row[1] if kept_row is not None else log_position
        batch.put_min(data, queue_id, position, kept)
        batch.write()
        self.rows.drop_expired(topic, queue_id, kept)

    def forget_topic(self, topic: str) -> int:
        """Forget the queues of a topic, which no longer have rows; returns how many there were."""
        for queue_id in self._in_use.pop(topic, ()):
            del self._queues[topic, queue_id]
        count = self._counts.pop(topic, 0)
        self._count -= count
        return count

    # Done by RocksIndex

    def written(self, topic: str, queue_id: int, offset: int) -> None:
        """Note that the units of a queue before ``offset`` have rows."""
        queue = self._queues.get((topic, queue_id))
        if queue is not None:
            queue.written(offset)

    # Nothing of this is in files

    def write_out(self) -> None:
        """Do nothing: ``RocksIndex`` writes rows."""

    async def write_in_turns(self) -> None:
        """Do nothing: ``RocksIndex`` writes rows."""

    async def sync(self) -> None:
        """Do nothing: ``RocksIndex`` flushes rows."""
