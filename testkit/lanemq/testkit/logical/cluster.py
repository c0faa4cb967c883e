"""Clusters with logical queues, driven as an operator's tools and 5.0.0-PREVIEW clients do."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from operator import methodcaller
from random import Random
from typing import Final, final

import trio

from lanemq.proxy.broker.logical.state._metrics import logical_info
from lanemq.wire import RequestCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.headers import CreateTopic
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    SEGMENT_FIELD,
    Chain,
    CreateQueueForLogicalQueue,
    LogicalQueues,
    MigrateLogicalQueue,
    Redirect,
    ReuseLogicalQueue,
    SealLogicalQueue,
    Segment,
    SegmentState,
    UpdateLogicalQueueMapping,
)
from lanemq.wire.message import StoredMessage, decode_messages

from ..proxy.brokers import Client, pull_header
from ..proxy.peers import Peer
from ..simulation._network import Network
from ..simulation._processes import BROKER_PORT, BrokerProcess, NameServerProcess

PREVIEW: Final = 413
"""The version that clients of 5.0.0-PREVIEW name."""
TOPIC: Final = "T"
CLIENT_HOST: Final = "10.0.9.9"


@final
class LogicalCluster:
    """A name server and brokers; ``brokers`` by name."""

    def __init__(self, network: Network, name_server: NameServerProcess) -> None:
        self.network = network
        self.name_server = name_server
        self.brokers: dict[str, BrokerProcess] = {}
        self.start: Callable[..., Awaitable[None]]
        """Starts one more broker; set by the opener of the cluster."""
        self._clients: dict[tuple[str, int], Client] = {}

    async def connect(self, name: str, *, version: int = PREVIEW) -> Client:
        """Return a new connection to a broker."""
        host = self.brokers[name].host
        stream = await self.network.dialer(CLIENT_HOST)(host, BROKER_PORT)
        return Client(Peer(stream), version=version)

    async def at(self, name: str, *, version: int = PREVIEW) -> Client:
        """Return a connection to a broker; the same one every time, until ``forget``."""
        client = self._clients.get((name, version))
        if client is None:
            client = self._clients[name, version] = await self.connect(name, version=version)
        return client

    async def add(self, name: str, **settings: object) -> None:
        """Add one more broker, on the next host."""
        await self.start(name, **settings)

    def info(self, name: str) -> dict[str, str]:
        """Return the part of a broker's runtime information about logical queues."""
        context = self.brokers[name].running.context
        return logical_info(context.logical, context.now_ms())

    def forget(self) -> None:
        """Connect again from now on."""
        self._clients.clear()

    # Requests of tools

    async def create_topic(self, topic: str = TOPIC, *, queues: int) -> None:
        header = CreateTopic(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            order=False,
        )
        for name in self.brokers:
            client = await self.at(name)
            code = RequestCode.UPDATE_AND_CREATE_TOPIC
            assert (await client.call(code, header.to_fields())).code == 0

    async def map(
        self, name: str, queue_id: int, index: int, topic: str = TOPIC, *, force: bool = False
    ) -> Frame:
        client = await self.at(name)
        body = UpdateLogicalQueueMapping(topic, queue_id, index, force or None)
        return await client.call(RequestCode.UPDATE_TOPIC_LOGICAL_QUEUE_MAPPING, body=body.encode())

    async def map_all(self, *, queues: int, topic: str = TOPIC) -> None:
        """Create a topic and map queue after queue, broker after broker."""
        await self.create_topic(topic, queues=queues)
        index = 0
        for name in self.brokers:
            for queue_id in range(queues):
                assert (await self.map(name, queue_id, index, topic)).code == 0
                index += 1

    async def map_at_once(self, *, queues: int, topic: str = TOPIC) -> None:
        """Do ``map_all`` as one change of each broker: for more queues than requests could map in
        a test's time."""
        await self.create_topic(topic, queues=queues)
        for number, broker in enumerate(self.brokers.values()):
            logical, first = broker.running.context.logical, number * queues
            segments = [
                Segment(
                    MessageQueue(topic, logical.broker_name, queue_id),
                    first + queue_id,
                    0,
                    broker_address=logical.address,
                )
                for queue_id in range(queues)
            ]
            await logical.change(topic, methodcaller("put", *segments))

    async def query(self, name: str, topic: str = TOPIC) -> LogicalQueues | None:
        client = await self.at(name)
        code = RequestCode.QUERY_TOPIC_LOGICAL_QUEUE_MAPPING
        answer = await client.call(code, {"topic": topic})
        assert answer.code == 0
        return LogicalQueues.decode(answer.body)

    async def chain(self, name: str, index: int, topic: str = TOPIC) -> Chain:
        """Return a logical queue as a broker knows it; empty where it does not."""
        queues = await self.query(name, topic)
        return (queues.get(index) if queues is not None else None) or Chain(index)

    async def seal(self, name: str, queue_id: int, index: int) -> Frame:
        body = SealLogicalQueue(TOPIC, queue_id, index).encode()
        return await (await self.at(name)).call(RequestCode.SEAL_TOPIC_LOGICAL_QUEUE, body=body)

    async def reuse(
        self,
        name: str,
        queue_id: int,
        index: int,
        state: SegmentState = SegmentState.WRITE_ONLY,
        delta: int | None = None,
    ) -> Frame:
        body = ReuseLogicalQueue(TOPIC, queue_id, index, state, delta).encode()
        return await (await self.at(name)).call(RequestCode.REUSE_TOPIC_LOGICAL_QUEUE, body=body)

    async def create(
        self,
        name: str,
        index: int,
        state: SegmentState = SegmentState.WRITE_ONLY,
        delta: int | None = None,
        topic: str = TOPIC,
    ) -> Frame:
        body = CreateQueueForLogicalQueue(topic, index, state, delta).encode()
        code = RequestCode.CREATE_MESSAGE_QUEUE_FOR_LOGICAL_QUEUE
        return await (await self.at(name)).call(code, body=body)

    async def step(
        self, code: int, name: str, source: Segment | None, target: Segment | None
    ) -> Frame:
        """Ask a broker for one of the three steps of a migration."""
        body = MigrateLogicalQueue(source, target).encode()
        return await (await self.at(name)).call(code, body=body)

    async def prepare(self, source: Segment, target: Segment) -> Frame:
        code = RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_PREPARE
        return await self.step(code, source.broker_name, source, target)

    async def commit(self, source: Segment | None, target: Segment) -> Frame:
        code = RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_COMMIT
        return await self.step(code, target.broker_name, source, target)

    async def notify(self, name: str, source: Segment, target: Segment) -> Frame:
        return await self.step(RequestCode.MIGRATE_TOPIC_LOGICAL_QUEUE_NOTIFY, name, source, target)

    async def destination(self, index: int, name: str, *, reuse: int | None = None) -> Segment:
        """Return the WriteOnly segment of a migration to a broker."""
        if reuse is None:
            answer = await self.create(name, index)
        else:
            answer = await self.reuse(name, reuse, index)
        assert answer.code == 0, answer.remark
        return Segment.decode(answer.body)

    async def migrate(
        self,
        index: int,
        name: str,
        *,
        reuse: int | None = None,
        others: Iterable[str] = (),
    ) -> tuple[Segment, Segment]:
        """Return a whole migration; returns the two segments as they are at its end."""
        source = await self.normal(index)
        target = await self.destination(index, name, reuse=reuse)
        answer = await self.prepare(source, target)
        assert answer.code == 0, answer.remark
        move = MigrateLogicalQueue.decode(answer.body)
        assert move.source is not None
        assert move.destination is not None
        answer = await self.commit(move.source, move.destination)
        assert answer.code == 0, answer.remark
        done = MigrateLogicalQueue.decode(answer.body)
        assert done.source is not None
        assert done.destination is not None
        for host in (done.source.broker_name, *others):
            assert (await self.notify(host, done.source, done.destination)).code == 0
        return done.source, done.destination

    async def normal(self, index: int) -> Segment:
        """Return the one open segment of a logical queue, as its own broker knows it."""
        found = []
        for name, broker in self.brokers.items():
            if broker.is_up:
                chain = await self.chain(name, index)
                found += [
                    segment
                    for segment in chain
                    if segment.state is SegmentState.NORMAL and segment.broker_name == name
                ]
        assert len(found) == 1, found
        return found[0]

    # Requests of clients

    async def send(
        self,
        segment: Segment,
        body: bytes = b"body",
        *,
        flagged: bool = True,
        properties: dict[str, str] | None = None,
    ) -> Frame:
        """Send to the message queue of a segment."""
        client = await self.at(segment.broker_name)
        return await client.send(
            segment.topic,
            body,
            properties,
            queue_id=segment.queue_id,
            sys_flag=LOGICAL_QUEUE_FLAG if flagged else 0,
        )

    async def fill(self, segment: Segment, count: int, *, first: int = 0) -> None:
        """Send ``count`` numbered messages to a segment that takes them."""
        for number in range(first, first + count):
            answer = await self.send(segment, str(number).encode())
            assert answer.code == 0, answer.remark

    async def pull(self, segment: Segment, queue_offset: int, **changes: object) -> Frame:
        """Pull from a segment, at a physical offset, as a reader that names it."""
        client = await self.at(segment.broker_name)
        header = pull_header(segment.topic, segment.queue_id, queue_offset, **changes)
        fields = header.to_fields() | {SEGMENT_FIELD: segment.meant}
        return await client.call(RequestCode.PULL_MESSAGE, fields)

    async def offset(self, code: int, segment: Segment, **fields: str) -> Frame:
        """GET_MAX_OFFSET, GET_MIN_OFFSET or SEARCH_OFFSET_BY_TIMESTAMP of a message queue."""
        client = await self.at(segment.broker_name)
        queue = {"topic": segment.topic, "queueId": str(segment.queue_id)}
        return await client.call(code, queue | fields)


