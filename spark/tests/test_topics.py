"""Real Spark reads and writes topics of lanemq and of Apache 5.3.3."""

import inspect
import json
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lanemq.compat import Control
from lanemq.sdk import Message, blocking, open_producer
from lanemq.sdk.admin import open_admin, queues_of
from lanemq.testing import open_test_server
from lanemq.testkit.servers import PATIENT_S
from lanemq.testkit.spark import (
    PATIENT,
    PATIENT_WRITES,
    kill_session,
    require_packages,
    until_readable,
)
from lanemq.wire.message import StoredMessage

require_packages()

from pyspark.errors import PySparkException  # noqa: E402
from pyspark.sql.functions import lit  # noqa: E402
from pyspark.sql.streaming.listener import StreamingQueryListener  # noqa: E402
from pyspark.sql.types import StringType, StructType  # noqa: E402

from lanemq.spark import progress_metrics, register  # noqa: E402
from lanemq.spark.topics import TopicSource  # noqa: E402
from lanemq.spark.topics._read import RangePart  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]


def topic_of(spark: "SparkSession", name_server: str, topic: str, **options: str) -> "DataFrame":
    reader = spark.read.format("rocketmq").option("nameserver", name_server)
    return reader.option("subscribe", topic).options(**options).load()


def make_topic(name_server: str, topic: str, queues: int) -> None:
    trio.run(Control(name_server).create_topic, topic, queues)


def fill(name_server: str, topic: str, numbers: range) -> None:
    """Send messages with a number as body, and tags by whether it is even; all can be read then.

    Those before the first number are there already.
    """

    async def send() -> None:
        async with open_producer("filler", name_servers=name_server, options=PATIENT) as producer:
            for number in numbers:
                message = Message(
                    topic=topic,
                    body=str(number).encode() * (2000 if number % 50 == 7 else 1),
                    tags=("odd", "even")[number % 2 == 0],
                    keys=(f"k{number}",),
                    properties={"number": str(number)},
                )
                await producer.send(message)
        async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
            await until_readable(admin, topic, numbers.stop)

    trio.run(send)


def stored(name_server: str, topic: str, count: int) -> dict[tuple[str, int, int], StoredMessage]:
    """All messages of a topic by broker, queue and offset, as the SDK decodes them.

    There are ``count`` of them at least, once the broker's queues have what it has acknowledged.
    """

    async def pull() -> dict[tuple[str, int, int], StoredMessage]:
        found = {}
        async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
            await until_readable(admin, topic, count)
            for address, queue in queues_of(await admin.route(topic), topic):
                offset, end = 0, await admin.max_offset(address, queue)
                while offset < end:
                    pulled = await admin.pull(address, queue, offset)
                    for message in pulled.messages:
                        found[queue.broker_name, queue.queue_id, message.queue_offset] = message
                    offset = pulled.next_offset
        return found

    return trio.run(pull)


def test_a_topic_reads_as_the_sdk_reads_it(spark: "SparkSession", name_server: str) -> None:
    make_topic(name_server, "Read", 3)
    fill(name_server, "Read", range(300))
    expected = stored(name_server, "Read", 300)
    names = [*topic_of(spark, name_server, "Read").columns, "broker", "offsetMsgId", "bodyCrc"]
    rows = topic_of(spark, name_server, "Read", columns=",".join(names)).collect()
    assert len(rows) == len(expected) == 300
    for row in rows:
        message = expected[row.broker, row.queue, row.queueOffset]
        assert row.topic == "Read"
        assert row.msgId == message.unique_key
        assert row["keys"] == " ".join(message.keys)
        assert row.tags == message.tags
        assert row.body == message.decompressed_body()
        assert row.properties == message.properties
        assert round(row.bornTimestamp.timestamp() * 1000) == message.born_timestamp_ms
        assert round(row.storeTimestamp.timestamp() * 1000) == message.store_timestamp_ms
        assert (row.bornHost, row.storeHost) == (str(message.born_host), str(message.store_host))
        assert (row.flag, row.sysFlag, row.reconsumeTimes) == (message.flag, message.sys_flag, 0)
        assert (row.logPosition, row.storeSize) == (message.log_position, message.size_bytes)
        assert (row.offsetMsgId, row.bodyCrc) == (message.offset_id, message.body_crc)


