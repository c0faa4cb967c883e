"""The proof that a place in the log is a message's: its queue names the place."""

from .._search import first_kept
from ..log._records import queue_offset_of
from ..queues._queues import ConsumeQueue


def is_queued(record: bytes, log_position: int, queue: ConsumeQueue) -> bool:
    """Return whether a queue has the record that begins at a position.

    It has it in the slot that the record states, or, where slots are shifted, as 5.3.3 does it,
    in another one: units lie in the order of the log.
    """

    def position_from(offset: int, _end: int) -> tuple[int, int] | None:
        found = queue.unit_from(offset)
        return None if found is None else (found[0], found[1].log_position)

    def is_at(slot: int) -> bool:
        unit = queue.unit(slot) if queue.min <= slot < queue.end else None
        return unit is not None and unit.log_position == log_position

    return is_at(queue_offset_of(record)) or is_at(
        first_kept(log_position, queue.min, queue.end, position_from)
    )
