"""Units derived from the records of the log, for whatever keeps them.

One walk over records gives their units to whatever is made of the log: queue files, rows in
RocksDB, a check. The rules of what a record is in its queues stand here and in what this is made
of, and nowhere else. Source: RocketMQ 4.9.8, CommitLog.checkMessageAndReturnSize and the
CommitLogDispatchers.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, final

from ..log._records import Record
from ..queues._queue_positions import QueuePositions
from ..queues._tags import TagsCodes

EVERYWHERE: Final = QueuePositions(multi_dispatch=True, deleted={})


class DerivedUnit(NamedTuple):
    """A unit and its slot, from a record. ``queue_offset`` counts messages, ``log_position``
    bytes."""

    topic: str
    queue_id: int
    queue_offset: int
    log_position: int
    size_bytes: int
    tags_code: int
    store_ms: int


@final
class Derivation:
    """The derivation of units with one broker's settings."""

    def __init__(self, positions: QueuePositions, tags: TagsCodes) -> None:
        self.positions = positions
        self.tags = tags

    def walk(self, records: Iterable[Record]) -> Iterator[DerivedUnit]:
        """Iterate over the units of records; one is read when the units before it were taken."""
        for record in records:
            yield from self.units(record)

    def units(self, record: Record) -> Sequence[DerivedUnit]:
        """Return the units of a record: one in its queue and one in each light queue, or none."""
        if self.positions.is_single(record):
            return (self._unit(record, record.topic, record.queue_id, record.queue_offset),)
        return [self._unit(record, *position) for position in self.positions.of(record)]

    def _unit(self, record: Record, topic: str, queue_id: int, queue_offset: int) -> DerivedUnit:
        store_ms = record.store_timestamp_ms
        code = self.tags.code(record.topic, record.properties, store_ms)
        position = record.position
        return DerivedUnit(
            topic, queue_id, queue_offset, position, record.size_bytes, code, store_ms
        )


def is_message_of(
    record: Record | None, topic: str, queue_id: int, queue_offset: int | None = None
) -> bool:
    """Return whether a record is a message of a queue: at that offset, or at any."""
    if record is None:
        return False
    return any(
        position[:2] == (topic, queue_id) and queue_offset in (None, position.queue_offset)
        for position in EVERYWHERE.of(record)
    )
