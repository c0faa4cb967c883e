"""Messages that the indexes of a store name, as evidence of what the messages' heads say."""

from contextlib import suppress
from typing import final

from ...derive._units import DerivedUnit
from ...queues.rocks._queue_rows import QueueRows
from ..reading._units import Units, unit_at
from ._losses import OpenUnits


@final
class KnownMessages:
    """Tells ``Sequences`` of a message's presence in an index, in the slot that its head names."""

    def __init__(self, open_files: OpenUnits, rows: QueueRows | None) -> None:
        self._open_files = open_files
        self._rows = rows
        self._files: dict[tuple[str, int], Units] = {}

    def __call__(self, unit: DerivedUnit) -> bool:
        topic, queue_id, offset, position, *_ = unit
        files = self._files.get((topic, queue_id))
        if files is None:
            files = self._files[topic, queue_id] = self._open_files(topic, queue_id)
        found = unit_at(files, offset)
        if found is not None and found.log_position == position:
            return True
        if self._rows is None:
            return False
        with suppress(OSError):  # a table that cannot be read proves nothing
            row = self._rows.unit(topic, queue_id, offset)
            return row is not None and row.log_position == position
        return False

    def close(self) -> None:
        """Close the files."""
        for files in self._files.values():
            files.close()
        self._files.clear()
