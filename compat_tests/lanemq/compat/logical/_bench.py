"""A test bench for logical queues: brokers in processes, one client, an administrator."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import trio

from lanemq.sdk import RefusedByBroker
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.wire import ResponseCode
from lanemq.wire.logical import Chain

from ..cells._cell import Cell
from ..cells._consumers import Puller
from ..cells._producers import Producer
from ..clients._families import open_client
from ..clients._messages import Outgoing
from ..servers._clusters import DEFAULT_LOGS, running
from ..servers._waiting import PATIENT_S, until
from ._brokers import LOGICAL_BROKER, PREVIEW, BrokersCluster, add_broker, several_brokers

JAVA: Final = f"java-{PREVIEW}"
OLD: Final = "java-4.9.7"
"""A client that knows nothing of logical queues, and is served through a logical listener."""


@asynccontextmanager
async def servers(
    folder: Path, *, brokers: int = 2, settings: dict[str, str] | None = None
) -> AsyncIterator[BrokersCluster]:
    cluster = several_brokers("lanemq", folder, brokers=0)
    for number in range(1, brokers + 1):
        add_broker(cluster, f"broker{number}", settings)
    async with running(cluster, logs=DEFAULT_LOGS, graceful=False):
        yield cluster


class Bench:
    """One client, and the cluster's administrator."""

    def __init__(self, cluster: BrokersCluster, cell: Cell, admin: AdminClient) -> None:
        self.cluster, self.cell, self.admin = cluster, cell, admin

    async def topic(self, queues: int = 2, *, name: str | None = None) -> str:
        """Make a topic with ``queues`` queues on each broker, all of them logical ones."""
        topic = name or self.cell.name("topic")
        await self.cluster.control.create_topic(topic, queues)
        for number, address in enumerate(self.cluster.addresses.values()):
            for queue_id in range(queues):
                await self.admin.map_queue(address, topic, queue_id, number * queues + queue_id)
        await self.until_routed(topic, queues * len(self.cluster.addresses))
        return topic

    async def until_routed(self, topic: str, count: int) -> None:
        await until_logical(self.admin, topic, count)

    async def chain(self, topic: str, index: int) -> Chain:
        queues = await self.admin.routed_logical_queues(topic)
        assert queues is not None
        return queues[index]

    async def migrate(self, topic: str, index: int, destination: str) -> Chain:
        """Migrate, and wait until clients can see where the queue goes on."""
        chain = (await self.admin.migrate_logical_queue(topic, index, destination)).chain
        end = chain[-1]

        async def shown() -> bool:
            there = (await self.chain(topic, index)).find(end.key)
            return there is not None and (there.state, there.delta) == (end.state, end.delta)

        await until(shown)
        return chain


@asynccontextmanager
async def bench(
    client: str, folder: Path, *, brokers: int = 2, settings: dict[str, str] | None = None
) -> AsyncIterator[Bench]:
    async with (
        servers(folder, brokers=brokers, settings=settings) as cluster,
        open_client(client, folder) as driver,
        open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S) as admin,
    ):
        yield Bench(cluster, Cell("logical", driver, cluster), admin)


async def until_logical(admin: AdminClient, topic: str, count: int) -> None:
    """Wait until the name server has ``count`` logical queues of a topic.

    It may hear of the topic itself after the broker has answered who made it.
    """

    async def complete() -> bool:
        try:
            return len(await admin.routed_logical_queues(topic) or {}) == count
        except RefusedByBroker as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return False

    await until(complete)


async def fill(
    producer: Producer, topic: str, numbers: range, *, mode: str = "sync", index: int = 0
) -> None:
    for number in numbers:
        sent = await producer.send(Outgoing(topic, b"%d" % number), mode=mode, queue_id=index)
        assert (sent.broker_name, sent.queue_id) == (LOGICAL_BROKER, index)
        # A client that looks at the route in the middle of a migration does not know the offset;
        # the Java client looks again at its next turn only.
        assert sent.queue_offset == number or (sent.queue_offset, client_of(producer)) == (-1, JAVA)


def client_of(producer: Producer) -> str:
    return producer._driver.client


async def read(
    puller: Puller, begin: int, end: int, *, tags: str = "*", index: int = 0
) -> list[bytes]:
    """Pull from ``begin`` to ``end``, checking every offset."""
    offset, bodies = begin, list[bytes]()
    with trio.fail_after(180):
        while offset < end:
            pulled = await puller.pull(index, offset, tags=tags)
            for message in pulled.messages:
                assert offset <= message.queue_offset < pulled.next_offset
                assert (message.broker_name, message.queue_id) == (LOGICAL_BROKER, index)
                bodies.append(message.body)
            assert pulled.next_offset > offset, pulled
            offset = pulled.next_offset
    return bodies


def bodies(*ranges: range) -> list[bytes]:
    return [b"%d" % number for numbers in ranges for number in numbers]


def places(chain: Chain) -> list[tuple[str, int, int, int, str]]:
    return [
        (f"{s.broker_name}/{s.queue_id}", s.delta, s.offset_delta, s.offset_max, s.state.value)
        for s in chain
    ]
