"""Reading and changing the rows of consume queues.

Offsets count messages of a queue, positions bytes of the log. What RocksDB refuses is
``OSError``. Source: RocketMQ 5.3.3, RocksDBConsumeQueueTable and RocksDBConsumeQueueOffsetTable.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple, final

from ..._search import first_kept
from ...rocks._database import FLUSH_KEY, QueueDatabase
from ...rocks._family import Family
from ._batch import Batch
from ._row_format import (
    BOUND_VALUE_BYTES,
    BOUND_VALUE_FIELDS,
    MAX,
    OFFSET_BYTES,
    UNIT_VALUE_FIELDS,
    WATERMARK_FIELDS,
    WATERMARK_KEY,
    WATERMARK_TOPIC,
    OffsetRow,
    QueueKeys,
    UnitRow,
    pack_offset,
    parse_bound_key,
    parse_unit_key,
    topic_bounds,
    units_of_values,
)

FILE_UNIT_BYTES: Final = 20  # a value begins with the bytes a queue file has
KEPT_KEYS: Final = 4096
OFFSET_MAX: Final = (1 << 63) - 1
POINT_READS_MAX: Final = 2
BLOCK_ROWS_MIN: Final = 256
unpack_unit: Final = UNIT_VALUE_FIELDS.unpack
unpack_bound: Final = BOUND_VALUE_FIELDS.unpack


class QueueBounds(NamedTuple):
    """A queue's rows in the family ``offset``. ``min`` is made when it is asked for."""

    topic: str
    queue_id: int
    max: OffsetRow | None
    min: OffsetRow | None


class RowSpan(NamedTuple):
    """The rows that a queue really has, from ``first`` to ``last`` inclusive."""

    first: int
    last: int
    rows: int
    first_missing: int | None
    """The smallest offset without a row between the two."""


