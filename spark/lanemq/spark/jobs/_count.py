"""The job ``count``: messages by topic."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from lanemq.wire import is_system_topic

from .._errors import SourceError
from .._uris import shown
from ..store import is_store, require_store, topic_counts
from ._compare import archive
from ._sources import is_cluster, known_queues, require_source
from ._tasks import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN: Final = 10
"""Topics of a source that an error names if none is near to the one that is not there."""


def count(
    spark: "SparkSession",
    source: str,
    *,
    topics: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Return how many messages each topic of a store, an archive or a cluster has.

    Of a store these are the records of the log; of a cluster the offsets between the oldest
    message of each queue and its end, by its brokers. Raises ``SourceError``, also if there are no
    messages of one of ``topics``, or no such topic in a cluster.
    """
    require_source(source)
    if is_cluster(source):
        known = known_queues(source, topics, options)
        return {
            topic: sum(bounds.end - bounds.first for bounds in queues.values())
            for topic, queues in sorted(known.items())
        }
    return known_counts(spark, source, topics)


def known_counts(spark: "SparkSession", source: str, topics: Sequence[str]) -> dict[str, int]:
    """Return how many messages a store or an archive has of each of ``topics``, or of all topics.

    Raises ``SourceError`` that names the topics which are there if one of ``topics`` is not.
    """
    found = counts(spark, source, topics)
    if absent := [topic for topic in topics if topic not in found]:
        check_topics(source, absent, counts(spark, source))
    return found


def counts(spark: "SparkSession", source: str, topics: Sequence[str] = ()) -> dict[str, int]:
    """Return how many messages each topic of a store or an archive has. Raises ``SourceError``."""
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


def check_sources(spark: "SparkSession", sources: Sequence[str], absent: Collection[str]) -> None:
    """Raise ``SourceError`` if no store and no archive among sources has messages of a topic."""
    if not absent:
        return
    there: Counter[str] = Counter()
    for source in sources:
        if not is_cluster(source):
            there.update(counts(spark, source))
    check_topics(" and ".join(map(shown, sources)), absent, there)


def check_topics(source: str, topics: Collection[str], there: Mapping[str, int]) -> None:
    """Raise ``SourceError`` if some of ``topics`` are not those of a source.

    It has the names that are near; without any the first ones that are there.
    """
    texts = []
    for absent in sorted(set(topics) - there.keys()):
        near = " and ".join(get_close_matches(absent, there)) or _first(there)
        texts.append(f"{absent} (it has {near})" if near else absent)
    if texts:
        raise SourceError(f"{shown(source)}: has no messages of {', '.join(texts)}")


def _first(there: Mapping[str, int]) -> str:
    names = sorted(there, key=lambda name: (name.startswith("%") or is_system_topic(name), name))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
