"""The units of one queue, from its files or from RocksDB, in the same form.

Offsets count messages; a unit is 20 bytes as queue files have it.
"""

from collections.abc import Iterator
from typing import Final, final

from ..._layouts import BLANK_SIZE, UNIT_BYTES, Unit, unpack_unit
from ...queues.rocks._queue_rows import OFFSET_MAX, QueueRows
from ._queue_files import QueueFiles

BLOCK_UNITS: Final = 8192


@final
class RowsUnits:
    """A queue's units in RocksDB: meanings as in ``QueueFiles``, and missing ones are left out.

    What RocksDB refuses is ``OSError``.
    """

    def __init__(self, rows: QueueRows, topic: str, queue_id: int) -> None:
        self._rows = rows
        self._name, self._topic = topic, topic.encode()
        self._queue_id = queue_id

    def read(self, offset: int, count: int) -> bytes:
        return self._rows.read_units(self._topic, self._queue_id, offset, count)

    def _next(self, offset: int) -> int | None:
        return self._rows.next_unit(self._topic, self._queue_id, offset)

    def units(self, begin: int, end: int) -> Iterator[tuple[int, Unit]]:
        for at, value in self._rows.items(self._topic, self._queue_id, begin, end):
            yield at, Unit(*unpack_unit(value, 0))

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        at = self._next(0)
        while at is not None:
            data = self.read(at, BLOCK_UNITS)
            if not data:
                return
            yield at, data
            at = self._next(at + len(data) // UNIT_BYTES)

    def written_end(self) -> int:
        last = self._rows.previous_unit(self._topic, self._queue_id, OFFSET_MAX)
        return last + 1 if last is not None else 0

    def first_from(self, log_position: int, end: int) -> int:
        return self._rows.first_from(self._name, self._queue_id, log_position, end)

    def close(self) -> None:
        """Do nothing: a queue's rows hold nothing open."""


Units = QueueFiles | RowsUnits
"""A queue for reading only."""


def unit_at(units: Units, offset: int) -> Unit | None:
    """Return the unit in a slot; None where there is none, or one for a message that is gone."""
    data = units.read(offset, 1)
    if not data:
        return None
    unit = Unit(*unpack_unit(data, 0))
    return unit if 0 < unit.size_bytes < BLANK_SIZE else None
