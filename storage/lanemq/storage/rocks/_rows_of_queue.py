"""One queue in RocksDB, as the comparison with its files sees it."""

from typing import final

from ._queue_rows import QueueRows


@final
class RowsOfQueue:
    """Looked up once, when it is made; ``read`` reads what is there at the time."""

    def __init__(self, rows: QueueRows, topic: str, queue_id: int, *, log_begin: int) -> None:
        """``log_begin``: rows of messages before this position count for nothing.

        Raises ``OSError``.
        """
        self._rows = rows
        self._topic = topic
        self._topic_data = topic.encode()
        self._queue_id = queue_id
        newest = rows.max_row(topic, queue_id)
        self._end = newest.queue_offset + 1 if newest is not None else 0
        first = rows.next_unit(self._topic_data, queue_id, 0)
        self._min = self._first_from(first, log_begin) if first is not None else self._end

    def _first_from(self, first: int, log_begin: int) -> int:
        # By halves; where a row is missing the next one speaks for it, or a hole would hide
        # all that lies before it.
        low, high = first, self._end
        while low < high:
            middle = (low + high) // 2
            found = self._rows.next_unit(self._topic_data, self._queue_id, middle)
            row = None
            if found is not None:
                row = self._rows.unit(self._topic, self._queue_id, found)
            if row is not None and row.log_position >= log_begin:
                high = middle
            else:
                low = (found if found is not None else middle) + 1
        found = self._rows.next_unit(self._topic_data, self._queue_id, low)
        return found if found is not None else self._end

    @property
    def min(self) -> int:
        """Offset of the first row of a message that the log still has; ``end`` without any."""
        return self._min

    @property
    def end(self) -> int:
        """Offset behind the newest message."""
        return self._end

    def read(self, offset: int, count: int) -> bytes:
        """Up to ``count`` units of 20 bytes from an offset on, to the first without a row."""
        return self._rows.read_units(self._topic_data, self._queue_id, offset, count)