def test_options_choose_what_is_read(spark: "SparkSession", name_server: str) -> None:
    make_topic(name_server, "Chosen", 2)
    fill(name_server, "Chosen", range(100))
    expected = stored(name_server, "Chosen", 100)
    broker = next(iter(expected))[0]
    queues = [f"{broker}:{number}" for number in (0, 1)]
    ends = [sum(key[1] == number for key in expected) for number in (0, 1)]
    starting = json.dumps({"Chosen": {queues[0]: 10, queues[1]: -1}})
    ending = json.dumps({"Chosen": {queues[0]: 30, queues[1]: -1}})
    some = topic_of(
        spark,
        name_server,
        "Chosen",
        startingOffsets=starting,
        endingOffsets=ending,
        minPartitions="4",
    )
    assert some.rdd.getNumPartitions() >= 4
    found = sorted((row.queue, row.queueOffset) for row in some.collect())
    assert found == [(0, offset) for offset in range(10, 30)]
    even = topic_of(spark, name_server, "Chosen", filterExpression="even").collect()
    assert sorted(int(row.properties["number"]) for row in even) == list(range(0, 100, 2))
    few = topic_of(spark, name_server, "Chosen", filterExpression="sql: number > 89")
    assert few.count() == 10
    middle = sorted(message.store_timestamp_ms for message in expected.values())[50]
    late = topic_of(spark, name_server, "Chosen", startingTimestamp=str(middle)).count()
    assert late == sum(one.store_timestamp_ms >= middle for one in expected.values())
    early = topic_of(spark, name_server, "Chosen", endingTimestamp=str(middle)).count()
    assert early == len(expected) - late
    times = json.dumps({"Chosen": {queues[0]: middle}})
    part = topic_of(spark, name_server, "Chosen", startingOffsetsByTimestamp=times)
    assert part.filter("queue = 0").count() == sum(
        key[1] == 0 and one.store_timestamp_ms >= middle for key, one in expected.items()
    )
    assert part.filter("queue = 1").count() == ends[1]
    part = topic_of(spark, name_server, "Chosen", endingOffsetsByTimestamp=times)
    assert part.filter("queue = 0").count() == sum(
        key[1] == 0 and one.store_timestamp_ms < middle for key, one in expected.items()
    )
    assert part.filter("queue = 1").count() == ends[1]
    assigned = spark.read.format("rocketmq").option("nameserver", name_server)
    assert assigned.option("assign", json.dumps({"Chosen": queues[1:]})).load().count() == ends[1]
    pattern = spark.read.format("rocketmq").option("nameserver", name_server)
    both = pattern.option("subscribePattern", "Cho.*").load()
    assert both.filter("queue = 1 and queueOffset >= 3").count() == ends[1] - 3


