"""The job ``count``: messages by topic."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..store import is_store, require_store, topic_counts
from ._compare import archive
from ._sources import is_cluster, known_queues, require_source
from ._tasks import in_tasks

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
    if is_store(source):
        return store_counts(spark, source, topics)
    found = archive(spark, source)
    if topics:
        found = found.where(found.topic.isin(*topics))
    rows = found.groupBy("topic").count().collect()
    return dict(sorted((row["topic"], row["count"]) for row in rows))


def store_counts(spark: "SparkSession", store: str, topics: Sequence[str] = ()) -> dict[str, int]:
    """Return how many records of each topic the log of a store has. Raises ``SourceError``."""
    require_store(store)
    found: Counter[str] = Counter()
    for counted in in_tasks(spark, topic_counts(store, topics)):
        found += counted
    return dict(sorted(found.items()))
