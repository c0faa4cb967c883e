"""The job ``verify``: the log of a store, and its queues against the log."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from .._uris import shown
from ..store import CloseState, close_state, queue_sources
from ._compare import LOG, MISSING_LEFT, MISSING_RIGHT, differences, table, units

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SHOWN: Final = 100
"""Pieces of damage that a report lists."""


@final
@dataclass(frozen=True, slots=True)
class Damaged:
    """A piece of the log that is damaged or missing."""

    file: str
    log_position: int
    kind: str
    why: str


@final
@dataclass(frozen=True, slots=True)
class VerifiedQueues:
    """One form of the queues against the log."""

    source: str
    """``files`` or ``rocksdb``."""
    counts: bool
    """True if a broker in the store's stage reads this form; else gaps in it do no harm."""
    missing: int
    """Messages of the log without a unit."""
    wrong: int
    """Units that are of another message than the log has there."""
    superfluous: int
    """Units for which the log has no message."""
    pending: int
    """Messages without a unit that the next start adds, for the store was not closed cleanly."""
    of_deleted: int
    """Messages of topics that are gone."""


@final
@dataclass(frozen=True, slots=True)
class VerifiedStore:
    """The result for one store."""

    store: str
    is_clean: bool
    records: int
    damage: dict[str, int]
    """Kind -> pieces of the log."""
    first_damage: list[Damaged]
    queues: list[VerifiedQueues]

    @property
    def is_sound(self) -> bool:
        """True if nothing is wrong with what brokers use."""
        bad = any(
            one.counts and (one.missing or one.wrong or one.superfluous) for one in self.queues
        )
        return not self.damage and not bad


def verify(spark: "SparkSession", store: str) -> VerifiedStore:
    """Check every record of the log with its body, and every unit of the queues against the log,
    both ways. Raises ``SourceError`` for a store that cannot be read."""
    state = close_state(store)
    damage = table(spark, store, "damage").orderBy("logPosition").collect()
    kinds: dict[str, int] = {}
    for row in damage:
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + 1
    wanted = units(spark, store, LOG).persist()
    records = table(spark, store, "messages", columns="queueOffset").count()
    topics = table(spark, store, "topics").select("topic")
    try:
        queues = [
            _compared(units(spark, store, source), wanted, topics, source, counts, state)
            for source, counts in queue_sources(store)
        ]
    finally:
        wanted.unpersist()
    first = [
        Damaged(row["file"], row["logPosition"], row["kind"], row["why"]) for row in damage[:SHOWN]
    ]
    return VerifiedStore(shown(store), state.is_clean, records, kinds, first, queues)


def _compared(
    found: "DataFrame",
    wanted: "DataFrame",
    topics: "DataFrame",
    source: str,
    counts: bool,
    state: CloseState,
) -> VerifiedQueues:
    from pyspark.sql import functions

    existing = topics.union(found.select("topic")).distinct().withColumn("exists", functions.lit(1))
    joined = differences(found, wanted).join(existing, "topic", "left")
    missing = joined.kind == MISSING_LEFT
    deleted = missing & functions.isnull("exists")
    pending = missing & ~deleted & _is_pending(state)
    cases = (
        functions.when(deleted, "of_deleted")
        .when(pending, "pending")
        .when(missing, "missing")
        .when(joined.kind == MISSING_RIGHT, "superfluous")
        .otherwise("wrong")
    )
    rows = joined.withColumn("case", cases).groupBy("case").count().collect()
    numbers = {row["case"]: row["count"] for row in rows}
    names = ("missing", "wrong", "superfluous", "pending", "of_deleted")
    return VerifiedQueues(source, counts, *(numbers.get(name, 0) for name in names))


def _is_pending(state: CloseState) -> "Column":
    from pyspark.sql import functions

    if state.is_clean:
        return functions.lit(False)
    since = functions.timestamp_millis(functions.lit(state.redone_from_ms))
    stored: Column = functions.col("right")["storeTimestamp"] >= since
    return stored
