"""Real Spark reads recorded stores, and finds what the brokers that wrote them reported."""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lanemq.testkit.spark import require_packages

require_packages()

from pyspark.errors import PySparkException  # noqa: E402

from lanemq.spark import SourceError  # noqa: E402
from lanemq.spark.store._files import matching  # noqa: E402
from lanemq.spark.store._source import TABLES  # noqa: E402
from lanemq.wire import SysFlag  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]

NAMES = (
    "dualwrite-5.3.3-clean",
    "dualwrite-5.3.3-killed",
    "file-4.9.7-clean",
    "file-4.9.7-killed",
    "file-5.3.3-clean",
    "rocksdb-5.3.3-clean",
)
READER = "golden_dump_reader"  # a killed store was read, and this group made, in a copy
ExpectedOf = Callable[[str], dict[str, Any]]
SAME = {
    "topic": "topic",
    "queue": "queueId",
    "queueOffset": "queueOffset",
    "logPosition": "commitLogOffset",
    "storeSize": "storeSize",
    "msgId": "msgId",
    "offsetMsgId": "offsetMsgId",
    "flag": "flag",
    "bodyCrc": "bodyCRC",
    "bornHost": "bornHost",
    "storeHost": "storeHost",
    "reconsumeTimes": "reconsumeTimes",
    "preparedTransactionOffset": "preparedTransactionOffset",
    "properties": "properties",
}
MORE = ("tags", "keys", "body", "sysFlag", "bornTimestamp", "storeTimestamp")


def table(spark: "SparkSession", root: Path, name: str, **options: str) -> "DataFrame":
    reader = spark.read.format("rocketmq-store").option("table", name)
    return reader.options(**options).load(str(root))


@pytest.mark.parametrize("name", NAMES)
def test_messages_are_those_that_the_broker_reported(
    spark: "SparkSession", recorded_stores: Path, expected_of: ExpectedOf, name: str
) -> None:
    expected = expected_of(name)
    columns = ",".join((*SAME, *MORE))
    rows = table(spark, recorded_stores / name, "messages", columns=columns).collect()
    assert len(rows) == expected["commitLogWalk"]["records"]
    last = max(rows, key=lambda row: row.logPosition)
    assert last.logPosition + last.storeSize == expected["commitLogWalk"]["end"]
    queues: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        if row.sysFlag & SysFlag.TRANSACTION_MASK in (0, SysFlag.TRANSACTION_COMMIT):
            queues.setdefault((row.topic, row.queue), []).append(row.queueOffset)
    for topic, described in expected["topics"].items():
        for queue, bounds in described["queues"].items():
            offsets = sorted(queues.get((topic, int(queue)), []))
            assert offsets == list(range(bounds["min"], bounds["max"])), (topic, queue)
    by_position = {row.logPosition: row for row in rows}
    for sample in expected["sample"]:
        _compare(by_position[sample["commitLogOffset"]], sample)


def _compare(row: Any, sample: dict[str, Any]) -> None:  # noqa: ANN401
    for ours, theirs in SAME.items():
        assert row[ours] == sample[theirs], ours
    assert row.tags == sample.get("tags")
    assert row["keys"] == sample.get("keys")
    assert len(row.body) == sample["bodyLength"]
    assert hashlib.sha256(row.body).hexdigest() == sample["bodySha256"]
    # The client that took the samples clears this bit when it decompresses.
    assert row.sysFlag & ~SysFlag.COMPRESSED == sample["sysFlag"] & ~SysFlag.COMPRESSED
    for ours in ("bornTimestamp", "storeTimestamp"):
        assert round(row[ours].timestamp() * 1000) == sample[ours]


