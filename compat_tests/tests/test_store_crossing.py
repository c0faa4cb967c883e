"""A store that lanemq wrote is Apache's to open, and the other way round.

One server writes while clients send to it; its store is copied; the other server opens the copy
and a Java client reads every queue from the first message to the last.
"""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from lanemq.compat import (
    Cell,
    Cluster,
    Outgoing,
    Received,
    apache_cluster,
    lanemq_cluster,
    open_client,
    running,
)
from lanemq.compat.scenarios.queries import eventually
from lanemq.testkit.cases import first

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

CLIENT = "java-4.9.7"
TOPIC, GROUP, QUEUES = "crossing", "crossing-group", 2
COMMITTED = 7
Read = dict[tuple[int, int], tuple[bytes, str | None, str | None, dict[str, str], int]]
"""Queue id and offset -> body, tags, keys, the sender's own properties, flag."""

MAKERS: dict[str, Callable[[Path], Cluster]] = {
    "lanemq": lanemq_cluster,
    "apache-4.9.7": lambda folder: apache_cluster("4.9.7", folder),
    "apache-5.3.3": lambda folder: apache_cluster("5.3.3", folder),
}
# The rooms of a store that every one of them knows; locks and abort marks are the writer's own.
ROOMS = ("commitlog", "consumequeue", "index", "config", "checkpoint")


@asynccontextmanager
async def cell_on(cluster: Cluster, folder: Path) -> AsyncIterator[Cell]:
    async with open_client(CLIENT, folder) as driver:
        yield Cell("crossing", driver, cluster)


def messages(count: int) -> list[Outgoing]:
    return [
        Outgoing(
            TOPIC,
            b"%d " % number * (1 + number % 5 * 1000),
            tags=f"T{number % 3}" if number % 3 else None,
            keys=f"key-{number}",
            flag=number,
            properties={"größe": "ü" * number} if number else {},
        )
        for number in range(count)
    ]


async def write(cell: Cell) -> None:
    """Send 40 messages one by one and 10 as a batch, and note how far the group has read."""
    await cell.cluster.control.create_topic(TOPIC, QUEUES)
    await cell.cluster.control.create_group(GROUP, retry_max_times=16)
    async with cell.producer() as producer, cell.puller(TOPIC, group=GROUP) as puller:
        for number, message in enumerate(messages(40)):
            await producer.send(message, queue_id=number % QUEUES)
        batch = [Outgoing(TOPIC, b"batch %d" % n, tags="B") for n in range(10)]
        sent = await producer.send_batch(batch)
        for queue_id in range(QUEUES):
            await puller.until_readable(queue_id, 30 if queue_id == sent.queue_id else 20)
        await puller.commit(1, COMMITTED)
        with trio.fail_after(60):
            while await puller.offset("committed", 1) != COMMITTED:  # noqa: ASYNC110
                await trio.sleep(0.1)


async def read_all(cell: Cell) -> Read:
    """Pull every queue from its first offset to its end."""
    found: Read = {}
    async with cell.puller(TOPIC, group=GROUP) as puller:
        for queue_id in range(QUEUES):
            assert await puller.offset("min", queue_id) == 0
            end = await puller.offset("max", queue_id)
            offset = 0
            while offset < end:
                pulled = await puller.pull(queue_id, offset)
                assert pulled.status == "FOUND", (queue_id, offset, pulled)
                for message in pulled.messages:
                    found[message.queue_id, message.queue_offset] = parts(message)
                offset = pulled.next_offset
    return found


def parts(
    message: Received,
) -> tuple[bytes, str | None, str | None, dict[str, str], int]:
    own = {name: value for name, value in message.properties.items() if name == "größe"}
    return message.body, message.tags, message.keys, own, message.flag


async def the_reader_shows_what_the_writer_showed(
    writer: str, reader: str, folder: Path, *, killed: bool
) -> None:
    written = MAKERS[writer](folder / "writer")
    async with running(written, logs=Path("compat-logs")):
        async with cell_on(written, folder) as cell:
            await write(cell)
            expected = await read_all(cell)
            assert len(expected) == 50
        if killed:
            await written.kill()
        else:
            await written.stop()
    opened = MAKERS[reader](folder / "reader")
    for room in ROOMS:
        source = written.store / room
        if source.is_dir():
            # New times of change, so that no clean-up takes the files for old ones.
            shutil.copytree(source, opened.store / room, copy_function=shutil.copyfile)
        elif source.exists():
            shutil.copyfile(source, opened.store / room)
    if killed:
        (opened.store / "abort").touch()
    async with (
        running(opened, logs=Path("compat-logs"), graceful=False),
        cell_on(opened, folder) as cell,
    ):
        assert await read_all(cell) == expected
        if not killed:  # brokers write offsets every 5 s and when they stop
            async with cell.puller(TOPIC, group=GROUP) as puller:
                assert await puller.offset("committed", 1) == COMMITTED
        async with cell.producer() as producer:
            found = await eventually(lambda: producer.query_by_key(TOPIC, "key-3"))
            assert [message.body for message in found] == [messages(4)[3].body]
            # And it goes on where the other stopped.
            sent = await producer.send(Outgoing(TOPIC, b"after"), queue_id=0)
        ends = [offset for queue_id, offset in expected if queue_id == 0]
        assert sent.queue_offset == max(ends) + 1


@pytest.mark.parametrize("killed", first(1, [True, False]), ids=["killed", "stopped"])
@pytest.mark.parametrize("reader", ["apache-4.9.7", "apache-5.3.3"])
async def test_apache_opens_what_lanemq_wrote(reader: str, killed: bool, tmp_path: Path) -> None:
    await the_reader_shows_what_the_writer_showed("lanemq", reader, tmp_path, killed=killed)


@pytest.mark.parametrize("killed", first(1, [True, False]), ids=["killed", "stopped"])
@pytest.mark.parametrize("writer", ["apache-4.9.7", "apache-5.3.3"])
async def test_lanemq_opens_what_apache_wrote(writer: str, killed: bool, tmp_path: Path) -> None:
    await the_reader_shows_what_the_writer_showed(writer, "lanemq", tmp_path, killed=killed)
