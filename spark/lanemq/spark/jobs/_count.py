"""The job ``count``: messages by topic."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..store import is_store
from ._compare import archive, table
from ._sources import is_cluster, known_queues, require_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def count(
    spark: "SparkSession",
    source: str,
    *,
    topics: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Return how many messages each topic of a store, an archive or a cluster has.

    Of a store these are the records of the log; of a cluster the offsets between the oldest
    message of each queue and its end, by its brokers. Raises ``SourceError``.
    """
    require_source(source)
    if is_cluster(source):
        known = known_queues(source, topics, options)
        return {
            topic: sum(bounds.end - bounds.first for bounds in queues.values())
            for topic, queues in sorted(known.items())
        }
    found = (
        table(spark, source, "messages", columns="topic")
        if is_store(source)
        else archive(spark, source)
    )
    if topics:
        found = found.where(found.topic.isin(*topics))
    rows = found.groupBy("topic").count().collect()
    return dict(sorted((row["topic"], row["count"]) for row in rows))
