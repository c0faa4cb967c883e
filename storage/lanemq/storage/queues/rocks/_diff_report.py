"""The result of a comparison of RocksDB with the queue files.

Offsets count messages of a queue. Source of the texts: RocketMQ 5.3.3,
AdminBrokerProcessor.doCheckRocksdbCqWriteProgress.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, final


class PlacedUnit(NamedTuple):
    """A unit and its slot."""

    queue_offset: int
    log_position: int
    size_bytes: int
    tags_code: int

    def __str__(self) -> str:
        """Write the unit as the reference prints it."""
        return (
            f"CqUnit{{queueOffset={self.queue_offset}, size={self.size_bytes},"
            f" pos={self.log_position}, batchNum=1, tagsCode={self.tags_code},"
            " compactedOffset=0}"
        )


class Difference(NamedTuple):
    """The first message whose two units are not the same; None for one that is missing."""

    queue_offset: int
    files: PlacedUnit | None
    rows: PlacedUnit | None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDiff:
    """The result of the comparison of one queue."""

    topic: str
    queue_id: int
    files_min: int
    files_end: int
    rows_min: int
    rows_end: int
    files_first: PlacedUnit | None
    files_last: PlacedUnit | None
    rows_first: PlacedUnit | None
    rows_last: PlacedUnit | None
    checked_from: int
    """Offset from which on units decide whether the queue is ready; ``files_end`` for an old
    queue."""
    difference: Difference | None
    """The first difference from ``checked_from`` on."""
    older_difference: Difference | None
    """The first difference between ``rows_min`` and ``checked_from``, if there is none behind
    that."""
    kv_starts_at: int | None
    """Offset at which the rows begin, if the files begin earlier; else None."""
    committed: int | None
    """The smallest offset that a group committed; None where none is known."""

    @property
    def is_ready(self) -> bool:
        """True if the queue is ready in the reference's sense: no difference from ``checked_from``
        on."""
        return self.difference is None

    @property
    def is_safe_to_switch(self) -> bool:
        """True if RocksDB has every message that the groups have still to read."""
        if self.difference is not None or self.older_difference is not None:
            return False
        wanted = max(self.files_min, self.committed if self.committed is not None else 0)
        return self.files_min >= self.files_end or self.rows_min <= wanted

    @property
    def first_missing(self) -> int | None:
        """The first offset in the files that RocksDB lacks or has differently."""
        if self.kv_starts_at is not None:
            return self.files_min
        found = self.older_difference or self.difference
        return found.queue_offset if found is not None else None

    def describe(self) -> str:
        """Write the lines that the reference prints for a queue, its slip in the last label
        included."""
        return (
            f"[topic: {self.topic}, queue:  {self.queue_id}] \n"
            f"  kvEarliest : {_text(self.rows_first)} |  kvLatest : {_text(self.rows_last)} \n"
            f" fileEarliest: {_text(self.files_first)} | fileEarliest: {_text(self.files_last)} \n"
        )


def _text(unit: PlacedUnit | None) -> str:
    return str(unit) if unit is not None else "null"


@final
@dataclass(frozen=True, slots=True)
class DiffReport:
    """The result of the comparison of many queues."""

    queues: tuple[QueueDiff, ...]

    @property
    def is_ready(self) -> bool:
        return all(queue.is_ready for queue in self.queues)

    @property
    def is_safe_to_switch(self) -> bool:
        return all(queue.is_safe_to_switch for queue in self.queues)

    def describe(self, topics_now: int | None = None) -> str:
        """Write the line that the reference prints for all topics.

        ``topics_now`` counts topics after the comparison; those compared if not given.
        """
        topics = {queue.topic for queue in self.queues}
        failed = {queue.topic for queue in self.queues if not queue.is_ready}
        now = topics_now if topics_now is not None else len(topics)
        found = (
            f"success/all : {len(topics) - len(failed)}/{len(topics)}"
            if failed
            else f"all topic is ready, checkSize: {len(topics)}"
        )
        return f"check all topic finish, {found}, currentQueueNum: {now}"


def diff_report(queues: Iterable[QueueDiff]) -> DiffReport:
    """Make the report of all queues, sorted by topic and queue."""
    return DiffReport(tuple(sorted(queues, key=lambda queue: (queue.topic, queue.queue_id))))
