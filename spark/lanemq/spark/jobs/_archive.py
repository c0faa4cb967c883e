"""The job ``archive``: messages that are not archived yet, added as Parquet in one commit."""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from .._errors import SourceError
from .._schemas import MESSAGES
from .._uris import absolute, shown
from ..archives import ArchivedQueue, Span, open_archive
from ._sources import STORE_BROKER, cluster_options, is_cluster, known_queues, messages_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEFT_OUT: Final = ("logicalQueue", "logPosition")
COLUMNS: Final = ("broker", *(name for name in MESSAGES if name not in LEFT_OUT))
DAY: Final = "date_from_unix_date(CAST(unix_millis(storeTimestamp) DIV 86400000 AS INT))"
"""The day of the store time in UTC, whatever the session's time zone is."""
ORDER: Final = ("topic", "day", "broker", "queue", "queueOffset")
Offsets = dict[str, dict[str, int]]
QUEUE: Final = ("broker", "topic", "queue")


@final
@dataclass(frozen=True, slots=True)
class Archived:
    """The result of a run."""

    target: str
    version: int
    """The commit that has the messages; that of an earlier run if there were none."""
    messages: int
    """Messages that this run has added."""
    topics: dict[str, int]
    """Topic -> messages that this run has added."""
    missing: int
    """Offsets between those archived of which the source had no message, in all runs."""


def archive(
    spark: "SparkSession",
    source: str,
    target: str,
    *,
    topics: Sequence[str] = (),
    broker: str = STORE_BROKER,
    options: Mapping[str, str] | None = None,
) -> Archived:
    """Add to an archive what it does not have yet of a store, or of topics of a cluster.

    ``target`` is a directory, or a table, ``delta:PATH`` or ``iceberg://CATALOG/NAMESPACE.TABLE``;
    it is made where it lacks.
    A cluster is ``rocketmq://HOST:PORT``, and is read from the last archived offset of each queue
    on. ``broker`` names the broker of a store: stores of several brokers need a name each. Without
    ``topics`` a store's topics are archived but for those that are a broker's own. Raises
    ``SourceError``.
    """
    if not is_cluster(source):
        messages = messages_of(spark, source, COLUMNS, topics=topics, broker=broker)
        return archive_rows(messages, target)
    named = cluster_options(source, topics, options)
    ends = open_archive(target).read().ends
    starting: Offsets = {}
    archived: Offsets = {}
    ending: Offsets = {}
    for topic, queues in known_queues(source, topics, options).items():
        for name, bounds in queues.items():
            of_broker, _, queue = name.rpartition(":")
            place = ArchivedQueue(of_broker, topic, int(queue))
            span = ends.get(place)
            if span is not None and bounds.end < span.end:
                raise _began_again(target, place, span, bounds.end)
            done = bounds.first if span is None else max(bounds.first, span.end)
            # The last archived message is read once more, and compared.
            starting.setdefault(topic, {})[name] = max(bounds.first, done - 1)
            archived.setdefault(topic, {})[name] = done
            ending.setdefault(topic, {})[name] = bounds.end
    reader = spark.read.format("rocketmq").options(**named)
    reader = reader.option("columns", ",".join(COLUMNS)).option("failOnDataLoss", "false")

    def between(begin: Offsets, end: Offsets) -> "DataFrame":
        edges = {"startingOffsets": json.dumps(begin), "endingOffsets": json.dumps(end)}
        return reader.options(**edges).load()

    messages, probe = between(archived, ending), between(starting, archived)
    return archive_rows(messages, target, probe=probe)


def archive_rows(
    messages: "DataFrame", target: str, *, probe: "DataFrame | None" = None
) -> Archived:
    """Add those rows to an archive whose offsets it does not have yet, in one commit.

    ``messages`` has the columns of messages, at least topic, queue, queueOffset and
    storeTimestamp, and broker if they are of several. Its rows have to be the same whenever they
    are read, as those of a store at rest or of a range of offsets are. A run that is killed leaves
    the archive as it was; the next one removes what it left. ``probe`` has the same columns, and of
    each archived queue the last message at least, to be compared; by default ``messages`` is read
    once more for it. Raises ``SourceError`` if a queue began again; if it has an offset twice, the
    sink's error.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import StructField, StructType

    from .._register import register

    register(messages.sparkSession)
    target = absolute(target)
    if "broker" not in messages.columns:
        messages = messages.withColumn("broker", functions.lit(STORE_BROKER))
    messages = messages.withColumn("day", functions.expr(DAY))
    commits, run = open_archive(target), uuid.uuid4().hex[:16]
    kinds = [StructField(field.name, field.dataType) for field in messages.schema]
    commits.prepare(StructType(kinds))
    known = commits.begin(run)
    try:
        fresh = _fresh(messages, messages if probe is None else probe, known.ends, target)
        ordered = fresh.sortWithinPartitions(*ORDER)
        writer = ordered.write.format("rocketmq-archive").mode("append")
        writer.option("run", run).save(target)
        found = commits.read()
    finally:
        commits.end(run)
    added: dict[str, int] = {}
    for place, span in found.ends.items():
        before = known.ends.get(place)
        first = span.begin if before is None else before.end
        lacking = found.missing.get(place, 0) - known.missing.get(place, 0)
        if count := span.end - first - lacking:
            added[place.topic] = added.get(place.topic, 0) + count
    missing = sum(found.missing.values())
    return Archived(
        shown(target), found.version, sum(added.values()), dict(sorted(added.items())), missing
    )


def _fresh(
    messages: "DataFrame", probe: "DataFrame", ends: Mapping[ArchivedQueue, Span], target: str
) -> "DataFrame":
    """Return the rows behind those that are archived. Raises ``SourceError`` if the last archived
    message of a queue is another one now."""
    from pyspark.sql import functions

    if not ends:
        return messages
    spark = messages.sparkSession
    rows = [(*place, span.end, span.last_id) for place, span in ends.items()]
    kinds = "broker string, topic string, queue int, archivedEnd bigint, lastId string"
    known = functions.broadcast(spark.createDataFrame(rows, kinds))
    names = ("queueOffset", *(["msgId"] if "msgId" in messages.columns else []))
    there = probe.select(*QUEUE, *names).join(known, list(QUEUE))
    last = functions.when(there.queueOffset == there.archivedEnd - 1, functions.col(names[-1]))
    found = there.groupBy(*QUEUE, "archivedEnd", "lastId").agg(
        functions.max("queueOffset").alias("newest"), functions.first(last, True).alias("found")
    )
    for row in found.collect():
        place = ArchivedQueue(row["broker"], row["topic"], row["queue"])
        is_other = row["lastId"] is not None and row["found"] not in (None, row["lastId"])
        if row["newest"] < row["archivedEnd"] - 1 or is_other:
            raise _began_again(target, place, ends[place], row["newest"] + 1)
    joined = messages.join(known, list(QUEUE), "left")
    is_fresh = functions.isnull("archivedEnd") | (joined.queueOffset >= joined.archivedEnd)
    return joined.where(is_fresh).drop("archivedEnd", "lastId")


def _began_again(target: str, place: ArchivedQueue, span: Span, end: int) -> SourceError:
    where = f" at {place.broker}" if place.broker else ""
    return SourceError(
        f"{shown(target)}: queue {place.queue} of {place.topic}{where} is archived up to offset"
        f" {span.end}, and now it has other messages there or ends at {end}: its topic was deleted"
        " and made again, or the store is of another broker. Archive it in another directory, or"
        " with another --broker"
    )
