"""An archive is replayed: each queue in its order, each message once, also after kills."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lanemq.compat import Control
from lanemq.sdk.admin import open_admin, queues_of
from lanemq.testing import open_test_server
from lanemq.testkit.servers import PATIENT_S
from lanemq.testkit.spark import kill_session, require_packages, until_readable
from lanemq.wire.message import StoredMessage

require_packages()

import pyarrow as pa  # noqa: E402
from pyarrow import parquet  # noqa: E402

import lanemq.spark  # noqa: E402
from lanemq.spark import SourceError  # noqa: E402
from lanemq.spark.jobs import replay  # noqa: E402
from lanemq.spark.topics import Cluster  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]
MAIN = Path(lanemq.spark.__file__).with_name("__main__.py")
QUEUES = 3


def make_archive(folder: Path, messages: int) -> None:
    """Write an archive of Parquet as an export does, with queues that begin at offset 10."""
    rows: list[dict[str, Any]] = [
        {
            "queue": number % QUEUES,
            "queueOffset": 10 + number // QUEUES,
            "body": b"body %d" % number,
            "keys": f"k{number} order",
            "tags": ("odd", "even")[number % 2 == 0],
            "properties": [
                ("UNIQ_KEY", f"U{number}"),
                ("KEYS", f"k{number} order"),
                ("number", str(number)),
            ],
            "flag": number % 5,
        }
        for number in range(messages)
    ]
    schema = pa.schema(
        [
            ("queue", pa.int32()),
            ("queueOffset", pa.int64()),
            ("body", pa.binary()),
            ("keys", pa.string()),
            ("tags", pa.string()),
            ("properties", pa.map_(pa.string(), pa.string())),
            ("flag", pa.int32()),
        ]
    )
    for day, part in enumerate((rows[::-2], rows[-2::-2])):
        place = folder / f"topic=orders/day=2026-01-0{day + 1}"
        place.mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist(part, schema), place / "part.parquet")


def make_topic(name_server: str, topic: str, queues: int) -> None:
    trio.run(Control(name_server).create_topic, topic, queues)


def queues_in(name_server: str, topic: str, count: int) -> list[list[StoredMessage]]:
    """The messages of each queue, in its order, once there are ``count`` of them at least."""

    async def pull() -> list[list[StoredMessage]]:
        found = []
        async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
            await until_readable(admin, topic, count)
            for address, queue in queues_of(await admin.route(topic), topic):
                messages: list[StoredMessage] = []
                offset, end = 0, await admin.max_offset(address, queue)
                while offset < end:
                    pulled = await admin.pull(address, queue, offset)
                    messages += pulled.messages
                    offset = pulled.next_offset
                found.append(messages)
        return found

    return trio.run(pull)


def numbers(queues: list[list[StoredMessage]]) -> list[list[int]]:
    return [[int(one.properties["number"]) for one in messages] for messages in queues]


def started(environment: dict[str, str], *arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, MAIN, "replay", *arguments, "--master", "local[2]"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def polls() -> Iterator[None]:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        yield
        time.sleep(0.02)
    pytest.fail("it took too long")


def test_messages_keep_what_they_have_and_their_order(
    spark: "SparkSession", name_server: str, tmp_path: Path
) -> None:
    make_archive(tmp_path, 1000)
    make_topic(name_server, "Again", QUEUES)
    cluster = Cluster.named(name_server)
    done = replay(spark, str(tmp_path), "orders", cluster=cluster, target="Again")
    assert (done.sent, done.there, done.left_out, done.queues) == (1000, 0, 0, QUEUES)
    queues = queues_in(name_server, "Again", 1000)
    assert numbers(queues) == [list(range(queue, 1000, QUEUES)) for queue in range(QUEUES)]
    for message in (one for messages in queues for one in messages):
        number = int(message.properties["number"])
        assert message.body == b"body %d" % number
        assert message.keys == (f"k{number}", "order")
        assert (message.tags, message.flag) == (("odd", "even")[number % 2 == 0], number % 5)
        mark = f"{done.name}/{number % QUEUES}/{10 + number // QUEUES}"
        assert message.properties["REPLAYED"] == mark
    again = replay(spark, str(tmp_path), "orders", cluster=cluster, target="Again")
    assert (again.sent, again.there) == (0, 1000)
    make_topic(name_server, "Few", 2)
    with pytest.raises(SourceError, match="Few has 2 queues, and orders has messages in queue 2"):
        replay(spark, str(tmp_path), "orders", cluster=cluster, target="Few")
    with pytest.raises(SourceError, match="has no messages of unknown"):
        replay(spark, str(tmp_path), "unknown", cluster=cluster, target="Again")


def test_a_replay_that_was_killed_goes_on_and_sends_each_message_once(
    spark: "SparkSession", spark_apart: dict[str, str], tmp_path: Path
) -> None:
    make_archive(tmp_path, 12_000)
    with open_test_server() as server:
        address = server.name_servers
        make_topic(address, "orders", QUEUES)

        def count() -> int:
            return sum(map(len, queues_in(address, "orders", 0)))

        process = started(spark_apart, str(tmp_path), "--topic", "orders", "-n", address)
        for _ in polls():
            assert process.poll() is None, "the replay ended before it was killed"
            if _ends(address) > 1500:
                break
        kill_session(process)
        before = count()
        assert 1500 < before < 12_000
        done = replay(spark, str(tmp_path), "orders", cluster=Cluster.named(address))
        assert done.sent + done.there == 12_000
        assert done.there >= before  # a request was under way at the kill, perhaps
        found = numbers(queues_in(address, "orders", 12_000))
    assert found == [list(range(queue, 12_000, QUEUES)) for queue in range(QUEUES)]


def _ends(name_server: str) -> int:
    """The number of messages in the topic."""

    async def ask() -> int:
        async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
            route = await admin.route("orders")
            ends = [await admin.max_offset(*one) for one in queues_of(route, "orders")]
        return sum(ends)

    return trio.run(ask)
