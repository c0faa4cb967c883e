"""The messages of a store, of an archive, or of topics of a cluster, as one table.

A cluster is named ``rocketmq://HOST:PORT``, the address of its name servers. Options for it are
those of the source ``rocketmq``: ``accessKey``, ``tls`` and so on. An archive is a directory, or a
table: ``delta:PATH``, or ``iceberg://CATALOG/NAMESPACE.TABLE``.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from lanemq.wire import is_system_topic

from .._errors import SourceError
from .._uris import CLUSTER, shown
from ..archives import is_archive
from ..store import is_store
from ..topics import Known, queue_bounds
from ._compare import archive, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STORE_BROKER: Final = ""
"""The name of the broker whose store is read, unless the caller knows it."""
UNPLACED: Final = 0x04 | 0x80
"""Bits of the sysFlag of records in no queue, and of several messages in one record."""


def is_cluster(source: str) -> bool:
    """Return whether a source is named as a cluster."""
    return source.startswith(CLUSTER)


def messages_of(
    spark: "SparkSession",
    source: str,
    columns: Sequence[str],
    *,
    topics: Sequence[str] = (),
    broker: str = STORE_BROKER,
    options: Mapping[str, str] | None = None,
) -> "DataFrame":
    """Return the messages of a source that are in queues, with the column ``broker``, and of an
    archive with the column ``day``, by which its files are told apart.

    Without ``topics`` all that are not a broker's own; a cluster needs them. Raises
    ``SourceError``.
    """
    from pyspark.sql import functions

    if is_cluster(source):
        named = cluster_options(source, topics, options)
        names = ",".join(dict.fromkeys((*columns, "broker")))
        return spark.read.format("rocketmq").options(**named).option("columns", names).load()
    if is_store(source):
        own = (name for name in columns if name != "broker")
        names = ",".join(dict.fromkeys((*own, "sysFlag", "topic")))
        found = table(spark, source, "messages", columns=names, topics=",".join(topics))
        found = found.where(found.sysFlag.bitwiseAND(UNPLACED) == 0)
    else:
        found = archive(spark, source)
    if "broker" not in found.columns:
        found = found.withColumn("broker", functions.lit(broker))
    if topics:
        found = found.where(found.topic.isin(*topics))
    else:
        there = [row["topic"] for row in found.select("topic").distinct().collect()]
        system = [name for name in there if is_system_topic(name)]
        found = found.where(~found.topic.isin(*system)) if system else found
    day = ["day"] if "day" in found.columns else []
    return found.select(*dict.fromkeys((*columns, "broker", *day)))


def cluster_options(
    source: str, topics: Sequence[str], options: Mapping[str, str] | None
) -> dict[str, str]:
    """Return the options of the source ``rocketmq``. Raises ``SourceError`` without topics."""
    if not topics:
        raise SourceError(f"{source}: name the topics of the cluster that are meant, by `topics`")
    return {
        **(options or {}),
        "nameserver": source.removeprefix(CLUSTER),
        "subscribe": ",".join(topics),
    }


def known_queues(source: str, topics: Sequence[str], options: Mapping[str, str] | None) -> Known:
    """Return the queues of topics of a cluster with their offsets. Raises ``SourceError``."""
    return queue_bounds(cluster_options(source, topics, options))


def require_source(source: str) -> None:
    """Raise ``SourceError`` if a path is neither a store nor an archive with commits."""
    if not is_cluster(source) and not is_store(source) and not is_archive(source):
        raise SourceError(
            f"{shown(source)} is neither a store (it has no commitlog) nor an archive that"
            " the job archive wrote; a cluster is named rocketmq://HOST:PORT"
        )
