"""A cluster of its own with something to show: messages, groups, a consumer and a producer."""

import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import trio

from lanemq.local import make_directories, write_file
from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    Message,
    PushOptions,
    ReceivedMessage,
    open_producer,
    open_push_consumer,
)
from lanemq.sdk.admin import AdminClient, open_admin
from lanemq.wire.bodies import MessageQueue, TopicConfig

from ..servers._apache import TEST_STORE
from ..servers._clusters import Cluster, apache_cluster, lanemq_cluster, running
from ..servers._waiting import PATIENT_CLIENT, PATIENT_PRODUCER, PATIENT_S, until

TOPIC, LIVE, GONE = "Shared", "live_group", "gone_group"


@dataclass(frozen=True, slots=True)
class Stand:
    """The values that a tool's arguments and output contain."""

    namesrv: str
    broker: str
    folder: str
    """A directory for files that tools read and write."""
    offset_id: str
    unique_id: str
    client_id: str

    def arguments(self) -> dict[str, str]:
        """Return the values by the names that ``Step.line`` has."""
        return {name: getattr(self, name) for name in self.__slots__}

    def known(self) -> Mapping[str, str]:
        """Return names for all values."""
        return {value: name.upper() for name, value in self.arguments().items()}


@asynccontextmanager
async def open_stand(server: str, folder: Path) -> AsyncIterator[Stand]:
    """Run a cluster of a server's kind in ``folder``.

    Raises ``PeersMissing``, ``BuildFailed`` and ``ServerFailed``.
    """
    make = functools.partial(_cluster, server, folder / "cluster")
    cluster = await trio.to_thread.run_sync(make)
    files = folder / "files"
    make_directories(files)
    write_file(files / "topics.json", _TOPICS)
    write_file(files / "groups.json", _GROUPS)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(cluster, graceful=False))
        admin = await stack.enter_async_context(
            open_admin(name_servers=cluster.name_server, timeout_s=PATIENT_S)
        )
        [broker] = await admin.masters("DefaultCluster")
        await admin.put_topic(broker, TopicConfig(TOPIC, 2, 2))
        await until(functools.partial(_routed, admin))
        producer = await stack.enter_async_context(
            open_producer(
                "live_producers", name_servers=cluster.name_server, options=PATIENT_PRODUCER
            )
        )
        results = [
            await producer.send(
                Message(topic=TOPIC, body=b"body %d" % n, tags=f"Tag{n % 2}", keys=(f"k{n}",)),
                queue=MessageQueue(TOPIC, "broker-a", n % 2),
            )
            for n in range(4)
        ]

        async def indexed() -> bool:
            return all([len(await admin.messages_by_key(TOPIC, f"k{n}")) == 1 for n in range(4)])

        async def read(group: str) -> bool:
            table = (await admin.progress(group)).offset_table
            known = [
                offset.consumer_offset for queue, offset in table.items() if queue.topic == TOPIC
            ]
            return known == [2, 2] and len(table) > 2

        await until(indexed)
        async with reading(cluster, GONE, TOPIC):
            await until(functools.partial(read, GONE))
        await stack.enter_async_context(reading(cluster, LIVE, TOPIC))
        await until(functools.partial(read, LIVE))
        connected = await admin.consumer_connections(broker, LIVE)
        assert connected is not None
        [member] = connected.connection_set
        yield Stand(
            namesrv=cluster.name_server,
            broker=broker,
            folder=str(files),
            offset_id=results[0].offset_id,
            unique_id=results[0].message_id,
            client_id=member.client_id,
        )


_TOPICS = b'[{"topicName":"Listed","readQueueNums":1,"writeQueueNums":1,"perm":6}]'
_GROUPS = b'[{"groupName":"listed_group","consumeEnable":true}]'


def _cluster(server: str, folder: Path) -> Cluster:
    if server.startswith("apache-"):
        # Without its timer store 5.3.3 cannot delete a topic.
        settings = {**TEST_STORE, "timerWheelEnable": "true"}
        return apache_cluster(server.removeprefix("apache-"), folder, settings=settings)
    return lanemq_cluster(folder, settings={"brokerName": "broker-a"})


async def _routed(admin: AdminClient) -> bool:
    return TOPIC in await admin.topics()


@asynccontextmanager
async def reading(cluster: Cluster, group: str, topic: str) -> AsyncIterator[None]:
    """Open a consumer that reads a topic, and tells its broker soon."""

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        pass

    async with open_push_consumer(
        group,
        name_servers=cluster.name_server,
        subscriptions={topic: "*"},
        listener=ConcurrentListener(handle),
        options=PushOptions(
            consume_from=ConsumeFrom.FIRST_OFFSET,
            rebalance_interval_s=0.5,
            offset_persist_interval_s=0.5,
            pull_suspend_s=0.5,  # the first answer brings the offset that is reported
            client=replace(PATIENT_CLIENT, route_refresh_s=0.5),
        ),
    ):
        yield
