"""The job ``find``: messages by key, over stores, archives and topics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, final

from ._count import check_sources
from ._outputs import require_new
from ._sources import is_cluster, messages_of, require_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = (
    *("broker", "topic", "queue", "queueOffset", "msgId", "keys", "tags", "storeTimestamp"),
    "body",
)
LIMIT: Final = 1000


@final
@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message that has a key, and where it is."""

    source: str
    broker: str
    topic: str
    queue: int
    queue_offset: int
    message_id: str
    keys: str | None
    tags: str | None
    store_ms: int
    body_bytes: int | None
    """The size of the body; None if it is damaged."""


def find(
    spark: "SparkSession",
    sources: Sequence[str],
    keys: Sequence[str],
    *,
    topics: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    options: Mapping[str, str] | None = None,
    output: str | None = None,
    limit: int = LIMIT,
) -> list[FoundMessage]:
    """Find messages that have one of the keys, or one as their unique key, by store time.

    ``since`` and ``until`` limit the store time; of an archive only the files of those days are
    read. ``output`` is a new directory for the whole messages as Parquet. At most ``limit`` are
    returned. Raises ``SourceError``, also for one of ``topics`` of which no source has messages.
    """
    from pyspark.sql import functions

    require_new(spark, output)
    columns = COLUMNS if output is None else (*COLUMNS, "properties")
    parts = []
    for source in sources:
        require_source(source)
        found = messages_of(spark, source, columns, topics=topics, options=options)
        found = find_rows(found, keys, since=since, until=until)
        parts.append(found.drop("day").withColumn("source", functions.lit(source)))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    shown = whole.orderBy("storeTimestamp", "topic", "queue", "queueOffset").limit(limit)
    rows = shown.select(
        *("source", "broker", "topic", "queue", "queueOffset", "msgId", "keys", "tags"),
        functions.unix_millis("storeTimestamp").alias("ms"),
        functions.octet_length("body").alias("bytes"),
    )
    found_rows = [FoundMessage(*row) for row in rows.collect()]
    if not any(map(is_cluster, sources)):  # a cluster that was read has the topics
        check_sources(spark, sources, {*topics} - {one.topic for one in found_rows})
    if output is not None:
        whole.write.mode("errorifexists").parquet(output)
    return found_rows


def find_rows(
    messages: "DataFrame",
    keys: Sequence[str],
    *,
    since: datetime | None = None,
    until: datetime | None = None,
) -> "DataFrame":
    """Return the rows of a table of messages that have one of the keys, or one as unique key.

    A column ``day`` is the day of the store time in UTC, as archives have it.
    """
    from pyspark.sql import functions

    wanted = functions.array(*(functions.lit(key) for key in keys))
    own = functions.split(functions.coalesce("keys", functions.lit("")), " ")
    found = messages.where(
        functions.arrays_overlap(own, wanted) | functions.col("msgId").isin(*keys)
    )
    stored = functions.col("storeTimestamp")
    if since is not None:
        found = found.where(stored >= functions.lit(since))
    if until is not None:
        found = found.where(stored < functions.lit(until))
    if "day" in messages.columns:  # of an archive only the files of these days are read
        day = functions.col("day").cast("string")
        if since is not None:
            found = found.where(day >= since.astimezone(UTC).date().isoformat())
        if until is not None:
            found = found.where(day <= until.astimezone(UTC).date().isoformat())
    return found
