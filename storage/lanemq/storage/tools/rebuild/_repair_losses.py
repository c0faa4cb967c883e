"""The losses of a repair: the rebuilt indexes compared with those of the store."""

from collections.abc import Container, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ..._errors import StoreCorrupted
from ...queues.rocks._queue_rows import QueueRows
from ...rocks import QueueDatabase
from ..reading._directory import StoreDirectory
from ..reading._queue_files import open_queue
from ..reading._units import RowsUnits
from ._losses import Loss, losses


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
