"""Rebuilding the RocksDB of the queues from the records of the log."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

from lanemq.local import FILE_MODE, make_directories, sync_path

from ...derive._units import DerivedUnit
from ...queues.rocks._queue_rows import OFFSET_MAX, QueueRows
from ...queues.rocks._row_format import OffsetRow
from ...rocks import QueueDatabase, move_aside

BATCH_ROWS: Final = 4096
READY: Final = ".ready"
MOVED: Final = ".moved"
ROW_FILE: Final = re.compile(r"IDENTITY|MANIFEST-\d+|OPTIONS-\d+|\d+\.(sst|log)")


@final
class RowsBuilder:
    """A builder of a database in a directory of its own. Offsets count messages."""

    def __init__(self, directory: Path) -> None:
        self._rows = QueueRows(QueueDatabase(directory))
        self._batch = self._rows.batch()
        self._left = BATCH_ROWS
        self._newest: dict[tuple[str, int], OffsetRow] = {}

    def add(self, unit: DerivedUnit) -> None:
        """Add the row of the next message of a queue.

        An offset that goes back is one handed out again, or that of a topic that was made again:
        what was from there on goes.
        """
        name, offset = unit[:2], unit.queue_offset
        newest = self._newest.get(name)
        if newest is not None and offset <= newest.queue_offset:
            self._write()
            self._rows.delete_units(*name, offset, OFFSET_MAX)
        topic, *row = unit
        self._batch.put_unit(topic.encode(), *row)
        self._newest[name] = OffsetRow(unit.log_position, offset)
        self._left -= 1
        if not self._left:
            self._write()

    def leave_out(self, name: tuple[str, int], offset: int, log_position: int) -> None:
        """Let a queue go on behind an offset, without a row for it."""
        self._newest[name] = OffsetRow(log_position, offset)

    def _write(self) -> None:
        self._batch.write()
        self._batch = self._rows.batch()
        self._left = BATCH_ROWS

    def finish(self, log_end: int, kept: Mapping[tuple[str, int], OffsetRow]) -> None:
        """Write the rest. ``kept``: newest messages of queues that have none left."""
        for (topic, queue_id), newest in {**kept, **self._newest}.items():
            self._batch.put_max(topic.encode(), queue_id, *newest)
        self._batch.set_watermark(log_end)
        self._batch.write()

    def close(self) -> None:
        """Close the database; what is written becomes durable. Raises ``OSError``."""
        self._rows.close()


def swap_database(new: Path, directory: Path, now_ms: int) -> Path | None:
    """Move a database into ``directory``, and the old one aside; returns where that is.

    CURRENT goes first and comes last: without it nobody takes the rest for a database. A swap
    that was interrupted is finished by calling this again: nothing of the new one is moved
    before all of the old one is away. Source of what is moved aside: ``move_aside``.
    """
    make_directories(directory)
    marker = new.with_name(f"{new.name}{MOVED}")
    aside = None
    if not marker.exists():
        aside = move_aside(directory, now_ms)
        marker.touch(FILE_MODE)
        sync_path(directory)
        sync_path(marker.parent)
    for path in sorted(new.iterdir()):
        if ROW_FILE.fullmatch(path.name):
            path.replace(directory / path.name)
    sync_path(directory)
    (new / "CURRENT").replace(directory / "CURRENT")
    sync_path(directory)
    return aside


def mark_ready(new: Path) -> None:
    """Note that a database is whole, so that an interrupted swap of it can be finished."""
    for path in (*new.iterdir(), new):
        sync_path(path)
    new.with_name(f"{new.name}{READY}").touch(FILE_MODE)
    sync_path(new.parent)


def finish_swap(new: Path, directory: Path, now_ms: int) -> None:
    """Finish a swap that was interrupted, if there was one."""
    if new.with_name(f"{new.name}{READY}").exists() and (new / "CURRENT").exists():
        swap_database(new, directory, now_ms)
