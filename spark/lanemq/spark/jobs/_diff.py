"""The job ``diff``: queues as files, RocksDB and the log have them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from .._uris import shown
from ._compare import differences, units
from ._outputs import require_new

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN: Final = 1000
"""Queues with differences that a report lists."""


@final
@dataclass(frozen=True, slots=True)
class QueueDifference:
    """The differences of one kind in a queue."""

    topic: str
    queue: int
    kind: str
    """``missing left``, ``missing right`` or ``different``."""
    count: int
    first_offset: int


@final
@dataclass(frozen=True, slots=True)
class Diffed:
    """The result: units that each side has, and where they differ."""

    store: str
    left: str
    right: str
    left_units: int
    right_units: int
    differences: int
    queues: list[QueueDifference]
    """The first thousand of them, by topic and queue."""


def diff(
    spark: "SparkSession", store: str, left: str, right: str, *, output: str | None = None
) -> Diffed:
    """Compare the queues of a store from two sides: ``files``, ``rocksdb``, ``log``.

    ``output`` is a directory, which must not exist, for every difference as Parquet.
    """
    require_new(spark, output)
    sides = [units(spark, store, side) for side in (left, right)]
    found = differences(*sides)
    if output is not None:
        found.write.mode("errorifexists").parquet(output)
        found = spark.read.parquet(output)
    queues = by_queue(found)
    return Diffed(
        shown(store),
        left,
        right,
        sides[0].count(),
        sides[1].count(),
        sum(one.count for one in queues),
        queues[:SHOWN],
    )


def by_queue(found: "DataFrame") -> list[QueueDifference]:
    """Count differences by queue and kind."""
    from pyspark.sql import functions

    counts = found.groupBy("topic", "queue", "kind").agg(
        functions.count("*").alias("count"), functions.min("queueOffset").alias("first")
    )
    rows = counts.orderBy("topic", "queue", "kind").collect()
    return [
        QueueDifference(row["topic"], row["queue"], row["kind"], row["count"], row["first"])
        for row in rows
    ]
