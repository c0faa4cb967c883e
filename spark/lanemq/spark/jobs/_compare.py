"""Units of queues from two sides, compared by queue and offset."""

from typing import TYPE_CHECKING, Final

from .._errors import SourceError
from .._uris import is_table, shown
from ..archives import open_archive
from ..store import is_store, log_begin, require_store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

INFERENCE: Final = "spark.sql.sources.partitionColumnTypeInference.enabled"
LOG: Final = "log"
KEY: Final = ("topic", "queue", "queueOffset")
UNIT: Final = ("logPosition", "storeSize", "tagsCode")
MISSING_LEFT: Final = "missing left"
MISSING_RIGHT: Final = "missing right"
DIFFERENT: Final = "different"
EXTENDED_MAX: Final = -(1 << 32)
"""Tags codes below are addresses of extended units: nothing to compare."""


def table(spark: "SparkSession", store: str, name: str, **options: str) -> "DataFrame":
    """Return a table of a store. Raises ``SourceError`` if the directory is not a store."""
    require_store(store)
    reader = spark.read.format("rocketmq-store").option("table", name)
    return reader.options(**options).load(store)


def archive(spark: "SparkSession", source: str) -> "DataFrame":
    """Return the rows of an archive, or of files of Parquet; of an archive with commits, or a
    table, what they name.

    Raises ``SourceError`` where there is none.
    """
    from pyspark.errors import AnalysisException

    known = open_archive(source)
    files = known.paths() if known.exists() else None
    if files == [] or (files is None and is_table(source)):
        raise SourceError(f"{shown(source)}: nothing is archived yet")
    if files is None and is_store(source):
        raise SourceError(
            f"{shown(source)} is a store, and no archive: read it with"
            " spark.read.format('rocketmq-store')"
        )
    inferred = spark.conf.get(INFERENCE)
    try:
        # Topics are names of directories there, of which some look like numbers or dates.
        spark.conf.set(INFERENCE, "false")
        if files is None:
            return spark.read.parquet(source)
        return spark.read.option("basePath", known.root).parquet(*files)
    except AnalysisException as error:
        raise SourceError(
            f"{shown(source)} is not an archive: there are no files of Parquet. It is not a store"
            " either: it has no commitlog"
        ) from error
    finally:
        spark.conf.set(INFERENCE, inferred or "true")


def units(spark: "SparkSession", store: str, source: str) -> "DataFrame":
    """Return the units of a store's queues as ``source`` has them: files, rocksdb, log or auto.

    Units of messages that retention has removed are left out, and of the log what a queue that
    began again has left behind.
    """
    columns = ",".join((*KEY, *UNIT, "storeTimestamp"))
    options = {"from": source, "columns": columns}
    found = table(spark, store, "consume_queue", **options)
    begin = log_begin(store)
    if begin is None:
        raise SourceError(
            f"{shown(store)}: its log has no file, so nothing can be compared with it"
        )
    found = found.where(found.logPosition >= begin)
    return _latest(found) if source == LOG else found


def _latest(found: "DataFrame") -> "DataFrame":
    """Leave out rows that a later message of the queue in the log replaces.

    Such a message has the same offset or a smaller one.
    """
    from pyspark.sql import Window, functions

    queue = Window.partitionBy("topic", "queue").orderBy("logPosition")
    later = queue.rowsBetween(1, Window.unboundedFollowing)
    lowest = functions.min("queueOffset").over(later)
    marked = found.withColumn("lowestLater", lowest)
    is_last = functions.isnull("lowestLater") | (marked.lowestLater > marked.queueOffset)
    return marked.where(is_last).drop("lowestLater")


def differences(left: "DataFrame", right: "DataFrame") -> "DataFrame":
    """Return a row for each offset of a queue at which two sides differ.

    Columns: topic, queue, queueOffset, kind, and the units as structs ``left`` and ``right``.
    """
    from pyspark.sql import functions

    sides = [
        side.select(*KEY, functions.struct(*UNIT, "storeTimestamp").alias(name))
        for side, name in ((left, "left"), (right, "right"))
    ]
    joined = sides[0].join(sides[1], list(KEY), "full_outer")
    kind = (
        functions.when(functions.isnull("left"), MISSING_LEFT)
        .when(functions.isnull("right"), MISSING_RIGHT)
        .when(~_same(), DIFFERENT)
    )
    return joined.withColumn("kind", kind).where("kind is not null")


def _same() -> "Column":
    from pyspark.sql import functions

    left, right = functions.col("left"), functions.col("right")
    tags = left["tagsCode"] == right["tagsCode"]
    for side in (left, right):
        tags |= side["tagsCode"] < EXTENDED_MAX
    same_place = left["logPosition"] == right["logPosition"]
    return same_place & (left["storeSize"] == right["storeSize"]) & tags
