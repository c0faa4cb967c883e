"""The job ``lag``: how far groups are behind, in stages too, and their dead letters."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from lanemq.wire import DLQ_PREFIX
from lanemq.wire.message import is_stage_group

from .._errors import SourceError
from .._uris import is_table, shown
from ..store import is_store
from ._compare import archive, table
from ._export import OFFSETS
from ._stages import StageProgress, progress_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUE: Final = ("topic", "queue")


@final
@dataclass(frozen=True, slots=True)
class Lag:
    """A group in a queue. Times are milliseconds since 1970."""

    group: str
    topic: str
    queue: int
    offset: int
    """The offset of the next message that the group will get."""
    end: int
    lag: int
    """Messages that the group has not consumed."""
    oldest_ms: int | None
    """Store time of the oldest, of those that are still there."""


@final
@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Messages that a group gave up."""

    group: str
    topic: str | None
    """Their origins, as far as they say."""
    messages: int
    oldest_ms: int
    newest_ms: int


@final
@dataclass(frozen=True, slots=True)
class Lagging:
    """The result of the job ``lag``."""

    source: str
    lag: int
    groups: list[Lag]
    dead: list[DeadLetters]
    stages: list[StageProgress]


def lag(spark: "SparkSession", source: str, *, offsets: str | None = None) -> Lagging:
    """Find lags, stages and dead letters in a store, or in an archive that ``export`` wrote.

    ``offsets`` is a store whose groups count, in place of the source's own. Raises
    ``SourceError`` where there are no offsets.
    """
    messages, ends = _messages(spark, source)
    committed = committed_offsets(spark, source, offsets).join(ends, list(QUEUE), "left")
    waiting = _oldest(committed.where("offset < end"), messages)
    rows = committed.join(waiting, ["group", *QUEUE], "left").orderBy("group", *QUEUE).collect()
    groups, stages = list[Lag](), list[StageProgress]()
    for row in rows:
        place, offset, end = (row["group"], row["topic"], row["queue"]), row["offset"], row["end"]
        if is_stage_group(row["group"]):
            progress = progress_of(*place, offset, end)
            stages += [] if progress is None else [progress]
        else:
            end = offset if end is None else end
            groups.append(Lag(*place, offset, end, max(0, end - offset), row["oldest"]))
    return Lagging(shown(source), sum(one.lag for one in groups), groups, _dead(messages), stages)


def _messages(spark: "SparkSession", source: str) -> "tuple[DataFrame, DataFrame]":
    """Return messages, and the offsets behind the last of each queue."""
    from pyspark.sql import functions

    if is_store(source):
        columns = "topic,queue,queueOffset,storeTimestamp,properties"
        messages = table(spark, source, "messages", columns=columns)
        placed = table(spark, source, "consume_queue", columns="topic,queue,queueOffset")
    else:
        messages = placed = archive(spark, source)
    ends = placed.groupBy(*QUEUE).agg((functions.max("queueOffset") + 1).alias("end"))
    return messages, ends


def committed_offsets(spark: "SparkSession", source: str, offsets: str | None) -> "DataFrame":
    """Return the offsets of groups, of a store or of an archive that ``export`` wrote.

    Raises ``SourceError``.
    """
    from pyspark.errors import AnalysisException

    names = ("group", "topic", "queue", "offset")
    if offsets is not None or is_store(source):
        return table(spark, offsets or source, "offsets").select(*names)
    lacking = SourceError(
        f"{shown(source)}: the archive has no offsets of groups: export with `with_offsets`, or"
        " name a store with `offsets`"
    )
    if is_table(source):
        raise lacking
    try:
        return spark.read.parquet(f"{source.rstrip('/')}/{OFFSETS}").select(*names)
    except AnalysisException as error:
        raise lacking from error


def _oldest(behind: "DataFrame", messages: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions

    placed = messages.select(*QUEUE, "queueOffset", "storeTimestamp")
    unread = functions.broadcast(behind.select("group", *QUEUE, "offset")).join(placed, list(QUEUE))
    unread = unread.where("queueOffset >= offset")
    oldest = functions.unix_millis(functions.min("storeTimestamp")).alias("oldest")
    return unread.groupBy("group", *QUEUE).agg(oldest)


def _dead(messages: "DataFrame") -> list[DeadLetters]:
    from pyspark.sql import functions

    dead = messages.where(messages.topic.startswith(DLQ_PREFIX))
    origin = functions.coalesce(dead.properties["DLQ_ORIGIN_TOPIC"], dead.properties["RETRY_TOPIC"])
    counts = (
        dead.withColumn("origin", origin)
        .groupBy("topic", "origin")
        .agg(
            functions.count("*").alias("count"),
            functions.unix_millis(functions.min("storeTimestamp")).alias("oldest"),
            functions.unix_millis(functions.max("storeTimestamp")).alias("newest"),
        )
    )
    return [
        DeadLetters(
            row["topic"].removeprefix(DLQ_PREFIX),
            row["origin"],
            row["count"],
            row["oldest"],
            row["newest"],
        )
        for row in counts.orderBy("topic", "origin").collect()
    ]
