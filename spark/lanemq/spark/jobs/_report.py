"""The job ``report``: a page with charts about the messages of a store or an archive."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from .._uris import shown
from ..store import is_store, write_file
from ._compare import archive, table
from ._lag import Lagging, lag
from ._page import Page, draw

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN: Final = 10
"""Topics and tags that have a colour, or a bar, of their own."""
LAGS: Final = 20
"""Bars of lags, and of stages."""
BUCKETS: Final = 120
"""Points of time on the axis of rates, at most."""
STEPS_S: Final = (1, 10, 60, 600, 3600, 6 * 3600, 86400)
COLUMNS: Final = ("topic", "tags", "storeSize", "storeTimestamp")


@final
@dataclass(frozen=True, slots=True)
class Reported:
    """The numbers of a report."""

    source: str
    output: str
    messages: int
    size_bytes: int
    topics: int
    lag: int


def report(spark: "SparkSession", source: str, output: str) -> Reported:
    """Write a page of HTML that needs nothing else: rates, sizes, tags, lags and stages.

    ``source`` is a store at rest, or an archive of Parquet; ``output`` is a path or URI of a
    file. Raises ``SourceError``.
    """
    messages, lagging = _messages(spark, source).persist(), _lags(spark, source)
    try:
        page = _page(source, messages, lagging)
    finally:
        messages.unpersist()
    write_file(output, draw(page).encode())
    return Reported(
        shown(source),
        shown(output),
        page.messages,
        page.size_bytes,
        page.topics,
        lagging.lag,
    )


def _messages(spark: "SparkSession", source: str) -> "DataFrame":
    if is_store(source):
        return table(spark, source, "messages", columns=",".join(COLUMNS))
    return archive(spark, source).select(*COLUMNS)


def _lags(spark: "SparkSession", source: str) -> Lagging:
    from .._errors import SourceError

    try:
        return lag(spark, source)
    except SourceError:
        if is_store(source):
            raise
        return Lagging(source, 0, [], [], [])  # an archive without offsets


def _page(source: str, messages: "DataFrame", lagging: Lagging) -> Page:
    from pyspark.sql import functions

    seconds = functions.unix_seconds("storeTimestamp")
    total = messages.agg(
        functions.count("*").alias("count"),
        functions.sum("storeSize").alias("bytes"),
        functions.min(seconds).alias("first"),
        functions.max(seconds).alias("last"),
    ).collect()[0]
    span = (total["last"] or 0) - (total["first"] or 0)
    step = next((one for one in STEPS_S if span / one <= BUCKETS), STEPS_S[-1])
    by_topic = messages.groupBy("topic").agg(
        functions.count("*").alias("count"), functions.sum("storeSize").alias("bytes")
    )
    topics = {
        row["topic"]: (row["count"], row["bytes"])
        for row in by_topic.orderBy(functions.desc("count"), "topic").collect()
    }
    largest = list(topics)[:SHOWN]
    named = functions.when(messages.topic.isin(*largest), messages.topic).otherwise("others")
    begun = (seconds - seconds % step).alias("begun")
    rates: dict[str, dict[int, float]] = {}
    for row in messages.groupBy(named.alias("name"), begun).count().orderBy("begun").collect():
        rates.setdefault(row["name"], {})[row["begun"]] = row["count"] / step
    power = functions.ceil(functions.log2("storeSize")).cast("int").alias("power")
    sizes = {
        1 << row["power"]: row["count"]
        for row in messages.groupBy(power).count().orderBy("power").collect()
    }
    tags = messages.groupBy(functions.coalesce("tags", functions.lit("(none)")).alias("tag"))
    most = tags.count().orderBy(functions.desc("count"), "tag").limit(SHOWN).collect()
    return Page(
        source=shown(source),
        messages=total["count"],
        size_bytes=total["bytes"] or 0,
        topics=len(topics),
        first_s=total["first"],
        last_s=total["last"],
        step_s=step,
        rates=rates,
        topic_bytes={name: topics[name][1] for name in largest},
        sizes=sizes,
        tags={row["tag"]: row["count"] for row in most},
        lags=sorted(lagging.groups, key=lambda one: -one.lag)[:LAGS],
        stages=sorted(lagging.stages, key=lambda one: -one.waiting - one.finished)[:LAGS],
    )
