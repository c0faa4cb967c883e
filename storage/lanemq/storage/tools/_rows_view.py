"""The queues in a RocksDB, as tools look at them: for reading only, and by their rows.

What the row for the end of a queue says is not trusted, but compared.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import final

from ..rocks import OffsetRow, QueueDatabase, QueueRows
from ..rocks._rows import pack_unit_value
from ..rocks._rows_of_queue import RowsOfQueue

OFFSET_MAX = (1 << 63) - 1


@final
class RowsView:
    """An open database; nothing in its directory is changed."""

    def __init__(self, directory: Path) -> None:
        """Raises ``StoreCorrupted`` where it cannot be opened."""
        self.directory = directory
        self._database = QueueDatabase(directory, read_only=True)
        self._rows = QueueRows(self._database)

    def watermark(self) -> int:
        """Position behind the newest message that has rows; 0 where there is no such row."""
        return self._rows.watermark() or 0

    def last_message(self, topic: str, queue_id: int) -> OffsetRow | None:
        """What the row for the end of a queue says about its newest message."""
        return self._rows.max_row(topic, queue_id)

    def ends(self) -> Iterator[tuple[str, int, OffsetRow]]:
        """Topic, queue id and newest message of every queue that has a row for its end."""
        for bounds in self._rows.queues():
            if bounds.max is not None:
                yield bounds.topic, bounds.queue_id, bounds.max

    def queues(self) -> Iterator[tuple[str, int]]:
        """Topic and id of every queue that has rows of messages. Raises ``OSError``."""
        return self._rows.stored_queues()

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int] | None:
        """Offset of a queue's first row, and behind its last; None without rows."""
        data = topic.encode()
        first = self._rows.next_unit(data, queue_id, 0)
        last = self._rows.previous_unit(data, queue_id, OFFSET_MAX)
        return (first, last + 1) if first is not None and last is not None else None

    def values(
        self, topic: str, queue_id: int, offset: int, count: int
    ) -> Iterator[tuple[int, bytes]]:
        """Offsets and values of the rows from ``offset`` on, for ``count`` offsets at most.

        Raises ``OSError`` where they cannot be read.
        """
        return self._rows.items(topic.encode(), queue_id, offset, offset + count)

    def pack(self, log_position: int, size_bytes: int, tags_code: int, store_ms: int) -> bytes:
        """The value that a message's row has to have."""
        return pack_unit_value(log_position, size_bytes, tags_code, store_ms)

    def view(self, topic: str, queue_id: int, log_begin: int) -> RowsOfQueue:
        """A queue as the comparison with its files sees it."""
        return RowsOfQueue(self._rows, topic, queue_id, log_begin=log_begin)

    def close(self) -> None:
        self._database.close()
