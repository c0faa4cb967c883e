"""The job ``replay``: an archive of messages into a topic, each queue in its order."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, final

from .._errors import SourceError
from ..topics import COLUMNS, Cluster, Replay
from ._compare import archive as messages_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@final
@dataclass(frozen=True, slots=True)
class ReplayedTopic:
    """The result. Run again after whatever stopped it, a replay goes on where it was."""

    archive: str
    topic: str
    target: str
    name: str
    """The name of the replay, in the property ``REPLAYED`` of each message."""
    sent: int
    there: int
    """Messages that were in the topic already, from an earlier run."""
    left_out: int
    """Messages whose bodies the archive lacks, for they were damaged."""
    queues: int


def replay(
    spark: "SparkSession",
    archive: str,
    topic: str,
    *,
    cluster: Cluster,
    target: str | None = None,
    name: str | None = None,
) -> ReplayedTopic:
    """Send the messages of ``topic`` in an archive of Parquet to the topic ``target``.

    Queue 0 goes to the first queue of the target, and so on. ``name`` is the same for every run
    that is to go on with the one before; by default it follows from archive and topics. Raises
    ``SourceError``, also where the target has fewer queues.
    """
    target = target or topic
    if spark.sparkContext.getConf().get("spark.speculation", "false") == "true":
        raise SourceError(
            "spark.speculation=true runs a task twice at a time, which would send messages twice:"
            " switch it off for a replay"
        )
    found = messages_of(spark, archive)
    found = found.where(found.topic == topic).select(*COLUMNS)
    last = found.agg({"queue": "max"}).collect()[0][0]
    if last is None:
        raise SourceError(f"{archive}: has no messages of {topic}")
    work = Replay(cluster, target, name or _name(archive, topic, target))
    queues = len(work.targets())
    if queues <= last:
        raise SourceError(
            f"{target} has {queues} queues, and {topic} has messages in queue {last}: their order"
            f" needs as many. `lanemq admin updateTopic -t {target} -r {last + 1} -w {last + 1}`"
            " makes them"
        )

    ordered = found.repartition(last + 1, "queue").sortWithinPartitions("queue", "queueOffset")
    done = ordered.rdd.mapPartitions(work.run).collect()
    return ReplayedTopic(
        archive,
        topic,
        target,
        work.name,
        sum(one.sent for one in done),
        sum(one.there for one in done),
        sum(one.left_out for one in done),
        len(done),
    )


def _name(archive: str, topic: str, target: str) -> str:
    digest = blake2b("\n".join((archive.rstrip("/"), topic, target)).encode(), digest_size=6)
    return f"replay_{digest.hexdigest()}"
