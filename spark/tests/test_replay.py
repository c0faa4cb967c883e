"""An archive is replayed: each queue in its order, each message once, also after kills."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lanemq.compat import Control
from lanemq.local.cli import advised
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
from lanemq.spark._errors import TooFewQueues  # noqa: E402
from lanemq.spark.cli._command import ADVICE  # noqa: E402
from lanemq.spark.jobs import replay  # noqa: E402
from lanemq.spark.topics import Cluster, Replay, _replay  # noqa: E402

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
    with pytest.raises(TooFewQueues, match="Few has 2 queues, and orders has messages in queue 2"):
        replay(spark, str(tmp_path), "orders", cluster=cluster, target="Few")
    with pytest.raises(SourceError, match=r"has no messages of unknown \(it has orders\)"):
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


ROWS = [
    {
        "queue": 0,
        "queueOffset": number,
        "body": b"%d" % number,
        "keys": "",
        "tags": "",
        "properties": [("number", str(number))],
        "flag": 0,
    }
    for number in range(1000)
]
SENT_FIRST = 600
"""More than a batch of messages."""


@pytest.mark.parametrize("is_lock_lost", [False, True])
def test_a_task_that_goes_on_beside_its_next_attempt_sends_nothing_twice(
    is_lock_lost: bool, name_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor that was given up may live on, and its tasks with it."""
    topic = f"Beside-{is_lock_lost}"
    make_topic(name_server, topic, 1)
    work = Replay(Cluster.named(name_server), topic, f"replay-{topic}")
    stands, goes_on, asked = (threading.Event() for _ in range(3))

    def slowly() -> Iterator[dict[str, Any]]:
        yield from ROWS[:SENT_FIRST]
        stands.set()
        goes_on.wait()
        yield from ROWS[SENT_FIRST:]

    async def lose_lock() -> None:
        async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
            ((address, queue),) = queues_of(await admin.route(topic), topic)
            await admin.unlock_queues(address, f"replay-{topic}_0", attempts[0], [queue])

    async def is_alone(one: Any) -> bool:  # noqa: ANN401 - private
        found = await plain(one)
        attempts.append(one.attempt)
        if one.attempt != attempts[0]:
            asked.set()
        return found

    attempts: list[str] = []
    plain = _replay._QueueReplay._is_alone
    monkeypatch.setattr(_replay._QueueReplay, "_is_alone", is_alone)
    with ThreadPoolExecutor() as threads:
        old = threads.submit(work.run, slowly())
        try:
            assert stands.wait(PATIENT_S)
            if is_lock_lost:
                trio.run(lose_lock)
            new = threads.submit(work.run, iter(ROWS))
            assert asked.wait(PATIENT_S)
            if is_lock_lost:
                new.result()
        finally:
            goes_on.set()
        (first,), (second,) = old.result(), new.result()
    assert first.sent + second.sent >= len(ROWS)
    assert numbers(queues_in(name_server, topic, len(ROWS))) == [list(range(len(ROWS)))]


def test_a_name_that_another_archive_was_replayed_by_is_refused(name_server: str) -> None:
    """Its offsets up to the last one sent would count as there, and never be sent."""
    make_topic(name_server, "Named", 1)
    work = Replay(Cluster.named(name_server), "Named", "named")
    (first,) = work.run(iter(ROWS[:10]))
    assert (first.sent, first.there) == (10, 0)
    others: list[dict[str, Any]] = [
        {"body": b"other"},
        {"keys": "other"},
        {"tags": "other"},
        {"flag": 1},
        {"properties": [("number", "other")]},
        {"body": None},
    ]
    for archive in (
        *([*ROWS[:9], ROWS[9] | other, *ROWS[10:20]] for other in others),
        ROWS[:9],  # ends before
        [*ROWS[:9], *ROWS[10:20]],
    ):
        with pytest.raises(SourceError, match="has sent offset 9 of queue 0 to Named, and the"):
            work.run(iter(archive))
    assert numbers(queues_in(name_server, "Named", 10)) == [[*range(10)]]
    (more,) = work.run(iter(ROWS[5:15]))  # retention may remove the first ones of an archive
    assert (more.sent, more.there) == (5, 5)
    (behind,) = work.run(iter(ROWS[17:20]))
    assert (behind.sent, behind.there) == (3, 0)


