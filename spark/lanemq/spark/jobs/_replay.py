"""The job ``replay``: an archive of messages into a topic, each queue in its order."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, final

from .._errors import SourceError, TooFewQueues
from .._uris import DELTA, ICEBERG, absolute, shown
from ..store import StoreFiles
from ..topics import COLUMNS, Cluster, Replay, check_replayed
from ._compare import archive as messages_of
from ._count import check_topics, counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
    store_host: str | None = None,
) -> ReplayedTopic:
    """Send the messages of ``topic`` in an archive, of Parquet or a table, to the topic ``target``.

    Queue 0 goes to the first queue of the target, and so on. ``name`` is the same for every run
    that is to go on with the one before; by default it follows from topics, from ``store_host``,
    the address of the one broker whose messages are meant, and from the archive's place: the same
    for a path, that path from here, and a table of Delta Lake there. Raises ``SourceError``,
    also if the target has fewer queues, or the archive has messages of several brokers: their
    offsets are not one order.
    """
    target = target or topic
    if spark.sparkContext.getConf().get("spark.speculation", "false") == "true":
        raise SourceError(
            "spark.speculation=true runs a task twice at a time, which would send messages twice:"
            " switch it off for a replay"
        )
    found = messages_of(spark, archive)
    found = found.where(found.topic == topic)
    if store_host is not None:
        found = found.where(found.storeHost == store_host)
    _check_is_of_one_broker(archive, topic, found)
    found = found.select(*COLUMNS)
    last = found.agg({"queue": "max"}).collect()[0][0]
    if last is None:
        check_topics(archive, [topic], counts(spark, archive))
        raise SourceError(f"{shown(archive)}: has no messages of {topic} from {store_host}")
    work = Replay(cluster, target, name or _name(archive, topic, target, store_host))
    queues = len(work.targets())
    if queues <= last:
        raise TooFewQueues(target, queues, topic=topic, last=last)
    _check_is_the_replayed(found, work, last + 1)

    ordered = found.repartition(last + 1, "queue").sortWithinPartitions("queue", "queueOffset")
    done = ordered.rdd.mapPartitions(work.run).collect()
    return ReplayedTopic(
        shown(archive),
        topic,
        target,
        work.name,
        sum(one.sent for one in done),
        sum(one.there for one in done),
        sum(one.left_out for one in done),
        len(done),
    )


def _check_is_of_one_broker(archive: str, topic: str, found: "DataFrame") -> None:
    """Raise ``SourceError`` if two messages have one place: they are of different brokers."""
    from pyspark.sql import functions

    if not {"msgId", "storeHost"} <= set(found.columns):
        return
    places = found.groupBy("queue", "queueOffset").agg(
        functions.count_distinct("msgId").alias("messages"),
        functions.array_sort(functions.collect_set("storeHost")).alias("hosts"),
    )
    double = places.where("messages > 1").orderBy("queue", "queueOffset").first()
    if double is not None:
        raise SourceError(
            f"{shown(archive)}: queue {double['queue']} of {topic} has two messages at offset"
            f" {double['queueOffset']}, from {' and '.join(double['hosts'])}: the archive is of"
            " several brokers. Replay the messages of one after the other: `store_host`"
        )


def _check_is_the_replayed(found: "DataFrame", work: Replay, queues: int) -> None:
    """Raise ``SourceError`` if another archive was replayed by this name, before anything is sent:
    a task knows only its own queues."""
    from pyspark.sql import functions

    progress = work.progress(queues)
    if not progress:
        return
    rows = [(one.number, one.done) for one in progress]
    done = found.sparkSession.createDataFrame(rows, "queue int, done bigint")
    there = found.select("queue", "queueOffset").join(functions.broadcast(done), "queue")
    ends = there.where("queueOffset <= done").groupBy("queue").agg({"queueOffset": "max"})
    newest = " OR ".join(f"(queue = {row[0]} AND queueOffset = {row[1]})" for row in ends.collect())
    if newest:
        check_replayed(progress, found.where(newest).collect(), work.topic)


def _name(archive: str, topic: str, target: str, store_host: str | None) -> str:
    parts = [_place(archive), topic, target, *([store_host] if store_host else [])]
    digest = blake2b("\n".join(parts).encode(), digest_size=6)
    return f"replay_{digest.hexdigest()}"


def _place(archive: str) -> str:
    """Return the one name of an archive's place, however it is addressed."""
    if archive.startswith(ICEBERG):
        return archive
    place = absolute(archive.removeprefix(DELTA))
    files = StoreFiles(place)
    return str(files.local_root) if files.is_local else place.rstrip("/")
