"""The Java client of 5.0.0-PREVIEW, with logical queues, on servers of its own release.

These runs are the control: what the client does where everything is as its makers meant it, and
which defects of that release are real.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from lanemq.compat import Cell, Outgoing, open_client, running
from lanemq.compat._errors import CommandRefused
from lanemq.compat.logical._brokers import (
    LOGICAL_BROKER,
    PREVIEW,
    BrokersCluster,
    Operator,
    row,
    several_brokers,
)

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

WARM, COLD = f"java-{PREVIEW}", f"java-{PREVIEW}-cold"


@asynccontextmanager
async def preview_servers(folder: Path) -> AsyncIterator[BrokersCluster]:
    cluster = await trio.to_thread.run_sync(several_brokers, f"apache-{PREVIEW}", folder)
    async with running(cluster, logs=Path("compat-logs"), graceful=False):
        yield cluster


async def test_the_preview_client_on_its_own_servers(tmp_path: Path) -> None:
    async with (
        preview_servers(tmp_path) as cluster,
        open_client(WARM, tmp_path) as driver,
    ):
        operator, cell = Operator(driver, cluster), Cell("preview", driver, cluster)
        topic = cell.name("topic")
        await operator.make(topic, queues=2)
        async with cell.producer() as producer, cell.puller(topic) as puller:
            queues = await driver.call("publish_queues", producer=producer.name, topic=topic)
            assert queues == [{"broker_name": LOGICAL_BROKER, "queue_id": n} for n in range(4)]
            assert await puller.queues() == [0, 1, 2, 3]

            for number in range(101):
                mode = ("sync", "async")[number % 2]
                sent = await producer.send(Outgoing(topic, b"%d" % number), mode=mode, queue_id=0)
                assert (sent.broker_name, sent.queue_id) == (LOGICAL_BROKER, 0)
                assert (sent.origin_broker, sent.origin_queue_id) == ("broker1", 0)
                assert sent.queue_offset == number

            await puller.until_readable(0, 101)
            await operator.migrate(topic, 0, "broker1", "broker2")
            chain = await operator.chain("broker1", topic, 0)
            assert [row(segment) for segment in chain] == [
                ("broker1/0", 0, 0, 101, "ReadOnly"),
                ("broker2/2", 101, 0, -1, "Normal"),
            ]
            # The producer learns of it by the redirect that its next send gets, or by its look at
            # the route each second: where that came between two steps, it knows no offset yet.
            sent = await producer.send(Outgoing(topic, b"101"), queue_id=0)
            assert (sent.origin_broker, sent.origin_queue_id) == ("broker2", 2)
            assert sent.queue_offset in (101, -1)
            offset, bodies = 0, []
            await puller.until_readable(0, 102)
            while offset < 102:
                pulled = await puller.pull(0, offset)
                assert pulled.status == "FOUND"
                assert {m.broker_name for m in pulled.messages} == {LOGICAL_BROKER}
                assert pulled.messages[0].queue_offset == offset
                bodies += [m.body for m in pulled.messages]
                offset = pulled.next_offset
            assert bodies == [b"%d" % number for number in range(102)]
            assert (await puller.offset("min", 0), await puller.offset("max", 0)) == (0, 102)


async def test_without_the_warm_up_the_preview_client_cannot_read_logical_routes(
    tmp_path: Path,
) -> None:
    async with (
        preview_servers(tmp_path) as cluster,
        open_client(WARM, tmp_path) as operating,
        open_client(COLD, tmp_path) as driver,
    ):
        cell = Cell("cold", driver, cluster)
        topic = cell.name("topic")
        await Operator(operating, cluster).make(topic, queues=2)
        async with cell.producer() as producer:
            with pytest.raises(CommandRefused, match="JSONObject"):
                await producer.send(Outgoing(topic, b"lost"))


async def test_preview_expires_a_queue_of_one_message(tmp_path: Path) -> None:
    async with (
        preview_servers(tmp_path) as cluster,
        open_client(WARM, tmp_path) as driver,
    ):
        operator, cell = Operator(driver, cluster), Cell("one", driver, cluster)
        topic = cell.name("topic")
        await operator.make(topic, queues=1)
        async with cell.producer() as producer, cell.puller(topic) as puller:
            await producer.send(Outgoing(topic, b"only"), queue_id=0)
            await puller.until_readable(0, 1)
        await operator.migrate(topic, 0, "broker1", "broker2")
        first, _ = await operator.chain("broker1", topic, 0)
        assert row(first) == ("broker1/0", 0, 0, 1, "Expired")
