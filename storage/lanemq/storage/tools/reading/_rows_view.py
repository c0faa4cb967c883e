"""The queues in a RocksDB for tools: for reading only, and by their rows.

The row for the end of a queue is not trusted, but compared.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import final

from ...queues.rocks._queue_rows import OFFSET_MAX, QueueRows
from ...queues.rocks._rocks_units import RocksUnits
from ...queues.rocks._row_format import OffsetRow
from ...rocks import QueueDatabase
from ...rocks._family import Family
from ._units import RowsUnits


@final
class RowsView:
    """An open database, in whose directory nothing is changed."""

    def __init__(self, directory: Path) -> None:
        """Open the database. Raises ``StoreCorrupted`` where it cannot be opened."""
        self.directory = directory
        self._database = QueueDatabase(directory, read_only=True)
        self._rows = QueueRows(self._database)

    def read_all(self) -> None:
        """Read every row, whatever it is about. Raises ``OSError``."""
        for family in (self._database.units, self._database.bounds):
            Family(family, self.directory).read_all()

    def watermark(self) -> int:
        """Return the position behind the newest message that has rows; 0 where there is no such
        row."""
        return self._rows.watermark() or 0

    def last_message(self, topic: str, queue_id: int) -> OffsetRow | None:
        """Return the newest message of a queue, from the row for its end."""
        return self._rows.max_row(topic, queue_id)

    def ends(self) -> Iterator[tuple[str, int, OffsetRow]]:
        """Iterate over topic, queue id and newest message of every queue that has a row for its
        end."""
        for bounds in self._rows.queues():
            if bounds.max is not None:
                yield bounds.topic, bounds.queue_id, bounds.max

    def queues(self) -> Iterator[tuple[str, int]]:
        """Return topic and id of every queue that has rows of messages. Raises ``OSError``."""
        return self._rows.stored_queues()

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int] | None:
        """Return the offset of a queue's first row, and behind its last; None without rows."""
        data = topic.encode()
        first = self._rows.next_unit(data, queue_id, 0)
        last = self._rows.previous_unit(data, queue_id, OFFSET_MAX)
        return (first, last + 1) if first is not None and last is not None else None

    def values(
        self, topic: str, queue_id: int, offset: int, count: int
    ) -> Iterator[tuple[int, bytes]]:
        """Iterate over offsets and values of the rows from ``offset`` on, for ``count`` offsets at
        most.

        Raises ``OSError`` where they cannot be read.
        """
        return self._rows.items(topic.encode(), queue_id, offset, offset + count)

    def queue(self, topic: str, queue_id: int) -> RowsUnits:
        """Return the units of one queue, as ``StoreDirectory.queue`` does."""
        return RowsUnits(self._rows, topic, queue_id)

    def view(self, topic: str, queue_id: int, log_begin: int) -> RocksUnits:
        """Return a queue for the comparison with its files."""
        return RocksUnits(self._rows, topic, queue_id, log_begin=log_begin)

    def close(self) -> None:
        self._database.close()
