"""The jobs ``kv export``, ``kv import`` and ``kv diff``: states of keys and values as tables."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from .._errors import SourceError
from .._uris import shown
from ..store import close_state, is_store
from ..topics import Cluster, KvLoad
from ._compare import DIFFERENT, MISSING_LEFT, MISSING_RIGHT, archive, table
from ._outputs import require_new

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMES: Final = ("createTimestamp", "updateTimestamp", "expireTimestamp")
ENTRY: Final = ("value", "version", *TIMES)
COLUMNS: Final = ("namespace", "key", *ENTRY)
SHOWN: Final = 100
"""Keys that a diff lists."""


@final
@dataclass(frozen=True, slots=True)
class KvExported:
    """The result: entries of each namespace, and how many records of its log they are made of."""

    target: str
    entries: dict[str, int]
    positions: dict[str, int]


@final
@dataclass(frozen=True, slots=True)
class KvImported:
    """The result of an import."""

    source: str
    namespace: str
    entries: int


@final
@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A key of which two states differ; ``key`` in hexadecimal."""

    namespace: str
    key: str
    kind: str


@final
@dataclass(frozen=True, slots=True)
class KvDiffed:
    """The result: entries of each side, and where they differ."""

    left: str
    right: str
    left_entries: int
    right_entries: int
    differences: dict[str, int]
    """Kind -> keys."""
    first: list[KeyDifference]


def export_kv(
    spark: "SparkSession", store: str, target: str, *, namespace: str | None = None
) -> KvExported:
    """Write the entries of a store at rest as Parquet, and count what was written.

    Files are at ``target/namespace=N``. Raises ``SourceError`` where there is no such namespace.
    """
    from pyspark.sql import functions

    require_new(spark, target)
    columns = ",".join((*COLUMNS, "modified", "position", "clock"))
    found = _chosen(_state(spark, store, columns), namespace)
    counts = _counts(found)
    if not counts:
        what = "no entries" if namespace is None else f"no entries in namespace {namespace}"
        raise SourceError(f"{shown(store)}: there are {what}")
    found.write.partitionBy("namespace").mode("errorifexists").parquet(target)
    written = spark.read.schema(found.schema).parquet(target)
    rows = written.groupBy("namespace").agg(
        functions.count("*").alias("count"), functions.max("position").alias("position")
    )
    done = {row["namespace"]: (row["count"], row["position"]) for row in rows.collect()}
    entries = {name: count for name, (count, _) in sorted(done.items())}
    if entries != counts:
        raise SourceError(
            f"{target}: has other entries than {shown(store)}: remove it, and export again"
        )
    return KvExported(target, entries, {name: position for name, (_, position) in done.items()})


def import_kv(
    spark: "SparkSession",
    source: str,
    *,
    namespace: str,
    cluster: Cluster,
    target: str | None = None,
    broker: str | None = None,
    replace: bool = False,
) -> KvImported:
    """Take the entries of a namespace over, with versions and times, through a broker's log.

    ``source`` is an export, or a store at rest. The namespace ``target`` has to be empty, or
    ``replace`` empties it. What is there in the end is counted. Raises ``SourceError``.
    """
    from pyspark.sql import functions

    times = [functions.unix_millis(name).alias(name) for name in TIMES]
    found = _chosen(_entries(spark, source), namespace).select("key", "value", "version", *times)
    count = found.count()
    if not count:
        raise SourceError(f"{shown(source)}: there is no namespace {namespace}, or it is empty")
    work = KvLoad(cluster, target or namespace, broker)
    work.prepare(replace=replace)

    found.rdd.mapPartitions(work.load).collect()
    there = work.entries()
    if there > count:
        raise SourceError(
            f"namespace {work.namespace} has {there} entries, not {count}: something else wrote to"
            " it meanwhile. Import again with `replace`, while nothing does"
        )
    return KvImported(source, work.namespace, there)


def diff_kv(
    spark: "SparkSession", left: str, right: str, *, namespace: str | None = None
) -> KvDiffed:
    """Compare the entries of two states, each a store at rest or an export.

    Raises ``SourceError``, also where neither has entries in ``namespace``.
    """
    from pyspark.sql import functions

    sides = [_chosen(_entries(spark, one), namespace) for one in (left, right)]
    left_entries, right_entries = (side.count() for side in sides)
    if namespace is not None and not left_entries and not right_entries:
        raise SourceError(
            f"neither {shown(left)} nor {shown(right)} has entries in namespace {namespace}"
        )
    key = ["namespace", "key"]
    joined = (
        sides[0]
        .select(*key, functions.struct(*ENTRY).alias("left"))
        .join(sides[1].select(*key, functions.struct(*ENTRY).alias("right")), key, "full_outer")
    )
    kind = (
        functions.when(functions.isnull("left"), MISSING_LEFT)
        .when(functions.isnull("right"), MISSING_RIGHT)
        .when(~functions.col("left").eqNullSafe(functions.col("right")), DIFFERENT)
    )
    found = joined.select(*key, kind.alias("kind")).where("kind is not null")
    counts = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
    first = [
        KeyDifference(row["namespace"], bytes(row["key"]).hex(), row["kind"])
        for row in found.orderBy(*key).limit(SHOWN).collect()
    ]
    return KvDiffed(left, right, left_entries, right_entries, counts, first)


def _entries(spark: "SparkSession", source: str) -> "DataFrame":
    if is_store(source):
        return _state(spark, source, ",".join(COLUMNS))
    return archive(spark, source).select(*COLUMNS)


def _state(spark: "SparkSession", store: str, columns: str) -> "DataFrame":
    """Return the entries of a store, whose state has to be at the end of its log."""
    if not close_state(store).is_clean:
        raise SourceError(
            f"{shown(store)} was not closed, so its keys and values may be behind its log: start"
            " its broker and stop it, then run this again"
        )
    return table(spark, store, "kv", columns=columns)


def _counts(found: "DataFrame") -> dict[str, int]:
    rows = found.groupBy("namespace").count().collect()
    return {row["namespace"]: row["count"] for row in rows}


def _chosen(found: "DataFrame", namespace: str | None) -> "DataFrame":
    return found if namespace is None else found.where(found.namespace == namespace)
