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
from ._compare import archive as archived_rows
from ._count import check_topics, counts
from ._sources import STORE_BROKER, cluster_options, is_cluster, known_queues, messages_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..topics import Bounds

LEFT_OUT: Final = ("logicalQueue", "logPosition")
COLUMNS: Final = ("broker", *(name for name in MESSAGES if name not in LEFT_OUT))
DAY: Final = "date_from_unix_date(CAST(unix_millis(storeTimestamp) DIV 86400000 AS INT))"
"""The day of the store time in UTC, whatever the session's time zone is."""
NEEDED: Final = ("topic", "queue", "queueOffset", "storeTimestamp")
ORDER: Final = ("topic", "day", "broker", "queue", "queueOffset")
Offsets = dict[str, dict[str, int]]
QUEUE: Final = ("broker", "topic", "queue")
COMPARED: Final = 32
"""Messages at the beginning of a new queue of a cluster that are compared with those archived."""


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
    ``SourceError``, also if the source has no messages of a topic that is not archived yet.
    """
    if not is_cluster(source):
        known = {place.topic for place in open_archive(target).read().ends}
        if unknown := [one for one in topics if one not in known]:
            check_topics(source, unknown, counts(spark, source))
        messages = messages_of(spark, source, COLUMNS, topics=topics, broker=broker)
        return archive_rows(messages, target)
    named = cluster_options(source, topics, options)
    ends = open_archive(target).read().ends
    archived: Offsets = {}
    ending: Offsets = {}
    probed: dict[tuple[str, str], list[tuple[int, int]]] = {}
    alike = _by_queue(ends)
    for topic, queues in known_queues(source, topics, options).items():
        for name, bounds in queues.items():
            of_broker, _, queue = name.rpartition(":")
            place = ArchivedQueue(of_broker, topic, int(queue))
            span = ends.get(place)
            if span is not None and bounds.end < span.end:
                raise _began_again(target, place, span, bounds.end)
            done = bounds.first if span is None else max(bounds.first, span.end)
            archived.setdefault(topic, {})[name] = done
            ending.setdefault(topic, {})[name] = bounds.end
            probed[topic, name] = _probed(ends, alike, place, bounds)
    reader = spark.read.format("rocketmq").options(**named)
    reader = reader.option("columns", ",".join(COLUMNS)).option("failOnDataLoss", "false")

    def between(begin: Offsets, end: Offsets) -> "DataFrame":
        edges = {"startingOffsets": json.dumps(begin), "endingOffsets": json.dumps(end)}
        return reader.options(**edges).load()

    probe = between(ending, ending)
    for read in range(max(map(len, probed.values()), default=0)):
        first, last = ({topic: dict(of) for topic, of in ending.items()} for _ in range(2))
        for (topic, name), ranges in probed.items():
            if read < len(ranges):
                first[topic][name], last[topic][name] = ranges[read]
        probe = probe.union(between(first, last))
    return archive_rows(between(archived, ending), target, probe=probe)


def _by_queue(ends: Mapping[ArchivedQueue, Span]) -> dict[tuple[str, int], list[ArchivedQueue]]:
    """Return the queues of every broker by topic and number."""
    found: dict[tuple[str, int], list[ArchivedQueue]] = {}
    for place in ends:
        found.setdefault(place[1:], []).append(place)
    return found


def _probed(
    ends: Mapping[ArchivedQueue, Span],
    alike: Mapping[tuple[str, int], list[ArchivedQueue]],
    place: ArchivedQueue,
    bounds: "Bounds",
) -> list[tuple[int, int]]:
    """Return the ranges of a cluster's queue to be compared with what is archived: its last
    archived message, or the beginnings that it may have in common with queues of other names."""
    if place in ends:
        end = max(bounds.first, ends[place].end)
        return [(max(bounds.first, end - 1), end)]
    begins = {max(bounds.first, ends[one].begin) for one in alike.get(place[1:], ())}
    return [(one, min(one + COMPARED, bounds.end)) for one in sorted(begins) if one < bounds.end]


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
    if absent := [name for name in NEEDED if name not in messages.columns]:
        raise SourceError(
            f"messages to archive have no column {', '.join(absent)}; they need"
            f" {', '.join(NEEDED)}, and should have all that are to be kept"
        )
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
    message of a queue is another one now, or if a new queue has messages that are archived."""
    from pyspark.sql import functions

    if not ends:
        return messages
    spark = messages.sparkSession
    rows = [(*place, span.end, span.last_id) for place, span in ends.items()]
    kinds = "broker string, topic string, queue int, archivedEnd bigint, lastId string"
    known = functions.broadcast(spark.createDataFrame(rows, kinds))
    names = ("queueOffset", *(["msgId"] if "msgId" in messages.columns else []))
    there = probe.select(*QUEUE, *names).join(known, list(QUEUE), "left")
    last = functions.when(there.queueOffset == there.archivedEnd - 1, functions.col(names[-1]))
    found = there.groupBy(*QUEUE, "archivedEnd", "lastId").agg(
        functions.max("queueOffset").alias("newest"), functions.first(last, True).alias("found")
    )
    new: list[ArchivedQueue] = []
    for row in found.collect():
        place = ArchivedQueue(row["broker"], row["topic"], row["queue"])
        if place not in ends:
            new.append(place)
            continue
        is_other = None not in (row["lastId"], row["found"]) and row["found"] != row["lastId"]
        if row["newest"] < row["archivedEnd"] - 1 or is_other:
            raise _began_again(target, place, ends[place], row["newest"] + 1)
    _check_new(probe, new, ends, target)
    joined = messages.join(known, list(QUEUE), "left")
    is_fresh = functions.isnull("archivedEnd") | (joined.queueOffset >= joined.archivedEnd)
    return joined.where(is_fresh).drop("archivedEnd", "lastId")


