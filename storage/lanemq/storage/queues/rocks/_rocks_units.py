"""One queue in RocksDB, for the comparison with its files."""

from typing import final

from ._queue_rows import QueueRows


@final
class RocksUnits:
    """A queue whose bounds are looked up once; ``read`` reads the rows of the moment."""

    def __init__(self, rows: QueueRows, topic: str, queue_id: int, *, log_begin: int) -> None:
        """Look the queue up; rows of messages before position ``log_begin`` do not count.

        Raises ``OSError``.
        """
        self._rows = rows
        self._topic_data = topic.encode()
        self._queue_id = queue_id
        newest = rows.max_row(topic, queue_id)
        self._end = newest.queue_offset + 1 if newest is not None else 0
        self._min = rows.first_from(topic, queue_id, log_begin, self._end)

    @property
    def min(self) -> int:
        """Offset of the first row of a message that the log still has; ``end`` without any."""
        return self._min

    @property
    def end(self) -> int:
        """Offset behind the newest message."""
        return self._end

    def read(self, offset: int, count: int) -> bytes:
        """Return up to ``count`` units of 20 bytes from an offset on, to the first without a
        row."""
        return self._rows.read_units(self._topic_data, self._queue_id, offset, count)
