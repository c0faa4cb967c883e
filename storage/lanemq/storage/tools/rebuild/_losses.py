"""The losses of a new index: messages that the old one leads to, and the new one does not.

A message can be read where a unit of its queue leads to its record in the log. In which slot does
not matter here, for slots that were shifted are put right.
"""

from collections.abc import Callable, Container, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import final

from ..._errors import StoreCorrupted
from ..._layouts import BLANK_SIZE, UNIT_BYTES, unpack_unit
from ...derive._compare import Verdict, differences
from ...derive._units import is_message_of
from ...log._records import record_at
from ...queues.rocks._queue_rows import QueueRows
from ...rocks import QueueDatabase
from ..reading._directory import StoreDirectory
from ..reading._pieces import Pieces
from ..reading._queue_files import open_queue
from ..reading._units import RowsUnits, Units, unit_at

OpenUnits = Callable[[str, int], Units]
"""Topic and queue id -> its units, perhaps none."""


@final
@dataclass(frozen=True, slots=True)
class Loss:
    """Messages of one queue that could no longer be read, and the first of them."""

    topic: str
    queue_id: int
    queue_offset: int
    log_position: int
    count: int

    def __str__(self) -> str:
        noun = "message" if self.count == 1 else "messages"
        return (
            f"{self.count} {noun} of queue {self.queue_id} of {self.topic}, from offset"
            f" {self.queue_offset} (position {self.log_position}) on"
        )


@final
@dataclass(slots=True)
class Losses:
    """The comparison of all queues of two indexes."""

    found: list[Loss] = field(default_factory=list)
    is_same: bool = True
    """True if the new index has each unit of the old one, byte by byte."""


def losses(
    log: Pieces,
    names: Iterable[tuple[str, int]],
    *,
    before: OpenUnits,
    after: OpenUnits,
    damaged: Container[int] = (),
) -> Losses:
    """Compare queue by queue; no message at a ``damaged`` position of the log is lost.

    Raises ``OSError``.
    """
    compared = Losses()
    for topic, queue_id in names:
        old, new = before(topic, queue_id), after(topic, queue_id)
        found = _loss(compared, log, topic, queue_id, old, new, damaged)
        old.close()
        new.close()
        if found is not None:
            compared.found.append(found)
    return compared


def losses_of_files(
    store: StoreDirectory,
    new: Path,
    names: Iterable[tuple[str, int]],
    *,
    damaged: Container[int],
) -> list[Loss]:
    """Compare queue files; ``new`` is the directory of the rebuilt queues, and messages at
    ``damaged`` positions got no unit. Raises ``OSError``."""
    return losses(
        store.log,
        names,
        before=store.queue,
        after=lambda topic, queue_id: open_queue(
            topic, queue_id, new / topic / str(queue_id), store.queue_file_bytes
        ),
        damaged=damaged,
    ).found


def losses_of_rows(store: StoreDirectory, new: Path, *, damaged: Container[int]) -> list[Loss]:
    """Compare rows with those of the database ``new``. None where brokers cannot read the store's.
    Raises ``OSError``."""
    with ExitStack() as stack:
        try:
            old_rows = QueueRows(QueueDatabase(store.consume_queue, read_only=True))
        except StoreCorrupted:
            return []
        stack.callback(old_rows.close)
        new_rows = QueueRows(QueueDatabase(new, read_only=True))
        stack.callback(new_rows.close)
        try:
            return losses(
                store.log,
                sorted(old_rows.stored_queues()),
                before=partial(RowsUnits, old_rows),
                after=partial(RowsUnits, new_rows),
                damaged=damaged,
            ).found
        except OSError:  # a table that cannot be read: brokers cannot either
            return []


def _loss(
    compared: Losses,
    log: Pieces,
    topic: str,
    queue_id: int,
    old: Units,
    new: Units,
    damaged: Container[int],
) -> Loss | None:
    first, count, end = (-1, -1), 0, -1
    for begin, units in old.blocks():
        others = new.read(begin, len(units) // UNIT_BYTES)
        if others == units:
            continue
        compared.is_same = False
        for number, verdict in differences(others, units):
            position, size_bytes, _ = unpack_unit(units, number * UNIT_BYTES)
            if not 0 < size_bytes < BLANK_SIZE or position < log.begin:
                continue  # its message is gone
            if verdict is Verdict.TAGS or position in damaged:
                continue
            if end < 0:
                end = new.written_end()
            if _leads_to(new, position, end) or not is_readable(log, topic, queue_id, position):
                continue
            if not count:
                first = begin + number, position
            count += 1
    return Loss(topic, queue_id, *first, count) if count else None


def _leads_to(units: Units, log_position: int, end: int) -> bool:
    at = units.first_from(log_position, end)
    unit = unit_at(units, at) if at < end else None
    return unit is not None and unit.log_position == log_position


def is_readable(log: Pieces, topic: str, queue_id: int, log_position: int) -> bool:
    """Return whether the record at a position is a message of the queue."""
    return is_message_of(record_at(log, log_position), topic, queue_id)