@pytest.mark.parametrize("name", NAMES)
def test_queues_and_tables_are_those_that_the_broker_reported(
    spark: "SparkSession", recorded_stores: Path, expected_of: ExpectedOf, name: str
) -> None:
    expected, root = expected_of(name), recorded_stores / name
    if expected["shutdown"] == "clean":  # a killed broker leaves queues that lack messages
        units = table(spark, root, "consume_queue").select("topic", "queue", "queueOffset")
        found: dict[tuple[str, int], list[int]] = {}
        for topic, queue, offset in units.collect():
            found.setdefault((topic, queue), []).append(offset)
        for topic, described in expected["topics"].items():
            for queue, bounds in described["queues"].items():
                offsets = sorted(found.get((topic, int(queue)), []))
                assert offsets == list(range(bounds["min"], bounds["max"])), (topic, queue)
    topics = {row.topic: row for row in table(spark, root, "topics").collect()}
    for topic, described in expected["topics"].items():
        row = topics[topic]
        assert row.readQueueNums == described["readQueueNums"]
        assert row.writeQueueNums == described["writeQueueNums"]
        assert row.perm == described["perm"]
        assert row.topicSysFlag == described["topicSysFlag"]
        assert row.order == described["order"]
    groups = {row.group for row in table(spark, root, "groups").collect()}
    assert set(expected["subscriptionGroups"]) <= groups | {READER}
    offsets_of = {
        (row.group, row.topic, row.queue): row.offset
        for row in table(spark, root, "offsets").collect()
    }
    for group, of_topics in expected["consumerOffsets"].items():
        if isinstance(of_topics, str):  # the broker could not say
            continue
        for topic, of_queues in of_topics.items():
            for queue, offset in of_queues.items():
                committed = offsets_of.get((group, topic, int(queue)), 0)
                assert committed == offset["consumerOffset"], (group, topic, queue)


