"""The columns that queries use are those of Spark's plans."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lanemq.testkit.spark import require_packages

require_packages()

from lanemq.spark import ScanColumns, scan_columns  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]


@pytest.fixture
def messages(spark: "SparkSession", recorded_stores: Path) -> "DataFrame":
    """All columns of the messages of a store."""
    found = spark.read.format("rocketmq-store").load(str(recorded_stores / "file-5.3.3-clean"))
    found.createOrReplaceTempView("messages")
    return found


@pytest.mark.parametrize(
    ("query", "used"),
    [
        ("SELECT topic FROM messages", ["topic"]),
        ("SELECT count(*) FROM messages", [""]),
        ("SELECT topic, count(*) FROM messages WHERE flag = 1 GROUP BY topic", ["topic,flag"]),
        ("SELECT body FROM messages ORDER BY storeTimestamp LIMIT 3", ["body,storeTimestamp"]),
        ("SELECT keys FROM messages UNION ALL SELECT tags FROM messages", ["keys", "tags"]),
        ("SELECT DISTINCT queue FROM messages", ["queue"]),
        (
            "SELECT a.keys, b.tags FROM messages a JOIN messages b ON a.msgId = b.msgId",
            ["msgId,keys", "msgId,tags"],
        ),
        (
            "SELECT topic FROM messages WHERE flag > (SELECT max(queue) FROM messages)",
            ["topic,flag", "queue"],
        ),
        ("SELECT properties['k'] FROM messages", ["properties"]),
        ("SELECT 1", []),
    ],
)
def test_a_query_uses_the_columns_that_it_names(
    spark: "SparkSession", messages: "DataFrame", query: str, used: list[str]
) -> None:
    found = scan_columns(spark.sql(query))
    assert sorted(",".join(one.used) for one in found) == sorted(used)
    assert {one.read for one in found} <= {tuple(messages.columns)}


def test_the_option_is_suggested_by_name_and_reads_no_more(
    spark: "SparkSession", messages: "DataFrame", recorded_stores: Path
) -> None:
    (all_read,) = scan_columns(messages.where("flag = 0").groupBy("topic").count())
    assert str(all_read) == (
        f"rocketmq-store: reads {len(messages.columns)} columns, and the query uses topic, flag:"
        " .option('columns', 'topic,flag') reads these alone"
    )
    reader = spark.read.format("rocketmq-store").option("columns", all_read.columns)
    fewer = reader.load(str(recorded_stores / "file-5.3.3-clean"))
    (found,) = scan_columns(fewer.where("flag = 0").groupBy("topic").count())
    assert found == ScanColumns("rocketmq-store", ("topic", "flag"), ("topic", "flag"))
    assert str(found) == "rocketmq-store: the query uses all 2 columns that are read"
    (counted,) = scan_columns(messages.groupBy().count())
    assert str(counted).endswith("and the query uses none: .option('columns', 'topic') reads one")


def test_a_stream_and_a_topic_are_looked_at_without_their_brokers(spark: "SparkSession") -> None:
    options = {"nameserver": "127.0.0.1:1", "subscribe": "orders"}
    for reader in (spark.read, spark.readStream):
        orders = reader.format("rocketmq").options(**options).load()
        (found,) = scan_columns(orders.where("tags = 'paid'").select("keys"))
        assert (found.source, found.used) == ("rocketmq", ("keys", "tags"))
        (whole,) = scan_columns(orders)
        assert whole.used == whole.read == tuple(orders.columns)
        (distinct,) = scan_columns(orders.select("keys", "queue").distinct())
        assert distinct.used == ("queue", "keys")