@final
class QueueRows:
    """The rows of an open database. Topics are names, or their bytes where speed matters."""

    def __init__(self, database: QueueDatabase) -> None:
        self.database = database
        self._units = Family(database.units, database.directory)
        self._bounds = Family(database.bounds, database.directory)
        self._keys: dict[tuple[bytes, int], QueueKeys] = {}

    def keys(self, topic_data: bytes, queue_id: int) -> QueueKeys:
        """Return the keys of a queue's rows."""
        found = self._keys.get((topic_data, queue_id))
        if found is None:
            if len(self._keys) >= KEPT_KEYS:
                self._keys.clear()
            found = self._keys[topic_data, queue_id] = QueueKeys(topic_data, queue_id)
        return found

    # Writing

    def batch(self) -> Batch:
        """Begin a batch of changes; nothing happens before its ``write``."""
        return Batch(self.database, self.keys)

    def flush(self) -> None:
        """Flush the database; see ``QueueDatabase.flush``."""
        self.database.flush()

    def close(self) -> None:
        """Close the database; see ``QueueDatabase.close``."""
        self.database.close()

    # One queue

    def max_row(self, topic: str, queue_id: int) -> OffsetRow | None:
        """Return the newest message of a queue, as the last batch wrote it."""
        return self._bound(self.keys(topic.encode(), queue_id).max)

    def min_row(self, topic: str, queue_id: int) -> OffsetRow | None:
        """Return the oldest message of a queue, as it was last looked up; it may be gone by now."""
        return self._bound(self.keys(topic.encode(), queue_id).min)

    def _bound(self, key: bytes) -> OffsetRow | None:
        value = self._bounds.get(key)
        return OffsetRow(*unpack_bound(value)) if value is not None else None

    def unit(self, topic: str, queue_id: int, queue_offset: int) -> UnitRow | None:
        """Return the row of a message."""
        key = self.keys(topic.encode(), queue_id).unit(queue_offset)
        value = self._units.get(key)
        return UnitRow(*unpack_unit(value)) if value is not None else None

    def row_from(self, topic: str, queue_id: int, queue_offset: int) -> tuple[int, int] | None:
        """Return offset and log position of the first row from an offset on."""
        row = self.unit(topic, queue_id, queue_offset)
        if row is not None:
            return queue_offset, row.log_position
        found = self.next_unit(topic.encode(), queue_id, queue_offset)
        row = self.unit(topic, queue_id, found) if found is not None else None
        return None if row is None or found is None else (found, row.log_position)

    def first_from(self, topic: str, queue_id: int, log_position: int, end: int) -> int:
        """Return the offset of the first row of a message at or behind a position of the log;
        ``end`` without one before that offset."""
        return first_kept(
            log_position, 0, end, lambda offset, _: self.row_from(topic, queue_id, offset)
        )

    def read(self, topic_data: bytes, queue_id: int, queue_offset: int, count: int) -> list[bytes]:
        """Return the values of up to ``count`` rows from an offset on, to the first that is
        missing."""
        keys = self.keys(topic_data, queue_id)
        prefix = keys.unit_prefix
        if count <= POINT_READS_MAX:
            wanted = [
                prefix + pack_offset(number) for number in range(queue_offset, queue_offset + count)
            ]
            found = self._units.get_all(wanted)
            missing = next((number for number, one in enumerate(found) if one is None), count)
            return [one for one in found[:missing] if one is not None]
        values: list[bytes] = []
        number = queue_offset
        for key, value in islice(self._units.items(keys.unit(queue_offset), keys.end), count):
            if key != prefix + pack_offset(number):
                break
            values.append(value)
            number += 1
        return values

    def read_units(self, topic_data: bytes, queue_id: int, queue_offset: int, count: int) -> bytes:
        """Read as ``read``, in the layout of queue files: units of 20 bytes, one behind the
        other."""
        if count >= BLOCK_ROWS_MIN:
            keys = self.keys(topic_data, queue_id)
            found = self._units.values(keys.unit(queue_offset), keys.unit(queue_offset + count))
            if len(found) == count:  # as many rows as offsets: none is missing
                return units_of_values(b"".join(found))
        values = self.read(topic_data, queue_id, queue_offset, count)
        return b"".join([value[:FILE_UNIT_BYTES] for value in values])

    def read_rows(
        self, topic_data: bytes, queue_id: int, queue_offset: int, count: int
    ) -> list[UnitRow]:
        """Read as ``read``, decoded."""
        values = self.read(topic_data, queue_id, queue_offset, count)
        return [UnitRow(*unpack_unit(value)) for value in values]

    def next_unit(self, topic_data: bytes, queue_id: int, queue_offset: int) -> int | None:
        """Return the first offset that has a row, from ``queue_offset`` on."""
        keys = self.keys(topic_data, queue_id)
        return _offset_of(self._units.key_from(keys.unit(queue_offset)), keys)

    def previous_unit(self, topic_data: bytes, queue_id: int, queue_offset: int) -> int | None:
        """Return the last offset that has a row, up to ``queue_offset``."""
        keys = self.keys(topic_data, queue_id)
        return _offset_of(self._units.key_up_to(keys.unit(queue_offset)), keys)

    def items(
        self, topic_data: bytes, queue_id: int, begin: int = 0, end: int = OFFSET_MAX
    ) -> Iterator[tuple[int, bytes]]:
        """Iterate over offset and value of the rows from ``begin`` up to, but without, ``end``."""
        keys = self.keys(topic_data, queue_id)
        for key, value in self._units.items(keys.unit(begin), keys.unit(end)):
            yield int.from_bytes(key[-OFFSET_BYTES:], "big"), value

    def span(self, topic: str, queue_id: int) -> RowSpan | None:
        """Find the rows that a queue really has, whatever its bounds say; None without any."""
        data = topic.encode()
        first = self.next_unit(data, queue_id, 0)
        last = self.previous_unit(data, queue_id, OFFSET_MAX)
        if first is None or last is None:
            return None
        keys = self.keys(data, queue_id)
        count = self._units.count(keys.begin, keys.end)
        missing = None
        if count != last - first + 1:
            missing = first
            for found, _ in self.items(data, queue_id):
                if found != missing:
                    break
                missing += 1
        return RowSpan(first, last, count, missing)

    def delete_queue(self, topic: str, queue_id: int) -> None:
        """Delete a queue's rows in both families."""
        keys = self.keys(topic.encode(), queue_id)
        batch = self.batch()
        batch.delete_queue(keys)
        batch.write()

    def delete_units(self, topic: str, queue_id: int, begin: int, end: int) -> None:
        """Delete the rows of messages from ``begin`` up to, but without, ``end``."""
        keys = self.keys(topic.encode(), queue_id)
        batch = self.batch()
        batch.delete_units(keys, begin, end)
        batch.write()

    # The database

    def watermark(self) -> int | None:
        """Return the position behind the newest message that has rows; None if none was written."""
        value = self._bounds.get(WATERMARK_KEY)
        return WATERMARK_FIELDS.unpack(value)[0] if value is not None else None

    def queues(self, topic: str | None = None) -> Iterator[QueueBounds]:
        """Return the queues in the family ``offset``, of a topic or all, sorted as rows are."""
        begin, end = topic_bounds(topic.encode()) if topic is not None else (b"", FLUSH_KEY)
        # The newest of all queues of a topic come before the oldest of all of them.
        current, known = b"", dict[int, list[OffsetRow | None]]()
        for key, value in self._bounds.items(begin, end):
            if len(value) != BOUND_VALUE_BYTES:
                continue  # the watermark
            found = parse_bound_key(key)
            if found.topic != current:
                yield from _queue_bounds(current, known)
                current, known = found.topic, {}
            rows = known.setdefault(found.queue_id, [None, None])
            rows[found.bound != MAX] = OffsetRow(*unpack_bound(value))
        yield from _queue_bounds(current, known)

    def stored_queues(self) -> Iterator[tuple[str, int]]:
        """Return topic and queue id of all queues that have rows of messages, with or without
        bounds."""
        position = b""
        while True:
            key = self._units.key_from(position)
            if key is None:
                return
            try:
                found = parse_unit_key(key)
            except ValueError:
                position = key + b"\x00"  # no row of any queue
                continue
            yield found.topic.decode(), found.queue_id
            position = QueueKeys(found.topic, found.queue_id).end

    def truncate(self, log_end: int) -> int:
        """Delete rows of messages at or behind ``log_end``; returns how many queues had such.

        Source: RocketMQ 5.3.3, RocksDBConsumeQueueOffsetTable.truncateDirtyOffset, which looks
        for the new end by halves and may miss it; here it is the last row that stays.
        """
        changed = 0
        batch = self.batch()
        for bounds in self.queues():
            if bounds.max is not None and bounds.max.log_position >= log_end:
                self._truncate_queue(bounds, log_end, batch)
                changed += 1
        watermark = self.watermark()
        if watermark is not None and watermark > log_end:
            batch.set_watermark(log_end)
        batch.write()
        return changed

    def _truncate_queue(self, bounds: QueueBounds, log_end: int, batch: Batch) -> None:
        topic, queue_id = bounds.topic, bounds.queue_id
        keys = self.keys(topic.encode(), queue_id)
        offset = OFFSET_MAX
        while offset >= 0:
            found = self.previous_unit(topic.encode(), queue_id, offset)
            row = self.unit(topic, queue_id, found) if found is not None else None
            if found is None or row is None:
                break
            if row.log_position + row.size_bytes <= log_end:
                batch.delete_units(keys, found + 1, OFFSET_MAX)
                batch.put_max(topic.encode(), queue_id, row.log_position, found)
                return
            offset = found - 1
        batch.delete_queue(keys)

    def drop_expired(self, topic: str, queue_id: int, before_offset: int) -> None:
        """Delete the rows of messages before an offset."""
        self.delete_units(topic, queue_id, 0, before_offset)


def _offset_of(key: bytes | None, keys: QueueKeys) -> int | None:
    if key is None or not key.startswith(keys.unit_prefix):
        return None
    return int.from_bytes(key[-OFFSET_BYTES:], "big")


def _queue_bounds(topic: bytes, known: dict[int, list[OffsetRow | None]]) -> Iterator[QueueBounds]:
    if topic != WATERMARK_TOPIC:
        for queue_id, (newest, oldest) in known.items():
            yield QueueBounds(topic.decode(), queue_id, newest, oldest)
