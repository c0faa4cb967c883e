"""The job ``audit``: whether a group has consumed every message of a topic exactly once.

Three things are put together: the messages of the topic, the group's offsets, and records of what
its consumers did. A broker knows the offsets alone: they say that a message was passed, not that
it was consumed, and not how often. Clients say more in the message trace, if they write one: a
record before and behind each call of a listener, found again by the message's unique key, which
a message keeps over its retries.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from lanemq.wire import SystemTopic, dlq_topic

from .._errors import SourceError
from .._uris import shown
from ..store import is_store
from ._count import check_topics, counts
from ._lag import committed_offsets
from ._outputs import require_new
from ._sources import messages_of, require_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ONCE: Final = "once"
REPEATED: Final = "repeated"
FAILED: Final = "failed"
DEAD: Final = "dead letter"
UNRECORDED: Final = "no record"
WAITING: Final = "waiting"
QUEUE: Final = ("topic", "queue")
PLACE: Final = (*QUEUE, "queueOffset", "msgId")
SHOWN: Final = 100


@final
@dataclass(frozen=True, slots=True)
class AuditedMessage:
    """A message that was not consumed exactly once, as far as records say."""

    queue: int
    queue_offset: int
    message_id: str
    kind: str
    attempts: int
    successes: int


@final
@dataclass(frozen=True, slots=True)
class Audited:
    """The result for a topic and a group."""

    topic: str
    group: str
    messages: int
    kinds: dict[str, int]
    """Kind -> messages: once, repeated, failed, dead letter, no record, waiting."""
    first: list[AuditedMessage]
    """The first hundred that are neither ``once`` nor ``waiting``, by queue and offset."""

    @property
    def is_exact(self) -> bool:
        """True if every message that the group has passed was consumed exactly once."""
        return not set(self.kinds) - {ONCE, WAITING}


def audit(
    spark: "SparkSession",
    source: str,
    topic: str,
    group: str,
    *,
    offsets: str | None = None,
    records: str | None = None,
    trace_topic: str = SystemTopic.TRACE,
    output: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Audited:
    """Say of every message of a topic what a group did with it.

    ``source`` has the messages, the trace and the dead letters: a store, or an archive of these
    topics. ``offsets`` is a store whose offsets count, in place of the source's own. ``records``
    are files of Parquet with columns group, msgId and success, in place of the trace. ``output``
    is a new directory for a row for every message. Raises ``SourceError``.
    """
    require_new(spark, output)
    require_source(source)
    place = offsets or source
    if not is_store(place):
        raise SourceError(
            f"{shown(place)} has no offsets of groups: name a store that has them, by `offsets`"
        )
    columns = (*PLACE, "body", "properties")

    def of(name: str) -> "DataFrame":
        # A table of its own each: Spark keeps the filters of the last scan for all scans of one.
        return messages_of(spark, source, columns, topics=(name,), options=options)

    progress = committed_offsets(spark, source, offsets)
    groups = sorted(row["group"] for row in progress.select("group").distinct().collect())
    if group not in groups:  # all of its messages would wait, as if all were well
        raise SourceError(
            f"{shown(place)} has no offsets of a group {group}; it has those of"
            f" {', '.join(groups[:SHOWN]) or 'no group'}"
            f"{f' and {len(groups) - SHOWN} more' if len(groups) > SHOWN else ''}"
        )
    told = trace_records(of(trace_topic)) if records is None else spark.read.parquet(records)
    rows = audit_rows(of(topic), progress, told, group=group, dead=of(dlq_topic(group)))
    rows = rows.persist()
    try:
        if output is not None:
            rows.write.mode("errorifexists").parquet(output)
        by_kind = rows.groupBy("kind").count().orderBy("kind").collect()
        odd = rows.where(~rows.kind.isin(ONCE, WAITING)).orderBy("queue", "queueOffset")
        first = odd.limit(SHOWN).collect()
    finally:
        rows.unpersist()
    kinds = {row["kind"]: row["count"] for row in by_kind}
    names = ("queue", "queueOffset", "msgId", "kind", "attempts", "successes")
    shown_rows = [AuditedMessage(*(row[name] for name in names)) for row in first]
    if not kinds:
        check_topics(source, [topic], counts(spark, source))
        raise SourceError(f"{shown(source)}: has no messages of {topic} in queues")
    return Audited(topic, group, sum(kinds.values()), kinds, shown_rows)


def trace_records(messages: "DataFrame") -> "DataFrame":
    """Return the calls of listeners that messages of a trace topic record.

    A row for each call that ended: group, msgId, success. Clients before 4.9 leave the group out
    of the record at the end; it is taken from the one at the beginning, by the number of the call.
    """
    from pyspark.sql import functions

    texts = functions.split(functions.col("body").cast("string"), "\x02")
    each = messages.select(functions.explode(texts).alias("text"))
    lines = each.select(functions.split("text", "\x01").alias("f"))
    begun = lines.where("f[0] = 'SubBefore'").selectExpr(
        "f[3] AS begunGroup", "f[4] AS request", "f[5] AS msgId"
    )
    ended = lines.where("f[0] = 'SubAfter'").selectExpr(
        "f[1] AS request",
        "f[2] AS msgId",
        "lower(f[4]) = 'true' AS success",
        "try_element_at(f, 9) AS endedGroup",
    )
    joined = ended.join(begun.distinct(), ["request", "msgId"], "left")
    group = functions.coalesce("endedGroup", "begunGroup").alias("group")
    return joined.select(group, "msgId", "success", "request").distinct().drop("request")


def audit_rows(
    messages: "DataFrame",
    progress: "DataFrame",
    records: "DataFrame",
    *,
    group: str,
    dead: "DataFrame | None" = None,
) -> "DataFrame":
    """Return a row for each message: topic, queue, queueOffset, msgId, attempts, successes, kind.

    ``progress`` has the columns group, topic, queue and offset; ``records`` a row for each attempt
    to consume: group, msgId, success; ``dead`` the messages of the group's dead letter topic.
    Kinds: ``once`` and ``repeated`` (successful records), ``dead letter``, ``failed`` (records, and
    none is successful), ``no record`` (the group is past it), ``waiting`` (it is not).
    """
    from pyspark.sql import functions

    counted = (
        records.where(records.group == group)
        .groupBy("msgId")
        .agg(
            functions.count("*").alias("attempts"),
            functions.count_if("success").alias("successes"),
        )
    )
    offsets = progress.where(progress.group == group).select(*QUEUE, "offset")
    joined = messages.select(*PLACE).join(functions.broadcast(offsets), list(QUEUE), "left")
    joined = joined.join(counted, "msgId", "left").fillna(0, ["attempts", "successes"])
    if dead is None:
        joined = joined.withColumn("isDead", functions.lit(False))
    else:
        given_up = dead.select("msgId").distinct().withColumn("isDead", functions.lit(True))
        joined = joined.join(given_up, "msgId", "left").fillna(False, ["isDead"])
    is_passed = functions.coalesce(joined["queueOffset"] < joined["offset"], functions.lit(False))
    kind = (
        functions.when(joined.successes > 1, REPEATED)
        .when(joined.successes == 1, ONCE)
        .when(joined.isDead, DEAD)
        .when(joined.attempts > 0, FAILED)
        .when(is_passed, UNRECORDED)
        .otherwise(WAITING)
    )
    return joined.select(*PLACE, "attempts", "successes", kind.alias("kind"))