def _check_new(
    probe: "DataFrame",
    new: Sequence[ArchivedQueue],
    ends: Mapping[ArchivedQueue, Span],
    target: str,
) -> None:
    """Raise ``SourceError`` if a queue that the archive does not have has messages of one that it
    has by another name of the broker: those of its store, or of an old copy.

    A message is recognized by its place in the queue, its id and its store time; without ids,
    every one that has the same place must have the same time.
    """
    from pyspark.sql import functions

    alike = _by_queue(ends)
    rows = [(*place, other.broker) for place in new for other in alike.get(place[1:], ())]
    if not rows:
        return
    there = archived_rows(probe.sparkSession, target)
    kinds = "broker string, topic string, queue int, archivedAt string"
    wanted = functions.broadcast(probe.sparkSession.createDataFrame(rows, kinds))
    place = ("topic", "queue", "queueOffset")
    both_have = {*probe.columns} & {*there.columns}
    marks = [name for name in ("storeTimestamp", "msgId") if name in both_have]
    there = there.where(there.topic.isin(*{row[1] for row in rows})).select(
        functions.col("broker").alias("archivedAt"),
        *place,
        *(functions.col(name).alias(f"archived_{name}") for name in marks),
    )
    both = probe.select(*QUEUE, "queueOffset", *marks).join(wanted, list(QUEUE))
    both = both.join(there, ["archivedAt", *place])
    equal = " AND ".join(f"{name} <=> archived_{name}" for name in marks)
    counted = both.groupBy(*QUEUE, "archivedAt").agg(
        functions.count_if(functions.expr(equal)).alias("equal"), functions.count("*").alias("all")
    )
    enough = "equal > 0" if "msgId" in marks else "equal = all"
    row = counted.where(enough).orderBy(*QUEUE, "archivedAt").first()
    if row is not None:
        found = ArchivedQueue(row["broker"], row["topic"], row["queue"])
        raise _has_another_name(target, found, row["archivedAt"])


def _began_again(target: str, place: ArchivedQueue, span: Span, end: int) -> SourceError:
    where = f" at {place.broker}" if place.broker else ""
    return SourceError(
        f"{shown(target)}: queue {place.queue} of {place.topic}{where} is archived up to offset"
        f" {span.end}, and now it has other messages there or ends at {end}: its topic was deleted"
        " and made again, or the store is of another broker. Archive it in another directory, or"
        " with another `broker`"
    )


def _has_another_name(target: str, place: ArchivedQueue, before: str) -> SourceError:
    names = [f"named {name}" if name else "without a name" for name in (before, place.broker)]
    return SourceError(
        f"{shown(target)}: queue {place.queue} of {place.topic} is archived already, from a broker"
        f" {names[0]}, and comes from one {names[1]} now: its messages would be there twice."
        " Name the broker as before, by `broker` of a store or the column broker of rows"
    )
