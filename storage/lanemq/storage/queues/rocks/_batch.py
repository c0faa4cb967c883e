"""Batches: changes of rows that happen together."""

from collections.abc import Callable
from typing import Final, final

from rocksdict import WriteBatch

from ...rocks._database import QueueDatabase
from ._row_format import (
    BOUND_VALUE_FIELDS,
    WATERMARK_FIELDS,
    WATERMARK_KEY,
    WATERMARK_TOPIC,
    QueueKeys,
    pack_offset,
    pack_unit_value,
    topic_bounds,
)

pack_bound: Final = BOUND_VALUE_FIELDS.pack


@final
class Batch:
    """Changes that happen together, in the order of the calls."""

    __slots__ = ("_batch", "_bounds", "_database", "_keys", "is_empty")

    def __init__(self, database: QueueDatabase, keys: Callable[[bytes, int], QueueKeys]) -> None:
        self._database = database
        self._keys = keys
        self._bounds = database.bounds_handle
        self._batch = WriteBatch(raw_mode=True)
        self.is_empty = True

    def put_unit(
        self,
        topic_data: bytes,
        queue_id: int,
        queue_offset: int,
        log_position: int,
        size_bytes: int,
        tags_code: int,
        store_timestamp_ms: int,
    ) -> None:
        """Put the row of a message. The queue's newest is set with ``put_max``."""
        self._batch[self._keys(topic_data, queue_id).unit_prefix + pack_offset(queue_offset)] = (
            pack_unit_value(log_position, size_bytes, tags_code, store_timestamp_ms)
        )
        self.is_empty = False

    def put_max(
        self, topic_data: bytes, queue_id: int, log_position: int, queue_offset: int
    ) -> None:
        """Set the newest message of a queue."""
        key = self._keys(topic_data, queue_id).max
        self._batch.put(key, pack_bound(log_position, queue_offset), self._bounds)
        self.is_empty = False

    def put_min(
        self, topic_data: bytes, queue_id: int, log_position: int, queue_offset: int
    ) -> None:
        """Set the oldest message of a queue that the log still has."""
        key = self._keys(topic_data, queue_id).min
        self._batch.put(key, pack_bound(log_position, queue_offset), self._bounds)
        self.is_empty = False

    def set_watermark(self, log_position: int) -> None:
        """Set the position behind the newest message with rows; it may go back."""
        self._batch.put(WATERMARK_KEY, WATERMARK_FIELDS.pack(log_position), self._bounds)
        self.is_empty = False

    def delete_queue(self, keys: QueueKeys) -> None:
        """Delete all rows of a queue."""
        self._batch.delete_range(keys.begin, keys.end)
        self._batch.delete(keys.max, self._bounds)
        self._batch.delete(keys.min, self._bounds)
        self.is_empty = False

    def delete_topic(self, topic_data: bytes) -> None:
        """Delete all rows of a topic, by as much work as for one of them."""
        begin, end = topic_bounds(topic_data)
        self._batch.delete_range(begin, end)
        if topic_data != WATERMARK_TOPIC:
            self._batch.delete_range(begin, end, self._bounds)
        self.is_empty = False

    def delete_units(self, keys: QueueKeys, begin: int, end: int) -> None:
        """Delete rows from offset ``begin`` up to, but without, ``end``."""
        if begin < end:
            self._batch.delete_range(keys.unit(begin), keys.unit(end))
            self.is_empty = False

    def write(self) -> None:
        """Make the changes, in memory; the batch is used up. Raises ``OSError``."""
        if not self.is_empty:
            self._database.write(self._batch)
