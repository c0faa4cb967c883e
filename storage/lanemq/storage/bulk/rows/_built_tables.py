"""Sorted tables that other processes made of parts of the log, for a conversion.

They may be made in many processes at once: a part needs nothing of those before it.
What does depend on them is judged when tables are taken in: whether a queue goes on where the part
before left it. Where it does not, or where offsets within a part do not follow each other, its
neighbours judge (ADR 031): the conversion reads that part itself.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

from lanemq.wire import LMQ_PREFIX

from ...queues.rocks._queue_rows import OFFSET_MAX, QueueRows


@final
@dataclass(frozen=True, slots=True)
class QueueBegins:
    """The log position from which on messages still belong to a queue: its topic may have been
    deleted, and queue files that were written all the time do not have what was deleted."""

    oldest: Mapping[tuple[str, int], int]
    """Queue with files -> position of its oldest message."""
    topics: frozenset[str]
    """The topics that there are."""
    files_end: int
    """Position behind the newest message that has a unit in a file."""

    def __call__(self, topic: str, queue_id: int) -> int:
        found = self.oldest.get((topic, queue_id))
        if found is not None:
            return found
        is_known = topic in self.topics or topic.startswith(LMQ_PREFIX)
        return 0 if is_known else self.files_end


@final
@dataclass(frozen=True, slots=True)
class TablesPlan:
    """The part of the log that tables are wanted of; goes to any process."""

    log: Path
    """The directory of the log."""
    begin: int
    end: int
    directory: Path
    """An empty directory for the tables, on the disk of the store."""
    delays_ms: tuple[int, ...]
    deleted: Mapping[str, int]
    begins: QueueBegins


class BuiltQueue(NamedTuple):
    """The rows of a queue in a table: their smallest offset, and the newest message."""

    topic: str
    queue_id: int
    first_offset: int
    newest_position: int
    newest_offset: int


@final
@dataclass(frozen=True, slots=True)
class BuiltTable:
    """The rows of the records that begin in ``begin`` to ``end`` of the log."""

    begin: int
    end: int
    path: Path | None
    """The file; None without rows."""
    rows: int
    queues: list[BuiltQueue]
    is_even: bool = True
    """True if the offsets of each queue follow each other. Otherwise there is no file."""

    def follows(self, ends: Mapping[tuple[bytes, int], int]) -> bool:
        """Return whether each queue goes on behind its newest message so far, by offset in
        ``ends``, or had none."""
        names = [(one.topic.encode(), one.queue_id, one.first_offset) for one in self.queues]
        return self.is_even and all(
            ends.get((topic, queue_id), first - 1) == first - 1 for topic, queue_id, first in names
        )

    def newest(self) -> dict[tuple[bytes, int], tuple[int, int]]:
        """Return the log position and offset of each queue's newest message."""
        return {
            (one.topic.encode(), one.queue_id): (one.newest_position, one.newest_offset)
            for one in self.queues
        }


MakeTables = Callable[[TablesPlan], Iterable[BuiltTable]]
"""Makes tables of the whole part of the log, and gives them in its order."""


def go_back(rows: QueueRows, table: BuiltTable) -> None:
    """Remove rows of queues that begin again in a table, or go back in it. Raises ``OSError``."""
    batch, goes_back = rows.batch(), False
    for one in table.queues:
        keys = rows.keys(one.topic.encode(), one.queue_id)
        if not one.first_offset:
            batch.delete_queue(keys)
            goes_back = True
            continue
        newest = rows.max_row(one.topic, one.queue_id)
        is_older = newest is not None and newest.log_position < one.newest_position
        if newest is not None and is_older and one.first_offset <= newest.queue_offset:
            batch.delete_units(keys, one.first_offset, OFFSET_MAX)
            goes_back = True
    if goes_back:
        batch.write()
        rows.flush()