def test_rows_are_sent_as_messages(spark: "SparkSession", name_server: str) -> None:
    make_topic(name_server, "Written", 4)
    rows = spark.range(200).selectExpr(
        "concat('body ', id) as body",
        "concat('k', id) as keys",
        "if(id % 2 = 0, 'even', 'odd') as tags",
        "map('number', string(id)) as properties",
        "concat('customer', id % 7) as queueKey",
    )
    writer = rows.write.format("rocketmq").option("nameserver", name_server)
    writer.options(**PATIENT_WRITES).option("topic", "Written").mode("append").save()
    found = stored(name_server, "Written", 200)
    assert len(found) == 200
    queues: dict[int, set[int]] = {}
    order: dict[tuple[int, int], list[int]] = {}
    for (_, queue, _), message in sorted(found.items()):
        number = int(message.properties["number"])
        assert message.body == b"body %d" % number
        assert message.keys == (f"k{number}",)
        assert message.tags == ("odd", "even")[number % 2 == 0]
        queues.setdefault(number % 7, set()).add(queue)
        # Spark cut the rows into two tasks, in the middle.
        order.setdefault((number % 7, number // 100), []).append(number)
    assert all(len(where) == 1 for where in queues.values())
    assert all(numbers == sorted(numbers) for numbers in order.values())


def test_a_further_thread_writes_when_it_has_registered_too(
    spark: "SparkSession", name_server: str
) -> None:
    make_topic(name_server, "Beside", 1)
    rows = spark.range(20).selectExpr("concat('body ', id) as body")

    def write() -> None:
        register(spark)
        writer = rows.write.format("rocketmq").option("nameserver", name_server)
        writer.options(**PATIENT_WRITES).option("topic", "Beside").mode("append").save()

    with ThreadPoolExecutor(1) as others:
        others.submit(write).result()
    assert len(stored(name_server, "Beside", 20)) == 20


def test_a_stream_goes_on_where_it_was_with_new_queues_too(
    spark: "SparkSession", name_server: str, tmp_path: Path
) -> None:
    make_topic(name_server, "Stream", 2)
    fill(name_server, "Stream", range(100))

    def run() -> list[dict[str, Any]]:
        reader = spark.readStream.format("rocketmq").option("nameserver", name_server)
        reader = reader.option("subscribe", "Stream").option("startingOffsets", "earliest")
        reader = reader.option("maxOffsetsPerTrigger", "40").option("groupId", "spark_group")
        writer = reader.load().writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.start(str(tmp_path / "out"))
        assert query.awaitTermination(300)
        assert query.exception() is None
        return [dict(one) for one in query.recentProgress if one["numInputRows"]]

    progress = run()
    assert [one["numInputRows"] for one in progress] == [40, 40, 20]
    make_topic(name_server, "Stream", 4)  # two more queues
    fill(name_server, "Stream", range(100, 180))
    run()
    run()
    rows = spark.read.parquet(str(tmp_path / "out")).select("properties").collect()
    assert sorted(int(row.properties["number"]) for row in rows) == list(range(180))

    async def committed() -> int:
        async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
            found = [
                await admin.group_offset(address, "spark_group", queue)
                for address, queue in queues_of(await admin.route("Stream"), "Stream")
            ]
        return sum(offset or 0 for offset in found)

    # Spark says that a batch is done when it begins the next one.
    assert trio.run(committed) in (140, 180)


def test_a_stream_reports_how_far_it_is_behind(
    spark: "SparkSession", name_server: str, tmp_path: Path
) -> None:
    make_topic(name_server, "Behind", 2)
    fill(name_server, "Behind", range(100))
    seen, is_over = list[dict[str, float]](), threading.Event()

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: ANN401, N802 - Spark's
            pass

        def onQueryProgress(self, event: Any) -> None:  # noqa: ANN401, N802 - Spark's
            seen.append(progress_metrics(event.progress))

        def onQueryTerminated(self, event: Any) -> None:  # noqa: ANN401, N802 - Spark's
            is_over.set()

    listener = Listener()
    spark.streams.addListener(listener)
    try:
        reader = spark.readStream.format("rocketmq").option("nameserver", name_server)
        reader = reader.option("subscribe", "Behind").option("startingOffsets", "earliest")
        writer = reader.option("maxOffsetsPerTrigger", "40").load().writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        query = writer.start()
        assert query.awaitTermination(300)
        assert is_over.wait(PATIENT_S)
    finally:
        spark.streams.removeListener(listener)
    own = [progress_metrics(one) for one in query.recentProgress if one["numInputRows"]]
    assert [one["avgOffsetsBehindLatest"] for one in own] == [30, 10, 0]  # of 50 in each queue
    assert own[-1] == dict.fromkeys(own[0], 0)
    assert progress_metrics(query.lastProgress or {}) == own[-1]
    assert own == seen[: len(own)]


def test_a_stream_is_sent_on_each_row_with_its_own_name(
    spark: "SparkSession", name_server: str, tmp_path: Path
) -> None:
    for topic in ("From", "To"):
        make_topic(name_server, topic, 2)
    fill(name_server, "From", range(120))
    reader = spark.readStream.format("rocketmq").option("nameserver", name_server)
    reader = reader.option("subscribe", "From").option("startingOffsets", "earliest")
    messages = reader.option("maxOffsetsPerTrigger", "50").load()
    writer = messages.select("body", "keys", "tags").writeStream.format("rocketmq")
    writer = writer.option("nameserver", name_server).option("topic", "To")
    writer = writer.options(**PATIENT_WRITES)
    writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    query = writer.start()
    assert query.awaitTermination(300)
    found = stored(name_server, "To", 120).values()
    bodies = sorted(
        message.decompressed_body() for message in stored(name_server, "From", 120).values()
    )
    assert sorted(message.decompressed_body() for message in found) == bodies
    assert len(bodies) == 120
    named = {message.properties["SPARK_ROW"]: message.decompressed_body() for message in found}
    assert len(named) == 120
    assert {name.split("/")[0] for name in named} == {str(query.id)}
    # As after a kill between the last message of a batch and Spark's note that it is done.
    last = max((tmp_path / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    assert writer.start().awaitTermination(300)
    again = stored(name_server, "To", 140).values()
    assert len(again) == 140  # the last batch had 20
    assert {one.properties["SPARK_ROW"]: one.decompressed_body() for one in again} == named


def killed_query(spark: "SparkSession", name_server: str, folder: str) -> None:
    """Read on what there is, 25 messages a batch, into files."""
    reader = spark.readStream.format("rocketmq").option("nameserver", name_server)
    reader = reader.option("subscribe", "Killed").option("startingOffsets", "earliest")
    writer = reader.option("maxOffsetsPerTrigger", "25").load().writeStream.format("parquet")
    writer = writer.option("checkpointLocation", folder + "/checkpoint")
    query = writer.trigger(availableNow=True).start(folder + "/out")
    assert query.awaitTermination(300)
    assert query.exception() is None


KILLED = (
    textwrap.dedent(
        """
        import sys
        from pyspark.sql import SparkSession
        from lanemq.spark import register

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        spark = builder.getOrCreate()
        register(spark)
        """
    )
    + inspect.getsource(killed_query)
    + "\nkilled_query(spark, *sys.argv[1:3])\n"
)


def test_a_query_that_was_killed_counts_every_message_once(
    spark: "SparkSession", spark_apart: dict[str, str], tmp_path: Path
) -> None:
    with open_test_server() as server:
        make_topic(server.name_servers, "Killed", 3)
        fill(server.name_servers, "Killed", range(500))
        for commits in (2, 5):
            process = subprocess.Popen(
                [sys.executable, "-c", KILLED, server.name_servers, str(tmp_path)],
                env=spark_apart,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            _wait_for(partial(_has_commits, tmp_path, commits), process)
            kill_session(process)
        done = _commits(tmp_path)
        assert done < 20
        killed_query(spark, server.name_servers, str(tmp_path))
    rows = spark.read.parquet(str(tmp_path / "out")).select("properties").collect()
    assert sorted(int(row.properties["number"]) for row in rows) == list(range(500))


def _has_commits(folder: Path, count: int) -> bool:
    return _commits(folder) >= count


def _commits(folder: Path) -> int:
    return sum(one.name.isdigit() for one in folder.glob("checkpoint/commits/*"))


def _wait_for(condition: Callable[[], bool], process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        assert process.poll() is None, "the query ended by itself"
        time.sleep(0.05)


def test_what_is_gone_is_named(spark: "SparkSession", tmp_path: Path) -> None:
    with open_test_server() as server:
        make_topic(server.name_servers, "Gone", 1)
        fill(server.name_servers, "Gone", range(10))
        ending = json.dumps({"Gone": {f"{server.broker_name}:0": 50}})
        lost = topic_of(spark, server.name_servers, "Gone", endingOffsets=ending)
        with pytest.raises(PySparkException, match=r"queue .*:0 of Gone has no messages from .*10"):
            lost.collect()
        kept = topic_of(
            spark, server.name_servers, "Gone", endingOffsets=ending, failOnDataLoss="false"
        )
        assert kept.count() == 10
        with pytest.raises(PySparkException, match="Absent"):
            topic_of(spark, server.name_servers, "Absent").count()
        address = server.name_servers
    with pytest.raises(PySparkException, match=rf"{address}.*tried 2 times"):
        topic_of(spark, address, "Gone", retries="1").count()


@pytest.mark.parametrize("condition", ["price >>> 100", "price > ", "price = 1 price"])
def test_a_condition_that_is_none_reads_nothing(
    spark: "SparkSession", name_server: str, condition: str
) -> None:
    with pytest.raises(PySparkException, match=f"filterExpression='sql: {condition}"):
        topic_of(spark, name_server, "Any", filterExpression=f"sql: {condition}").count()


def test_a_condition_that_a_broker_refuses_reads_nothing(spark: "SparkSession") -> None:
    with open_test_server({"enablePropertyFilter": "false"}) as server:
        with blocking.open_producer(
            "p", name_servers=server.name_servers, options=PATIENT
        ) as producer:
            producer.send(Message(topic="Unfiltered", body=b"1", tags="paid"))
        address = server.name_servers
        assert topic_of(spark, address, "Unfiltered", filterExpression="paid").count() == 1
        with pytest.raises(PySparkException, match="SQL92"):
            topic_of(spark, address, "Unfiltered", filterExpression="sql: price > 100").count()


def test_rows_can_be_written_as_they_were_read(spark: "SparkSession", name_server: str) -> None:
    for topic in ("AsRead", "AsWritten"):
        make_topic(name_server, topic, 3)
    fill(name_server, "AsRead", range(60))
    rows = topic_of(spark, name_server, "AsRead").drop("topic").withColumn("own", lit(1))
    writer = rows.write.format("rocketmq").options(nameserver=name_server, **PATIENT_WRITES)
    writer.option("topic", "AsWritten").mode("append").save()
    was = stored(name_server, "AsRead", 60)
    found = stored(name_server, "AsWritten", 60)
    for (broker, queue, offset), message in was.items():
        copy = found[broker, queue, offset]  # the column queue keeps queues, and their order
        assert copy.body == message.body
        assert copy.tags == message.tags
        assert copy.keys == message.keys
        assert copy.properties["number"] == message.properties["number"]
        assert copy.unique_key != message.unique_key
    less = rows.selectExpr("body", "7 as queue").limit(1)
    writer = less.write.format("rocketmq").options(nameserver=name_server, **PATIENT_WRITES)
    with pytest.raises(PySparkException, match=r"queue 7, and topic AsWritten has 3 queues"):
        writer.option("topic", "AsWritten").mode("append").save()


def test_a_topic_is_a_table_of_a_catalog_and_a_view(
    spark: "SparkSession", name_server: str
) -> None:
    make_topic(name_server, "Tabled", 2)
    fill(name_server, "Tabled", range(10))
    spark.sql("DROP TABLE IF EXISTS tabled")
    options = f"nameserver '{name_server}', subscribe 'Tabled', deliveryTimeoutMs '200000'"
    spark.sql(f"CREATE TABLE tabled USING rocketmq OPTIONS ({options}) COMMENT 'orders'")
    try:
        assert spark.sql("SELECT count(*) FROM tabled WHERE TAGS = 'even'").first() == (5,)
        spark.sql("INSERT INTO tabled (body, tags) VALUES (binary('x'), 'new')")
        spark.sql("INSERT INTO tabled SELECT * FROM tabled WHERE tags = 'odd'")
        assert len(stored(name_server, "Tabled", 16)) == 16
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW viewed USING rocketmq OPTIONS ({options})")
        assert spark.sql("SELECT count(*) FROM viewed WHERE tags = 'new'").first() == (1,)
        with pytest.raises(PySparkException, match="cannot hold the option secretkey"):
            spark.sql(
                "CREATE TABLE secret USING rocketmq"
                f" OPTIONS ({options}, accessKey 'a', secretKey 'hidden')"
            )
    finally:
        spark.sql("DROP TABLE IF EXISTS tabled")


def test_a_pattern_brings_no_topic_of_the_brokers(name_server: str) -> None:
    make_topic(name_server, "Own", 1)
    fill(name_server, "Own", range(3))
    source = TopicSource({"nameserver": name_server, "subscribePattern": ".*"})
    parts = source.reader(StructType().add("topic", StringType())).partitions()
    assert all(isinstance(part, RangePart) for part in parts)
    topics = {part.wanted.topic for part in parts if isinstance(part, RangePart)}
    assert "Own" in topics
    assert not [topic for topic in topics if is_internal(topic)]


def is_internal(topic: str) -> bool:
    """Return True for the names that Apache's and lanemq's brokers register for themselves."""
    return topic.startswith(("%", "RMQ_SYS", "rmq_sys", "SCHEDULE", "TBW", "TRANS_CHECK")) or (
        topic in {"DefaultCluster", "BenchmarkTest", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT"}
        or topic.endswith("REPLY_TOPIC")
        or topic.startswith("broker-")
    )
