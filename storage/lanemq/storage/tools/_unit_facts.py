"""The facts that the units of a store depend on beside the records of its log."""

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import final

from .._errors import StoreCorrupted
from ..checkpoint._watermarks import WatermarkFile
from ..disk._real_files import RealFiles
from ..queues.rocks._queue_rows import QueueRows
from ..rocks import QueueDatabase, is_present
from .reading._delay_levels import find_delay_levels
from .reading._directory import StoreDirectory


@final
@dataclass(frozen=True, slots=True)
class UnitFacts:
    """The facts, as far as the store shows them."""

    delays_ms: tuple[int, ...]
    """The delays of levels 1, 2, ..."""
    deleted: dict[str, int]
    """Topic -> end of the log when it was deleted, as lanemq's brokers note it."""


def find_unit_facts(store: StoreDirectory) -> UnitFacts:
    """Look for the facts, by its queues and by the notes of its broker. Raises ``OSError``."""
    known = WatermarkFile(RealFiles(), store.root).load()
    with ExitStack() as stack:
        rows = None
        if is_present(store.consume_queue):
            with suppress(StoreCorrupted):
                rows = QueueRows(QueueDatabase(store.consume_queue, read_only=True))
                stack.callback(rows.close)
        delays = find_delay_levels(store, rows).delays_ms
    return UnitFacts(delays, dict(known.deleted) if known is not None else {})
