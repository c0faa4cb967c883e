"""The job ``export``: the messages of a store as files by topic and day."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from .._errors import SourceError
from ._compare import table
from ._count import check_topics, store_counts
from ._outputs import require_new

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


OFFSETS: Final = "_offsets"
"""The directory of the groups' offsets. Readers of Parquet take names with ``_`` for no data."""
DROPMALFORMED: Final = "DROPMALFORMED"
"""The mode that leaves rows out, which then cannot be counted against the store."""


@final
@dataclass(frozen=True, slots=True)
class Exported:
    """The result: rows of each topic as they are in the files, and what the store had."""

    target: str
    rows: int
    topics: dict[str, int]
    damaged: int
    """Pieces of the log that are damaged; what was not a record is in no file."""


def export(
    spark: "SparkSession",
    store: str,
    target: str,
    *,
    file_format: str = "parquet",
    topics: Sequence[str] = (),
    mode: str = "PERMISSIVE",
    with_offsets: bool = False,
) -> Exported:
    """Write the messages of a store, and count what was written by reading it again.

    Files are at ``target/topic=T/day=YYYY-MM-DD``, the day being the store time's in the session's
    time zone. ``target`` must not exist. ``with_offsets`` writes how far groups are, too, which
    wants a store that no broker has open. Raises ``SourceError`` where a topic has no messages,
    and where the files have another number of rows than the store.
    """
    from pyspark.sql import functions

    require_new(spark, target)
    only = ",".join(topics)
    there = store_counts(spark, store)
    check_topics(store, topics, there)
    expected = {topic: there[topic] for topic in sorted({*topics} or there)}
    messages = table(spark, store, "messages", mode=mode, topics=only)
    dated = messages.withColumn("day", functions.to_date("storeTimestamp"))
    writer = dated.write.partitionBy("topic", "day").mode("errorifexists")
    writer.format(file_format).save(target)
    # No cast of what look like numbers or dates in the names of directories.
    written = spark.read.format(file_format).schema(dated.schema).load(target)
    found = _counts(written)
    if mode != DROPMALFORMED and found != expected:
        raise SourceError(
            f"{target}: has other messages than the store: {_differences(found, expected)}. The"
            " files are not to be used: remove them, and export again from a store that no"
            " broker changes"
        )
    if with_offsets:
        offsets = table(spark, store, "offsets")
        offsets.coalesce(1).write.parquet(f"{target.rstrip('/')}/{OFFSETS}")
    damaged = table(spark, store, "damage").count()
    return Exported(target, sum(found.values()), found, damaged)


def _counts(messages: "DataFrame") -> dict[str, int]:
    rows = messages.groupBy("topic").count().orderBy("topic").collect()
    return {row["topic"]: row["count"] for row in rows}


def _differences(found: dict[str, int], expected: dict[str, int]) -> str:
    names = sorted(found.keys() | expected.keys())
    return ", ".join(
        f"{name} {found.get(name, 0)} in place of {expected.get(name, 0)}"
        for name in names
        if found.get(name) != expected.get(name)
    )
