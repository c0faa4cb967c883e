"""One DataFrame in several places of a query, or of several queries, has its rows in each.

Spark keeps what a Python source planned for the last scan of a DataFrame, and takes it for each
other scan of it: filters that it was given for one would count for all.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lanemq.testing import open_test_server
from lanemq.testkit.spark import require_packages

require_packages()

from pyspark.errors import PySparkException  # noqa: E402
from pyspark.sql.types import StringType, StructField, StructType  # noqa: E402

from lanemq.spark import OptionInvalid  # noqa: E402
from lanemq.spark.topics._source import TopicSource  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]

STORE = "file-5.3.3-clean"
KEY = ("topic", "queue", "queueOffset")
Load = Callable[..., "DataFrame"]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server for topics."""
    with open_test_server() as found:
        yield found.name_servers


@pytest.fixture(scope="module")
def topics_of(spark: "SparkSession", server: str) -> Load:
    """Load two topics of a server, the first with 8 messages, the second with 5."""
    rows = [("A", b"a", one % 4) for one in range(8)] + [("B", b"b", one) for one in range(4)]
    rows.append(("B", b"b", 0))
    sent = spark.createDataFrame(rows, "topic string, body binary, queue int").coalesce(1)
    sent.write.format("rocketmq").mode("append").option("nameserver", server).save()

    def load(**options: str) -> "DataFrame":
        reader = spark.read.format("rocketmq").option("nameserver", server)
        return reader.option("subscribe", "A,B").options(columns=",".join(KEY), **options).load()

    return load


@pytest.fixture(scope="module", params=["messages", "consume_queue", "rocketmq"])
def loaded(request: pytest.FixtureRequest, spark: "SparkSession", recorded_stores: Path) -> Load:
    """Load a table of the columns ``KEY``, each time as a DataFrame of its own."""
    if request.param == "rocketmq":
        found: Load = request.getfixturevalue("topics_of")
        return found

    def load(**options: str) -> "DataFrame":
        reader = spark.read.format("rocketmq-store").option("table", request.param)
        root = str(recorded_stores / STORE)
        return reader.options(columns=",".join(KEY), **options).load(root)

    return load


@pytest.fixture(params=["as it is", "switched on"])
def setting(request: pytest.FixtureRequest) -> None:
    """Spark's setting, which another source of the program may need."""
    if request.param == "switched on":
        request.getfixturevalue("pushdown")


def _both_ways(frame: "DataFrame", first: str, second: str) -> "list[DataFrame]":
    one, other = frame.where(first), frame.where(second)
    left, right = one.alias("l"), other.alias("r")
    pairs = left.join(right, "queueOffset").select("l.*", "r.topic", "r.queue")
    return [
        one.union(other),
        other.union(one),
        one.union(frame),
        frame.union(other),
        frame.union(frame),
        pairs,
        frame.join(one, list(KEY), "left_anti"),
        frame.join(one.select("queueOffset").distinct(), "queueOffset", "left_semi"),
    ]


def _rows(frame: "DataFrame") -> "Counter[Any]":
    return Counter(map(tuple, frame.collect()))


def test_a_frame_that_is_filtered_twice_has_the_rows_of_both(
    spark: "SparkSession", loaded: Load, setting: None
) -> None:
    everything = spark.createDataFrame(loaded().collect(), loaded().schema)
    names = [row.topic for row in everything.groupBy("topic").count().orderBy("count").collect()]
    first, second = f"topic = '{names[-1]}'", f"topic = '{names[-2]}' and queue > 0"
    frame = loaded()
    wanted = _both_ways(everything, first, second)
    for at, (found, right) in enumerate(zip(_both_ways(frame, first, second), wanted, strict=True)):
        expected = _rows(right)
        assert expected, at
        assert _rows(found) == expected, at


def test_queries_of_one_frame_one_after_the_other_have_their_own_rows(
    spark: "SparkSession", loaded: Load, setting: None
) -> None:
    everything = spark.createDataFrame(loaded().collect(), loaded().schema)
    frame = loaded()
    for condition in ("queue = 1", "true", "queue = 0", "queueOffset > 0", "true"):
        assert _rows(frame.where(condition)) == _rows(everything.where(condition)), condition


def test_the_option_topics_reads_only_these(
    spark: "SparkSession", recorded_stores: Path, setting: None
) -> None:
    for name in ("messages", "consume_queue", "topics", "offsets"):
        for store in (STORE, "rocksdb-5.3.3-clean"):
            reader = spark.read.format("rocketmq-store").option("table", name)
            frame = reader.load(str(recorded_stores / store))
            columns = [one for one in frame.columns if one not in ("properties", "attributes")]
            known = sorted({row.topic for row in frame.select("topic").distinct().collect()})[:2]
            expected = _rows(frame.where(frame.topic.isin(*known)).select(*columns))
            reader = reader.option("topics", ", ".join(known))
            chosen = reader.load(str(recorded_stores / store))
            assert _rows(chosen.select(*columns)) == expected, (name, store)
            hidden = reader.option("columns", columns[1]).load(str(recorded_stores / store))
            assert hidden.count() == sum(expected.values()), (name, store)


def test_the_option_topics_is_only_for_tables_with_topics(
    spark: "SparkSession", recorded_stores: Path
) -> None:
    reader = spark.read.format("rocketmq-store").option("table", "kv").option("topics", "A")
    with pytest.raises(PySparkException, match="topics='A': the table kv has no column topic"):
        reader.load(str(recorded_stores / STORE))


def test_filters_are_pushed_to_a_frame_that_asks_for_them(
    spark: "SparkSession", loaded: Load, pushdown: None
) -> None:
    expected = _rows(loaded().where("queue = 1"))
    assert _rows(loaded(pushFilters="true").where("queue = 1")) == expected


def test_a_frame_that_asks_for_filters_says_that_spark_pushes_none(
    spark: "SparkSession", recorded_stores: Path
) -> None:
    reader = spark.read.format("rocketmq-store").option("pushFilters", "true")
    with pytest.raises(PySparkException, match="PUSHDOWN_DISABLED"):
        reader.load(str(recorded_stores / STORE)).count()


def test_a_stream_has_no_filters_to_push() -> None:
    given = {"nameserver": "127.0.0.1:1", "subscribe": "A", "columns": "topic"}
    source = TopicSource({**given, "pushFilters": "true"})
    schema = StructType([StructField("topic", StringType())])
    with pytest.raises(OptionInvalid, match="pushFilters='true': Spark gives a stream no filters"):
        source.streamReader(schema)
