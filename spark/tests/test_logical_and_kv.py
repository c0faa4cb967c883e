"""Logical queues, and keys and values, at lanemq's brokers and in their stores."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import trio

from lanemq.compat import lanemq_cluster, logical_cluster, running
from lanemq.sdk import Message, open_producer
from lanemq.sdk.admin import open_admin
from lanemq.sdk.kv import open_kv_store
from lanemq.testkit.servers import PATIENT_S
from lanemq.testkit.spark import PATIENT, require_packages

require_packages()

from pyarrow import dataset  # noqa: E402
from pyspark.errors import PySparkException  # noqa: E402

from lanemq.spark import SourceError  # noqa: E402
from lanemq.spark.jobs import diff_kv, export_kv, import_kv  # noqa: E402
from lanemq.spark.topics import Cluster  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]
TOPIC: Final = "Moved"
QUEUES: Final = 4
BROKERS: Final = ("broker-a", "broker-b")


async def fill(name_server: str, numbers: range) -> None:
    """Send numbered messages: number n goes to logical queue n % 4."""
    async with open_producer("filler", name_servers=name_server, options=PATIENT) as producer:
        queues = {one.queue_id: one for one in await producer.publish_queues(TOPIC)}
        for number in numbers:
            message = Message(topic=TOPIC, body=b"%d" % number)
            await producer.send(message, queue=queues[number % QUEUES])


def read(spark: "SparkSession", name_server: str, **options: str) -> "DataFrame":
    reader = spark.read.format("rocketmq").option("nameserver", name_server)
    return reader.option("subscribe", TOPIC).options(**options).load()


async def in_thread(run: Callable[[], Any]) -> Any:  # noqa: ANN401
    return await trio.to_thread.run_sync(run)


def test_every_message_has_its_logical_queue_wherever_it_lies(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Through brokers and in their stores, while a stream reads queues that move."""

    def stream(name_server: str) -> None:
        reader = spark.readStream.format("rocketmq").option("nameserver", name_server)
        reader = reader.option("subscribe", TOPIC).option("startingOffsets", "earliest")
        writer = reader.option("maxOffsetsPerTrigger", "150").load().writeStream
        writer = writer.format("parquet").option("checkpointLocation", str(tmp_path / "checks"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
        assert query.awaitTermination(300)
        assert query.exception() is None

    async def main() -> list[Any]:
        cluster = logical_cluster(tmp_path, moving=False)
        async with (
            running(cluster),
            open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
        ):
            await cluster.control.create_topic(TOPIC, QUEUES)
            await fill(cluster.name_server, range(200))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(in_thread, partial(stream, cluster.name_server))
                for index, broker in ((0, "broker-b"), (3, "broker-a")):
                    await admin.migrate_logical_queue(TOPIC, index, broker)
                await fill(cluster.name_server, range(200, 400))
            await in_thread(partial(stream, cluster.name_server))
            rows = read(spark, cluster.name_server).select("body", "queue", "logicalQueue")
            return list(await in_thread(rows.collect))

    rows = trio.run(main)
    assert sorted(int(row.body) for row in rows) == list(range(400))
    assert all(row.logicalQueue == row.queue == int(row.body) % QUEUES for row in rows)
    streamed = spark.read.parquet(str(tmp_path / "out")).select("body", "logicalQueue").collect()
    assert sorted(int(row.body) for row in streamed) == list(range(400))
    assert all(row.logicalQueue == int(row.body) % QUEUES for row in streamed)
    found = []
    for broker in BROKERS:
        store = spark.read.format("rocketmq-store").load(str(tmp_path / broker / "store"))
        found += store.where(f"topic = '{TOPIC}'").select("body", "queue", "logicalQueue").collect()
        outside = store.where(f"topic <> '{TOPIC}' and logicalQueue is not null")
        assert outside.count() == 0
    assert sorted(int(row.body) for row in found) == list(range(400))
    assert all(row.logicalQueue == int(row.body) % QUEUES for row in found)
    assert any(row.queue != row.logicalQueue for row in found)
    named = spark.read.format("rocketmq-store").option("brokerName", "broker-c")
    with pytest.raises(
        PySparkException, match=r"give the name of the broker .* broker-a, broker-b"
    ):
        named.load(str(tmp_path / "broker-a" / "store")).select("logicalQueue").collect()


@pytest.fixture(scope="module")
def kv_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a broker that kept keys, and was stopped."""
    folder = tmp_path_factory.mktemp("kv")

    async def main() -> None:
        cluster = lanemq_cluster(folder)
        async with running(cluster):
            for name in ("default", "other"):
                async with open_kv_store(
                    namespace=name, name_servers=cluster.name_server, timeout_s=PATIENT_S
                ) as store:
                    for number in range(50):
                        await store.put(b"key %d" % number, b"%d" % number * number)
                    await store.put(b"key 7", b"again")
                    await store.put(b"lease", b"held", ttl_s=3600)
                    await store.delete(b"key 8")

    trio.run(main)
    return folder / "store"


def test_the_table_has_what_was_put(spark: "SparkSession", kv_store: Path) -> None:
    reader = spark.read.format("rocketmq-store").option("table", "kv")
    rows = {(row.namespace, bytes(row.key)): row for row in reader.load(str(kv_store)).collect()}
    assert len(rows) == 2 * 50
    for name in ("default", "other"):
        assert (bytes(rows[name, b"key 7"].value), rows[name, b"key 7"].version) == (b"again", 2)
        assert bytes(rows[name, b"key 9"].value) == b"9" * 9
        assert rows[name, b"key 9"].expireTimestamp is None
        lease = rows[name, b"lease"]
        assert (lease.expireTimestamp - lease.updateTimestamp).total_seconds() == 3600
        assert (name, b"key 8") not in rows
    named = reader.option("columns", "key,position").load(str(kv_store))
    assert {row.position for row in named.collect()} == {53}


def test_keys_are_exported_imported_and_compared(
    spark: "SparkSession", kv_store: Path, tmp_path: Path
) -> None:
    archive = str(tmp_path / "archive")
    done = export_kv(spark, str(kv_store), archive)
    assert done.entries == {"default": 50, "other": 50}
    assert done.positions == {"default": 53, "other": 53}
    read_back = dataset.dataset(archive, partitioning="hive").to_table().to_pylist()
    values = {(row["namespace"], row["key"]): row["value"] for row in read_back}
    assert values["other", b"key 11"] == b"11" * 11
    assert diff_kv(spark, str(kv_store), archive).differences == {}

    async def main() -> dict[bytes, Any]:
        cluster = lanemq_cluster(tmp_path / "new")
        async with running(cluster):
            to = Cluster.named(cluster.name_server)
            run = partial(import_kv, spark, namespace="other", cluster=to, target="taken")
            assert (await in_thread(partial(run, archive))).entries == 50
            with pytest.raises(SourceError, match="taken is not empty; `replace` empties it"):
                await in_thread(partial(run, archive))
            await in_thread(partial(run, str(kv_store), replace=True))
            async with open_kv_store(
                namespace="taken", name_servers=cluster.name_server, timeout_s=PATIENT_S
            ) as store:
                page = await store.prefix()
                taken = {one.key: one for one in page.entries}
                await store.put(b"key 1", b"changed")
                await store.put(b"one more", b"")
                await store.delete(b"key 2")
                return taken

    taken = trio.run(main)
    assert len(taken) == 50
    assert (taken[b"key 7"].value, taken[b"key 7"].version) == (b"again", 2)
    original = {row["key"]: row for row in read_back if row["namespace"] == "other"}
    for key, entry in taken.items():
        assert entry.value == original[key]["value"]
        assert entry.create_time_ms == round(original[key]["createTimestamp"].timestamp() * 1000)
    moved = str(tmp_path / "moved")
    export_kv(spark, str(tmp_path / "new/store"), moved)
    (tmp_path / "moved/namespace=taken").rename(tmp_path / "moved/namespace=other")
    differing = diff_kv(spark, archive, moved, namespace="other")
    assert differing.differences == {"missing left": 1, "missing right": 1, "different": 1}
    assert [bytes.fromhex(one.key) for one in differing.first] == [b"key 1", b"key 2", b"one more"]