@asynccontextmanager
async def open_logical_cluster(
    *names: str, seed: int = 0, **settings: object
) -> AsyncIterator[LogicalCluster]:
    """Brokers ``names`` on hosts 10.0.1.1 and so on, registered at one name server."""
    rng = Random(seed)
    network = Network(rng)
    async with trio.open_nursery() as nursery:
        name_server = NameServerProcess("name server", "10.0.0.1", network, nursery)
        cluster = LogicalCluster(network, name_server)
        await name_server.start()

        async def add(name: str, **changed: object) -> None:
            cluster.brokers[name] = broker = BrokerProcess(
                name,
                f"10.0.1.{len(cluster.brokers) + 1}",
                network,
                nursery,
                name_servers=name_server.address,
                rng=rng,
                **(settings | changed),
            )
            await broker.start()

        cluster.start = add
        for name in names or ("broker1", "broker2"):
            await add(name)
        yield cluster
        nursery.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something has come to pass, by the simulated clock."""
    while not condition():  # noqa: ASYNC110 - there is nothing that would say so
        await trio.sleep(0.01)


def messages_of(answer: Frame) -> list[StoredMessage]:
    """Return the messages in the answer to a pull; none where it has none."""
    return decode_messages(answer.body) if answer.code == 0 else []


def redirect_of(answer: Frame) -> Redirect:
    """Return the broker and queue that an answer redirects a client to."""
    assert answer.fields.get("REDIRECT") == "1", answer
    redirect = Redirect.decode(answer.body)
    assert redirect is not None
    return redirect


def without_number(segment: Segment | None) -> Segment | None:
    """Return a segment as clients are told of it: without the number of its migration."""
    return None if segment is None else segment.with_migration(None)