def test_an_archive_of_which_one_queue_is_another_s_is_refused_before_anything_is_sent(
    spark: "SparkSession", name_server: str, tmp_path: Path
) -> None:
    """Queues that only the second archive has would be sent before a task comes to the other."""
    make_archive(tmp_path, 300)
    make_topic(name_server, "Shared", QUEUES)
    cluster = Cluster.named(name_server)
    first = [row | {"queueOffset": number + 10} for number, row in enumerate(ROWS[:10])]
    Replay(cluster, "Shared", "shared").run(iter(first))
    with pytest.raises(SourceError, match="has sent offset 19 of queue 0 to Shared, and the"):
        replay(spark, str(tmp_path), "orders", cluster=cluster, target="Shared", name="shared")
    assert numbers(queues_in(name_server, "Shared", 10)) == [[*range(10)], [], []]


def _ends(name_server: str) -> int:
    """The number of messages in the topic."""

    async def ask() -> int:
        async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
            route = await admin.route("orders")
            ends = [await admin.max_offset(*one) for one in queues_of(route, "orders")]
        return sum(ends)

    return trio.run(ask)


def test_an_archive_of_two_brokers_is_replayed_by_one_at_a_time(
    spark: "SparkSession", tmp_path: Path
) -> None:
    hosts = ("10.0.0.1:10911", "10.0.0.2:10911")
    rows = [
        {
            "queue": 0,
            "queueOffset": offset,
            "body": b"%d" % offset,
            "flag": 0,
            "keys": "",
            "tags": "",
            "properties": [("number", str(number))],
            "msgId": f"M{number}{offset}",
            "storeHost": host,
        }
        for number, host in enumerate(hosts)
        for offset in range(5)
    ]
    schema = pa.schema(
        [
            ("queue", pa.int32()),
            ("queueOffset", pa.int64()),
            ("body", pa.binary()),
            ("flag", pa.int32()),
            ("keys", pa.string()),
            ("tags", pa.string()),
            ("properties", pa.map_(pa.string(), pa.string())),
            ("msgId", pa.string()),
            ("storeHost", pa.string()),
        ]
    )
    place = tmp_path / "topic=2026-01-01/day=2026-01-01"
    beside = tmp_path / "topic=12/day=2026-01-02"
    for folder in (place, beside):
        folder.mkdir(parents=True)
        parquet.write_table(pa.Table.from_pylist(rows, schema), folder / "part.parquet")
    with open_test_server() as server:
        make_topic(server.name_servers, "two", 1)
        cluster = Cluster.named(server.name_servers)
        with pytest.raises(SourceError, match=r"offset 0, from 10.0.0.1:10911 and 10.0.0.2:10911"):
            replay(spark, str(tmp_path), "12", cluster=cluster, target="two")
        for host in hosts:
            for topic in ("12", "2026-01-01"):  # neighbours that look like a number and a date
                done = replay(
                    spark, str(tmp_path), topic, cluster=cluster, target="two", store_host=host
                )
                assert (done.sent, done.there) == (5, 0)
        (found,) = numbers(queues_in(server.name_servers, "two", 20))
        assert sorted(found) == [0] * 10 + [1] * 10


def test_the_command_that_makes_the_queues_is_named_by_the_command_line() -> None:
    error = TooFewQueues("Few", 2, topic="orders", last=2)
    assert str(error).endswith("messages in queue 2: their order needs 3")
    assert advised(error, ADVICE).endswith(
        "needs 3. `lanemq admin updateTopic -t Few -r 3 -w 3` makes them"
    )
