"""Reading and changing the rows of consume queues.

Offsets count messages of a queue, positions bytes of the log. What RocksDB refuses is
``OSError``. Source: RocketMQ 5.3.3, RocksDBConsumeQueueTable and RocksDBConsumeQueueOffsetTable.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar, cast, final

from rocksdict import Rdict, RdictIter, ReadOptions

from ._batch import Batch
from ._database import FLUSH_KEY, QueueDatabase, rocks_error
from ._rows import (
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
    topic_bounds,
)

FILE_UNIT_BYTES: Final = 20  # a value begins with the bytes a queue file has
KEPT_KEYS: Final = 4096
OFFSET_MAX: Final = (1 << 63) - 1
POINT_READS_MAX: Final = 2
unpack_unit: Final = UNIT_VALUE_FIELDS.unpack
unpack_bound: Final = BOUND_VALUE_FIELDS.unpack
Result = TypeVar("Result")


class QueueBounds(NamedTuple):
    """What the family ``offset`` says of a queue. ``min`` is made when somebody asks for it."""

    topic: str
    queue_id: int
    max: OffsetRow | None
    min: OffsetRow | None


class RowSpan(NamedTuple):
    """The rows that a queue really has, from ``first`` to ``last``, both included."""

    first: int
    last: int
    rows: int
    first_missing: int | None
    """The smallest offset between the two without a row."""


@final
class QueueRows:
    """The rows of an open database. Topics are names, or their bytes where speed matters."""

    def __init__(self, database: QueueDatabase) -> None:
        self.database = database
        self._units = database.units
        self._bounds = database.bounds
        self._keys: dict[tuple[bytes, int], QueueKeys] = {}

    def keys(self, topic_data: bytes, queue_id: int) -> QueueKeys:
        """The keys of a queue's rows."""
        found = self._keys.get((topic_data, queue_id))
        if found is None:
            if len(self._keys) >= KEPT_KEYS:
                self._keys.clear()
            found = self._keys[topic_data, queue_id] = QueueKeys(topic_data, queue_id)
        return found

    # Writing

    def batch(self) -> Batch:
        """A batch of changes; nothing happens before its ``write``."""
        return Batch(self.database, self.keys)

    def flush(self) -> None:
        """As ``QueueDatabase.flush``."""
        self.database.flush()

    def close(self) -> None:
        """As ``QueueDatabase.close``."""
        self.database.close()

    # One queue

    def max_row(self, topic: str, queue_id: int) -> OffsetRow | None:
        """The newest message of a queue, as the last batch wrote it."""
        return self._bound(self.keys(topic.encode(), queue_id).max)

    def min_row(self, topic: str, queue_id: int) -> OffsetRow | None:
        """The oldest message of a queue, as somebody found it once; it may be gone by now."""
        return self._bound(self.keys(topic.encode(), queue_id).min)

    def _bound(self, key: bytes) -> OffsetRow | None:
        value = self._get(self._bounds, key)
        return OffsetRow(*unpack_bound(value)) if value is not None else None

    def unit(self, topic: str, queue_id: int, queue_offset: int) -> UnitRow | None:
        """The row of a message."""
        key = self.keys(topic.encode(), queue_id).unit(queue_offset)
        value = self._get(self._units, key)
        return UnitRow(*unpack_unit(value)) if value is not None else None

    def read(self, topic_data: bytes, queue_id: int, queue_offset: int, count: int) -> list[bytes]:
        """The values of up to ``count`` rows from an offset on, to the first that is missing."""
        keys = self.keys(topic_data, queue_id)
        prefix = keys.unit_prefix
        if count <= POINT_READS_MAX:
            wanted = [
                prefix + pack_offset(number) for number in range(queue_offset, queue_offset + count)
            ]
            found = self._call(lambda: self._get_all(wanted))
            missing = next((number for number, one in enumerate(found) if one is None), count)
            return [one for one in found[:missing] if one is not None]
        values: list[bytes] = []
        number = queue_offset
        for key, value in islice(
            self._items(self._units, keys.unit(queue_offset), keys.end), count
        ):
            if key != prefix + pack_offset(number):
                break
            values.append(value)
            number += 1
        return values

    def _get_all(self, keys: list[bytes]) -> list[bytes | None]:
        return cast("list[bytes | None]", self._units.get(cast("Any", keys)))

    def read_units(self, topic_data: bytes, queue_id: int, queue_offset: int, count: int) -> bytes:
        """As ``read``, in the layout of queue files: units of 20 bytes, one behind the other."""
        values = self.read(topic_data, queue_id, queue_offset, count)
        return b"".join([value[:FILE_UNIT_BYTES] for value in values])

    def read_rows(
        self, topic_data: bytes, queue_id: int, queue_offset: int, count: int
    ) -> list[UnitRow]:
        """As ``read``, decoded."""
        values = self.read(topic_data, queue_id, queue_offset, count)
        return [UnitRow(*unpack_unit(value)) for value in values]

    def next_unit(self, topic_data: bytes, queue_id: int, queue_offset: int) -> int | None:
        """The first offset that has a row, from ``queue_offset`` on."""
        keys = self.keys(topic_data, queue_id)
        return self._offset_at(keys, lambda rows: rows.seek(keys.unit(queue_offset)))

    def previous_unit(self, topic_data: bytes, queue_id: int, queue_offset: int) -> int | None:
        """The last offset that has a row, up to ``queue_offset``."""
        keys = self.keys(topic_data, queue_id)
        return self._offset_at(keys, lambda rows: rows.seek_for_prev(keys.unit(queue_offset)))

    def _offset_at(self, keys: QueueKeys, seek: Callable[[RdictIter], None]) -> int | None:
        def find() -> int | None:
            rows = self._units.iter()
            seek(rows)
            if not rows.valid():
                rows.status()
                return None
            key: bytes = rows.key()
            if not key.startswith(keys.unit_prefix):
                return None
            return int.from_bytes(key[-OFFSET_BYTES:], "big")

        return self._call(find)

    def items(
        self, topic_data: bytes, queue_id: int, begin: int = 0, end: int = OFFSET_MAX
    ) -> Iterator[tuple[int, bytes]]:
        """Offset and value of the rows from ``begin`` up to, but without, ``end``."""
        keys = self.keys(topic_data, queue_id)
        for key, value in self._items(self._units, keys.unit(begin), keys.unit(end)):
            yield int.from_bytes(key[-OFFSET_BYTES:], "big"), value

    def span(self, topic: str, queue_id: int) -> RowSpan | None:
        """Which rows a queue really has, whatever its bounds say; None without any."""
        data = topic.encode()
        first = self.next_unit(data, queue_id, 0)
        last = self.previous_unit(data, queue_id, OFFSET_MAX)
        if first is None or last is None:
            return None
        keys = self.keys(data, queue_id)
        options = ReadOptions()
        options.set_iterate_upper_bound(keys.end)
        count = self._call(
            lambda: sum(1 for _ in self._units.keys(from_key=keys.begin, read_opt=options))
        )
        missing = None
        if count != last - first + 1:
            missing = first
            for found, _ in self.items(data, queue_id):
                if found != missing:
                    break
                missing += 1
        return RowSpan(first, last, count, missing)

    def delete_queue(self, topic: str, queue_id: int) -> None:
        """Forget a queue: its rows in both families."""
        keys = self.keys(topic.encode(), queue_id)
        batch = self.batch()
        batch.delete_queue(keys)
        batch.write()

    def delete_units(self, topic: str, queue_id: int, begin: int, end: int) -> None:
        """Forget the rows of messages from ``begin`` up to, but without, ``end``."""
        keys = self.keys(topic.encode(), queue_id)
        batch = self.batch()
        batch.delete_units(keys, begin, end)
        batch.write()

    # The database

    def watermark(self) -> int | None:
        """Position behind the newest message that has rows; None where nobody wrote one."""
        value = self._get(self._bounds, WATERMARK_KEY)
        return WATERMARK_FIELDS.unpack(value)[0] if value is not None else None

    def queues(self, topic: str | None = None) -> Iterator[QueueBounds]:
        """The queues of a topic, or all, that the family ``offset`` knows, sorted as rows are."""
        begin, end = topic_bounds(topic.encode()) if topic is not None else (b"", FLUSH_KEY)
        # The newest of all queues of a topic come before the oldest of all of them.
        current, known = b"", dict[int, list[OffsetRow | None]]()
        for key, value in self._items(self._bounds, begin, end):
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
        """Topic and queue id of all that have rows of messages, whether bounds tell or not."""
        position = b""
        while True:
            key = self._call(partial(_key_from, self._units, position))
            if key is None:
                return
            prefix = key[:-OFFSET_BYTES]
            topic_end = len(prefix) - 6
            yield key[5:topic_end].decode(), int.from_bytes(prefix[topic_end + 1 : -1], "big")
            position = prefix[:-1] + b"\x02"

    def truncate(self, log_end: int) -> int:
        """Forget rows of messages at or behind ``log_end``; returns how many queues had such.

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
        """Forget the rows of messages before an offset."""
        self.delete_units(topic, queue_id, 0, before_offset)

    # How RocksDB is asked

    def _call(self, ask: Callable[[], Result]) -> Result:
        try:
            return ask()
        except Exception as error:
            raise rocks_error(error, self.database.directory) from error

    def _get(self, family: Rdict, key: bytes) -> bytes | None:
        try:
            return cast("bytes | None", family.get(key))
        except Exception as error:
            raise rocks_error(error, self.database.directory) from error

    def _items(self, family: Rdict, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        options = ReadOptions()
        options.set_iterate_upper_bound(end)
        last = b""
        items = family.items(from_key=begin, read_opt=options)
        for key, value in cast("Iterator[tuple[bytes, bytes]]", items):
            last = key
            yield key, value
        # This iterator ends at a block that cannot be read as if there were no more rows.
        self._call(lambda: _check_end(family, last or begin, last != b"", options))


def _check_end(family: Rdict, key: bytes, is_found: bool, options: ReadOptions) -> None:
    rows = family.iter(options)
    rows.seek(key)
    if is_found and rows.valid():
        rows.next()
    if not rows.valid():
        rows.status()


def _key_from(family: Rdict, begin: bytes) -> bytes | None:
    rows = family.iter()
    rows.seek(begin)
    if rows.valid():
        return cast("bytes", rows.key())
    rows.status()
    return None


def _queue_bounds(topic: bytes, known: dict[int, list[OffsetRow | None]]) -> Iterator[QueueBounds]:
    if topic != WATERMARK_TOPIC:
        for queue_id, (newest, oldest) in known.items():
            yield QueueBounds(topic.decode(), queue_id, newest, oldest)
