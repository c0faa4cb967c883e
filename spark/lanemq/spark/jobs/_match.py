"""The job ``compare``: messages of two sources, by unique key and checksum."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from .._uris import shown
from ._compare import DIFFERENT, MISSING_LEFT, MISSING_RIGHT
from ._count import check_sources
from ._outputs import require_new
from ._sources import messages_of, require_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPEATED: Final = "repeated"
COLUMNS: Final = ("topic", "msgId", "keys", "tags", "body", "flag")
SHOWN: Final = 100


@final
@dataclass(frozen=True, slots=True)
class MessageDifference:
    """A message that two sources do not have alike."""

    topic: str
    message_id: str
    """The unique key that the sender made."""
    kind: str
    """``missing left``, ``missing right``, ``different``, or ``repeated``: as often as not."""
    left: int
    """Messages of this key on the left side."""
    right: int


@final
@dataclass(frozen=True, slots=True)
class Compared:
    """The result: messages of each side, and where they differ."""

    left: str
    right: str
    left_messages: int
    right_messages: int
    differences: dict[str, int]
    """Kind -> unique keys."""
    first: list[MessageDifference]
    """The first hundred, by topic and key."""


def compare(
    spark: "SparkSession",
    left: str,
    right: str,
    *,
    topics: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    output: str | None = None,
) -> Compared:
    """Compare the messages of two sources: stores, archives, or topics of a cluster.

    A message is found by its topic and unique key, wherever it is; body, keys, tags and flag are
    compared. ``output`` is a new directory for every difference as Parquet. Raises ``SourceError``,
    for a topic of which neither has a message too.
    """
    require_new(spark, output)
    sides = []
    for source in (left, right):
        require_source(source)
        sides.append(messages_of(spark, source, COLUMNS, topics=topics, options=options))
    found = compare_rows(*sides)
    found = found.persist()
    try:
        if topics:
            there = found.select("topic").distinct().collect()
            check_sources(spark, (left, right), {*topics} - {row["topic"] for row in there})
        wrong = found.where("kind is not null")
        if output is not None:
            wrong.write.mode("errorifexists").parquet(output)
        totals = found.selectExpr("sum(left)", "sum(right)").collect()[0]
        kinds = wrong.groupBy("kind").count().orderBy("kind").collect()
        rows = wrong.orderBy("topic", "msgId").limit(SHOWN).collect()
    finally:
        found.unpersist()
    return Compared(
        shown(left),
        shown(right),
        totals[0] or 0,
        totals[1] or 0,
        {row["kind"]: row["count"] for row in kinds},
        [MessageDifference(*(row[name] for name in RESULT)) for row in rows],
    )


RESULT: Final = ("topic", "msgId", "kind", "left", "right")


def compare_rows(left: "DataFrame", right: "DataFrame") -> "DataFrame":
    """Return a row for each topic and unique key of two tables of messages.

    Columns: topic, msgId, left and right (how many messages each side has of it), and kind, which
    is null if both have the same. Both tables have the columns topic, msgId, keys, tags, body and
    flag; a body that is null, for it was damaged, is like no other.
    """
    from pyspark.sql import functions

    sides = [_counted(side, name) for side, name in ((left, "left"), (right, "right"))]
    joined = sides[0].join(sides[1], ["topic", "msgId"], "full_outer")
    has_left, has_right = (functions.isnotnull(f"{name}Sums") for name in ("left", "right"))
    is_same = functions.col("leftSums") == functions.col("rightSums")
    is_sound = ~functions.array_contains("leftSums", "damaged")
    same_kinds = functions.array_distinct("leftSums") == functions.array_distinct("rightSums")
    kind = (
        functions.when(~has_left, MISSING_LEFT)
        .when(~has_right, MISSING_RIGHT)
        .when(is_same & is_sound, functions.lit(None))
        .when(same_kinds & is_sound, REPEATED)
        .otherwise(DIFFERENT)
    )
    counts = [
        functions.coalesce(functions.size(f"{name}Sums"), functions.lit(0)).alias(name)
        for name in ("left", "right")
    ]
    return joined.select("topic", "msgId", kind.alias("kind"), *counts)


def _counted(messages: "DataFrame", name: str) -> "DataFrame":
    from pyspark.sql import functions

    fields = [functions.coalesce(one, functions.lit("")) for one in ("keys", "tags")]
    lengths = [functions.length(one).cast("string") for one in fields]
    flag = functions.coalesce(functions.col("flag").cast("string"), functions.lit("0"))
    texts = functions.concat_ws("\x01", *lengths, *fields, flag)
    whole = functions.concat(texts.cast("binary"), functions.col("body"))
    checksum = functions.coalesce(functions.sha2(whole, 256), functions.lit("damaged"))
    sums = functions.sort_array(functions.collect_list(checksum)).alias(f"{name}Sums")
    return messages.groupBy("topic", "msgId").agg(sums)
