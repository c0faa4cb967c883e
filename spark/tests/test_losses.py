"""Brokers that go away beneath a task, and queues that begin again beneath a stream.

What Spark's processes do is done here without a session: a plan, then tasks.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
import trio

from lanemq.compat import Cluster, Control, free_port, lanemq_broker, lanemq_name_server, running
from lanemq.sdk import Message, open_producer
from lanemq.sdk.admin import AdminClient, open_admin, queues_of
from lanemq.testing import open_test_server
from lanemq.testkit.servers import PATIENT_S
from lanemq.testkit.spark import PATIENT, require_packages, until_readable

require_packages()

from pyspark.sql.streaming.datasource import ReadAllAvailable  # noqa: E402
from pyspark.sql.types import BinaryType, LongType, StructType  # noqa: E402

from lanemq.spark import SourceError  # noqa: E402
from lanemq.spark.topics import TopicSource, _cluster  # noqa: E402

pytestmark = pytest.mark.slow
TOPIC: Final = "Lost"
SENT: Final = 20
SCHEMA: Final = StructType().add("queueOffset", LongType()).add("body", BinaryType())


def source(name_server: str, **options: str) -> TopicSource:
    given = {"nameserver": name_server, "subscribe": TOPIC, "startingOffsets": "earliest"}
    return TopicSource({**given, **options})


def rows(batches: Iterator[Any]) -> list[tuple[int, bytes]]:
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


async def send(name_server: str, bodies: list[bytes]) -> None:
    async with open_producer("filler", name_servers=name_server, options=PATIENT) as producer:
        for body in bodies:
            await producer.send(Message(topic=TOPIC, body=body))
    async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
        await until_readable(admin, TOPIC, len(bodies))


def test_a_task_asks_again_for_a_broker_that_is_away_and_names_it_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_port, port = free_port(), free_port(1, -2)
    name_server = f"127.0.0.1:{name_port}"
    daemons = [
        lanemq_name_server(tmp_path, port=name_port),
        lanemq_broker(tmp_path, port=port, name_server=name_server),
    ]
    cluster = Cluster("lanemq", name_server, tmp_path, daemons)
    asks_again = threading.Event()

    async def short_pause(_: float) -> None:
        asks_again.set()
        await trio.sleep(0.05)

    monkeypatch.setattr(_cluster, "trio", SimpleNamespace(run=trio.run, sleep=short_pause))
    bodies = [b"%d" % number for number in range(SENT)]

    async def main() -> None:
        async with running(cluster):
            await cluster.control.create_topic(TOPIC, 1)
            await send(name_server, bodies)
            few = source(name_server, retries="1").reader(SCHEMA)
            (part,) = await trio.to_thread.run_sync(few.partitions)
            await cluster.broker.kill()
            with pytest.raises(SourceError) as failed:
                await trio.to_thread.run_sync(lambda: rows(few.read(part)))
            told = str(failed.value)
            assert f"(tried 2 times), for queue broker-a:0 of {TOPIC}" in told
            asks_again.clear()
            many = source(name_server, retries="100000").reader(SCHEMA)
            found: list[tuple[int, bytes]] = []

            async def task() -> None:
                found.extend(await trio.to_thread.run_sync(lambda: rows(many.read(part))))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(task)
                await trio.to_thread.run_sync(asks_again.wait)
                await cluster.broker.start()
            assert found == list(enumerate(bodies))

    trio.run(main)


async def make_anew(admin: AdminClient, name_server: str) -> None:
    """Delete the topic and make it again, with less in it than before."""
    for address in {address for address, _ in queues_of(await admin.route(TOPIC), TOPIC)}:
        await admin.delete_topic(address, TOPIC)
    await Control(name_server).create_topic(TOPIC, 1)
    await send(name_server, [b"new"] * 5)


@pytest.mark.parametrize("most", [None, 3])
def test_a_topic_that_was_made_anew_is_told_to_a_stream_or_read_from_its_begin(
    most: int | None,
) -> None:
    limit = {} if most is None else {"maxOffsetsPerTrigger": str(most)}
    with open_test_server() as server:
        name_server = server.name_servers
        trio.run(Control(name_server).create_topic, TOPIC, 1)
        trio.run(send, name_server, [b"old"] * SENT)
        stream = source(name_server).streamReader(SCHEMA)
        start = stream.initialOffset()
        end = stream.latestOffset(start, ReadAllAvailable())
        (part,) = stream.partitions(start, end)
        assert rows(stream.read(part)) == [(number, b"old") for number in range(SENT)]

        async def renew() -> None:
            async with open_admin(name_servers=name_server, timeout_s=PATIENT_S) as admin:
                await make_anew(admin, name_server)

        trio.run(renew)
        with pytest.raises(
            SourceError, match=rf"queue .*:0 of {TOPIC} ends at 5, .* offset {SENT}"
        ):
            stream.latestOffset(end, ReadAllAvailable())
        going_on = source(name_server, failOnDataLoss="false", **limit).streamReader(SCHEMA)
        read_limit = going_on.getDefaultReadLimit()
        found: list[tuple[int, bytes]] = []
        while (behind := going_on.latestOffset(end, read_limit)) != end:
            batch = [
                row for one in going_on.partitions(end, behind) for row in rows(going_on.read(one))
            ]
            assert len(batch) <= (most or SENT)
            found += batch
            end = behind
        assert found == [(number, b"new") for number in range(5)]
