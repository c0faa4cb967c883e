"""Rows for records that are read from the log again.

They may have rows already, their queue may have been deleted and made again in between, and rows
of newer messages may be there: the rows end up as if they had been written once, in order.
"""

from collections.abc import Callable
from typing import final

from ...derive._units import DerivedUnit
from ._queue_rows import OFFSET_MAX, QueueRows

Belongs = Callable[[DerivedUnit], bool]
"""A check that a message really has that place, as far as known."""


@final
class RocksRedo:
    """A collector of rows that writes them in batches; what RocksDB refuses is ``OSError``."""

    def __init__(self, rows: QueueRows, *, belongs: Belongs) -> None:
        self._rows = rows
        self._belongs = belongs
        self._ends: dict[tuple[str, int], tuple[int, int]] = {}
        self._entries: list[DerivedUnit] = []
        self._queues: set[tuple[str, int]] = set()
        self.has_written = False
        """True if any row was changed."""

    def __len__(self) -> int:
        return len(self._entries)

    def expected(self, unit: DerivedUnit) -> tuple[int, int] | None:
        """Return the answer for ``Sequences.expected``, by the rows."""
        topic, queue_id, _, position, *_ = unit
        rows = self._rows
        newest = rows.max_row(topic, queue_id)
        if newest is None or newest.log_position < position:
            return (newest.queue_offset + 1, newest.log_position) if newest is not None else None
        slot = rows.first_from(topic, queue_id, position, newest.queue_offset + 1)
        before = rows.previous_unit(topic.encode(), queue_id, slot - 1) if slot else None
        row = rows.unit(topic, queue_id, before) if before is not None else None
        return (before + 1, row.log_position) if before is not None and row is not None else None

    def is_known(self, unit: DerivedUnit) -> bool:
        """Return whether a row has the message in this slot."""
        row = self._rows.unit(unit.topic, unit.queue_id, unit.queue_offset)
        return row is not None and row.log_position == unit.log_position

    def pass_over(self, unit: DerivedUnit, slot: int | None) -> None:
        """Let a queue go on behind a message whose offset is damaged."""
        if slot is not None and self._belongs(unit):
            self._ends[unit[:2]] = unit.log_position, slot

    def put(self, unit: DerivedUnit) -> None:
        """Collect the row of a unit, for ``write``."""
        if not self._belongs(unit):
            return
        if unit.queue_offset == 0:
            self._begin_queue(unit.topic, unit.queue_id, unit.log_position)
        self._entries.append(unit)
        self._queues.add((unit.topic, unit.queue_id))

    def _begin_queue(self, topic: str, queue_id: int, log_position: int) -> None:
        """Remove rows of a queue of the same name that was deleted before this one began."""
        if (topic, queue_id) in self._queues:
            self.write(None)
        newest = self._rows.max_row(topic, queue_id)
        if newest is None:
            return
        self.has_written = True
        if newest.log_position < log_position:
            self._rows.delete_queue(topic, queue_id)
        elif self._rows.unit(topic, queue_id, newest.queue_offset + 1) is not None:
            # They came from the log a moment ago, and had been deleted before.
            self._rows.delete_units(topic, queue_id, newest.queue_offset + 1, OFFSET_MAX)

    def write(self, watermark: int | None) -> None:
        """Write the collected rows, with a watermark if one is given."""
        if not self._entries and not self._ends and watermark is None:
            return
        batch = self._rows.batch()
        first: dict[tuple[str, int], DerivedUnit] = {}
        last: dict[tuple[str, int], DerivedUnit] = {}
        for entry in self._entries:
            topic, queue_id, *unit = entry
            batch.put_unit(topic.encode(), queue_id, *unit)
            first.setdefault((topic, queue_id), entry)
            last[topic, queue_id] = entry
        ends = self._ends | {
            key: (entry.log_position, entry.queue_offset)
            for key, entry in last.items()
            if entry.log_position > self._ends.get(key, (-1, 0))[0]
        }
        for key, end in ends.items():
            newest = self._rows.max_row(*key)
            if newest is None or newest.log_position <= end[0]:
                batch.put_max(key[0].encode(), key[1], *end)
        for key, entry in first.items():
            oldest = self._rows.min_row(*key)
            if oldest is not None and oldest.queue_offset > entry.queue_offset:
                batch.put_min(key[0].encode(), key[1], entry.log_position, entry.queue_offset)
        if watermark is not None:
            batch.set_watermark(watermark)
        batch.write()
        self.has_written |= bool(self._entries or self._ends)
        self._entries = []
        self._ends = {}
        self._queues.clear()