def test_spark_filters_counts_and_splits(
    spark: "SparkSession", recorded_stores: Path, expected_of: ExpectedOf
) -> None:
    name = "file-5.3.3-clean"
    root = recorded_stores / name
    messages = table(spark, root, "messages", columns="topic,tags,queue", splitBytes="65536")
    assert messages.rdd.getNumPartitions() == 16
    counts = {row.topic: row["count"] for row in messages.groupBy("topic").count().collect()}
    topics = expected_of(name)["topics"]
    assert counts["sc_orders"] == sum(
        queue["read"] for queue in topics["sc_orders"]["queues"].values()
    )
    tagged = messages.filter("topic = 'sc_orders' and tags in ('TagA', 'TagB') and queue > 0")
    everything = messages.collect()
    assert tagged.count() == sum(
        row.topic == "sc_orders" and row.tags in ("TagA", "TagB") and row.queue > 0
        for row in everything
    )
    both = [str(recorded_stores / one) for one in ("file-5.3.3-clean", "file-4.9.7-clean")]
    reader = spark.read.format("rocketmq-store").option("columns", "topic")
    assert reader.load(both).count() == 1576 + 1579


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_filters_choose_the_same_rows_here_as_in_spark(
    spark: "SparkSession", pushdown: None, recorded_stores: Path, zone: str
) -> None:
    """Filters are said in the session's time zone, and judged in UTC."""
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    columns = "topic,tags,queue,queueOffset,storeTimestamp,storeSize"
    try:
        spark.conf.set("spark.sql.session.timeZone", zone)
        root = recorded_stores / "file-5.3.3-clean"
        messages = table(spark, root, "messages", columns=columns)
        everything = spark.createDataFrame(messages.collect(), messages.schema)
        half = "bigint(percentile(unix_millis(storeTimestamp), 0.5))"
        middle = everything.selectExpr(f"string(timestamp_millis({half}))").collect()[0][0]
        for condition in (
            f"storeTimestamp >= '{middle}'",
            f"storeTimestamp < timestamp'{middle}'",
            "topic like 'sc_%'",
            "topic like 'sc_o%' and tags is not null",
            "tags = 'TagA' and storeSize between 200 and 400",
            "queueOffset in (1, 3, 5) and queue <> 2",
            "tags <=> 'TagB'",
        ):
            fresh = table(spark, root, "messages", columns=columns, pushFilters="true")
            found = fresh.filter(condition)
            expected = sorted(map(str, everything.filter(condition).collect()))
            assert 0 < len(expected) < everything.count(), condition
            assert sorted(map(str, found.collect())) == expected, condition
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_modes_are_those_of_spark_where_a_body_is_damaged(
    spark: "SparkSession", recorded_stores: Path, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    shutil.copytree(recorded_stores / "file-5.3.3-clean", root)
    records = table(spark, root, "messages", columns="logPosition,storeSize").collect()
    positions = sorted(row.logPosition for row in records)
    (log,) = (root / "commitlog").glob("0*0")
    with log.open("r+b") as file:
        file.seek(positions[7] + 90)  # in a body
        file.write(b"?!?!")
        file.seek(positions[11] + 4)  # a magic
        file.write(bytes(4))
    kept = table(spark, root, "messages")
    assert kept.count() == len(records) - 1
    assert [row.logPosition for row in kept.filter("body is null").collect()] == [positions[7]]
    dropped = table(spark, root, "messages", mode="DROPMALFORMED")
    assert {row.logPosition for row in dropped.collect()} == {
        *positions[:7],
        *positions[8:11],
        *positions[12:],
    }
    with pytest.raises(PySparkException, match=rf"{log.name}: damaged at byte {positions[7]} "):
        table(spark, root, "messages", mode="FAILFAST").collect()
    damage = table(spark, root, "damage").orderBy("logPosition").collect()
    assert [(row.file, row.filePosition, row.kind) for row in damage] == [
        (str(log), positions[7], "body"),
        (str(log), positions[11], "bytes"),
    ]


def test_errors_name_the_option_or_the_store(
    spark: "SparkSession", tmp_path: Path, recorded_stores: Path
) -> None:
    reader = spark.read.format("rocketmq-store")
    with pytest.raises(PySparkException, match="no option 'tabel'; its options are"):
        reader.option("tabel", "messages").load(str(tmp_path))
    with pytest.raises(PySparkException, match="is not a store: it has no commitlog"):
        spark.read.format("rocketmq-store").load(str(tmp_path)).count()
    known = spark.read.format("rocketmq-store").schema("queue bigint")
    with pytest.raises(PySparkException, match="column 'queue' is of type int, not bigint"):
        known.load(str(recorded_stores / NAMES[0])).count()


@pytest.mark.parametrize("pattern", ["*", "{a b,c}", "[ac]*", "?*", "a*"])
def test_a_pattern_names_stores(tmp_path: Path, pattern: str) -> None:
    for name in ("a b", "c"):
        (tmp_path / name / "store").mkdir(parents=True)
    (tmp_path / "a file").write_bytes(b"")
    names = ("a b",) if pattern == "a*" else ("a b", "c")
    expected = [f"{tmp_path}/{name}/store" for name in names]
    assert sorted(matching(f"{tmp_path}/{pattern}/store")) == expected
    assert sorted(matching(f"file:{tmp_path}/{pattern}/store")) == [
        f"file:{path}" for path in expected
    ]


def test_a_pattern_without_a_match_is_an_error_and_a_name_is_no_pattern(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nothing/\*: no directory matches this pattern"):
        matching(f"{tmp_path}/nothing/*")
    odd = tmp_path / "a[1]"
    odd.mkdir()
    assert matching(str(odd)) == [str(odd)]
    assert matching(f"{tmp_path}/absent") == [f"{tmp_path}/absent"]


def test_names_of_columns_ignore_case_and_paths_may_hold_blanks(
    spark: "SparkSession", pushdown: None, recorded_stores: Path, tmp_path: Path
) -> None:
    fleet = tmp_path / "a b"
    for name in ("one", "two"):
        shutil.copytree(recorded_stores / "file-5.3.3-clean", fleet / name)
    one = table(spark, fleet / "one", "messages").count()
    for root in (f"{fleet}/*", f"file:{fleet}/*", f"{fleet.as_uri()}/{{one,two}}"):
        reader = spark.read.format("rocketmq-store").schema("TOPIC string, queueOFFSET bigint")
        frame = reader.option("pushFilters", "true").load(root)
        rows = frame.filter("Topic is not null and queueoffset >= 0").collect()
        assert len(rows) == 2 * one
        assert rows[0].__fields__ == ["TOPIC", "queueOFFSET"]
    reader = spark.read.format("rocketmq-store").option("columns", "Topic,BODY")
    assert reader.load(str(fleet / "one")).columns == ["topic", "body"]


@pytest.mark.parametrize("name", list(TABLES))
def test_every_table_can_be_one_of_a_catalog(
    spark: "SparkSession", recorded_stores: Path, name: str
) -> None:
    store = recorded_stores / "file-5.3.3-clean"
    spark.sql("DROP TABLE IF EXISTS stored")
    spark.sql(
        f"CREATE TABLE stored USING `rocketmq-store` OPTIONS (table '{name}') LOCATION '{store}'"
        if name != "kv"
        else f"CREATE TABLE stored USING `rocketmq-store` OPTIONS (table '{name}', path '{store}')"
    )
    try:
        expected = table(spark, store, name)
        assert spark.table("stored").columns == expected.columns
        assert spark.table("stored").count() == expected.count()
    finally:
        spark.sql("DROP TABLE IF EXISTS stored")
