"""Two brokers with queues behind a proxy at which these move, for tests."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from lanemq.proxy.gateway import RunningGateway
from lanemq.proxy.gateway._numbers import BrokerKey
from lanemq.proxy.gateway.moves import MoveContext
from lanemq.proxy.process import RunningBroker
from lanemq.sdk import (
    ConsumeFrom,
    OrderlyListener,
    Outcome,
    PushOptions,
    ReceivedMessage,
    RemotingClient,
    open_push_consumer,
)
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.testkit.servers import PATIENT_S
from lanemq.wire import RequestCode
from lanemq.wire.bodies import MessageQueue, QueueMove, TopicConfig

from .brokers import Client
from .gateways import Cluster, clustered, until
from .peers import Dial

A: Final = "broker-a"
B: Final = "broker-b"


@dataclass
class Stand:
    """Two brokers with two queues of topic T each, and a proxy at which queues move."""

    cluster: Cluster
    brokers: dict[str, RunningBroker]
    stops: dict[str, trio.Event]
    """Each of them stops a broker."""
    stopped: dict[str, trio.Event]
    """Each of them is set once a broker has stopped, and its store may be opened again."""
    proxy: RunningGateway
    dial: Dial

    @property
    def address(self) -> str:
        return str(self.proxy.address)

    async def client(self, name: str) -> Client:
        """Connect to where clients see a broker."""
        return Client(await self.dial(self.proxy.brokers.ports[BrokerKey(name, 0)].address.port))

    def context(self, client: RemotingClient) -> MoveContext:
        """Return what the proxy's own commands work with, over another client."""
        moving, brokers = self.proxy.moving, self.proxy.brokers
        assert moving is not None
        admin = AdminClient(client, [self.cluster.name_server], timeout_s=PATIENT_S)
        return MoveContext(moving, client, admin, brokers.address_of, brokers.masters, str)

    async def move(self, index: int, broker: str) -> QueueMove:
        async with open_admin(name_servers=self.address, timeout_s=PATIENT_S) as admin:
            return await moved(admin, index, broker)


async def moved(admin: AdminClient, index: int, broker: str) -> QueueMove:
    """Have a queue moved, and wait for it."""
    while True:
        found = await admin.move_queue(admin.name_servers[0], "T", index, broker)
        if found.state != "moving":
            return found


async def put(broker: RunningBroker, read: int, write: int | None = None) -> None:
    async with open_admin(name_servers="127.0.0.1:1", timeout_s=PATIENT_S) as admin:
        config = TopicConfig(
            "T", read_queue_nums=read, write_queue_nums=read if write is None else write
        )
        await admin.put_topic(str(broker.address), config)


async def _run(
    cluster: Cluster,
    name: str,
    port: int,
    stop: trio.Event,
    stopped: trio.Event,
    task_status: trio.TaskStatus[RunningBroker] = trio.TASK_STATUS_IGNORED,
) -> None:
    async with cluster.open_broker(name, port) as broker:
        task_status.started(broker)
        await stop.wait()
    stopped.set()


@asynccontextmanager
async def standing(
    tmp_path: Path, dial: Dial, *, ports: tuple[int, int] = (0, 0)
) -> AsyncIterator[Stand]:
    """Run all of it, with the brokers at ``ports``."""
    async with clustered(tmp_path) as cluster:
        nursery = await cluster.stack.enter_async_context(trio.open_nursery())
        stops = {name: trio.Event() for name in (A, B)}
        stopped = {name: trio.Event() for name in stops}
        brokers = {
            name: await nursery.start(_run, cluster, name, port, stop, stopped[name])
            for (name, stop), port in zip(stops.items(), ports, strict=True)
        }
        for broker in brokers.values():
            await put(broker, 2)
        proxy = await cluster.proxy(logical=True, moves=True, settle_seconds=0)
        moving = proxy.moving
        assert moving is not None
        await until(lambda: moving.lease.is_sure)
        client = Client(await dial(proxy.address.port))
        answer = await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        assert answer.code == 0, answer.remark
        yield Stand(cluster, brokers, stops, stopped, proxy, dial)
        for stop in stops.values():
            stop.set()


@dataclass
class Handled:
    """The messages that an orderly group has been given."""

    bodies: list[str] = field(default_factory=list)
    places: list[tuple[MessageQueue, int]] = field(default_factory=list)


@asynccontextmanager
async def reading(address: str, group: str = "g") -> AsyncIterator[Handled]:
    handled = Handled()

    async def note(messages: Sequence[ReceivedMessage]) -> Outcome:
        for one in messages:
            handled.bodies.append(one.body.decode())
            handled.places.append((one.queue, one.queue_offset))
        return Outcome.SUCCESS

    async with open_push_consumer(
        group,
        name_servers=address,
        subscriptions={"T": "*"},
        listener=OrderlyListener(note),
        options=PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET),
    ):
        yield handled
