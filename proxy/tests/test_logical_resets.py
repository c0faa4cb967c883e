"""An operator resets a group: every member is told of the queues in the names that it knows."""

from collections.abc import Sequence

import pytest

from lanemq.sdk import (
    ClientOptions,
    ConcurrentListener,
    Outcome,
    PushOptions,
    ReceivedMessage,
    open_push_consumer,
)
from lanemq.testkit.logical.cluster import CLIENT_HOST, LogicalCluster, open_logical_cluster
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.simulation._processes import BROKER_PORT, LOGICAL_PORT, clock_ms
from lanemq.wire import RequestCode, Version
from lanemq.wire.bodies import ConsumerData, HeartbeatData, ResetOffsetBody, SubscriptionData
from lanemq.wire.headers import ResetOffset, UpdateConsumerOffset
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER, READER_FIELD

BROKERS = 3
"""The brokers that older clients see instead of the two that there are."""
QUEUES = 6
pytestmark = [
    pytest.mark.slow,  # a cluster of its own for every test
    pytest.mark.mapped_cluster(logical_queue_brokers=BROKERS, queues=QUEUES // 2),
]
FIRST, SECOND = LOGICAL_QUEUE_BROKER, f"{LOGICAL_QUEUE_BROKER}1"
Targets = dict[tuple[str, int], int]
"""Broker name and queue id -> offset."""


async def connect(cluster: LogicalCluster, port: int, *, version: int = 407) -> Client:
    dial = cluster.network.dialer(CLIENT_HOST)
    return Client(Peer(await dial(cluster.brokers["broker1"].host, port)), version=version)


async def at_number(cluster: LogicalCluster, number: int, *, version: int = 407) -> Client:
    """Come as an older client does to one of the brokers that it sees."""
    ports = cluster.brokers["broker1"].config.numbered_ports
    return await connect(cluster, ports[number], version=version)


async def join(client: Client, client_id: str, *, by_index: bool = False) -> None:
    subscription = SubscriptionData.of_tags("T", "*", sub_version=1)
    group = ConsumerData(group_name="g", subscription_data_set=(subscription,))
    body = HeartbeatData(client_id=client_id, consumer_data_set=(group,)).encode()
    fields = {READER_FIELD: "true"} if by_index else {}
    assert (await client.call(RequestCode.HEART_BEAT, fields, body)).code == 0


async def fill(cluster: LogicalCluster) -> None:
    """Three messages in each queue ``index``; the group has consumed two or, of the last, none."""
    client = await connect(cluster, LOGICAL_PORT)
    for index in range(QUEUES):
        for _ in range(3):
            assert (await client.send("T", queue_id=index)).code == 0
        if index < QUEUES - 1:
            await client.call(15, UpdateConsumerOffset("g", "T", index, 2).to_fields())


async def reset(client: Client, timestamp: int, *, force: bool) -> Targets:
    header = ResetOffset(topic="T", group="g", timestamp=timestamp, is_force=force)
    answer = await client.call(222, header.to_fields())
    assert answer.code == 0, answer.remark
    return read(answer.body)


def read(body: bytes) -> Targets:
    table = ResetOffsetBody.decode(body).offset_table
    return {(queue.broker_name, queue.queue_id): offset for queue, offset in table.items()}


async def told(client: Client) -> Targets:
    """Return what a member was told since it was asked last."""
    await client.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "g"})
    found: Targets = {}
    for frame in client.pushed:
        if frame.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            found |= read(frame.body)
    client.pushed.clear()
    return found


async def test_each_member_is_told_in_its_own_names(cluster: LogicalCluster) -> None:
    """Broker 0 of three has the logical queues 0 and 3, broker 1 has 1 and 4."""
    await fill(cluster)
    old, by_index = await at_number(cluster, 0), await connect(cluster, BROKER_PORT)
    await join(old, "old")
    await join(by_index, "by index", by_index=True)
    of_old = {(FIRST, 0): 0, (FIRST, 1): 0}
    assert await reset(await at_number(cluster, 0), 0, force=True) == of_old
    assert await told(old) == of_old
    assert await told(by_index) == {(FIRST, 0): 0, (FIRST, 3): 0}
    of_old = {(SECOND, 0): 0, (SECOND, 1): 0}
    assert await reset(await at_number(cluster, 1), 0, force=True) == of_old
    assert await told(old) == of_old
    assert await told(by_index) == {(FIRST, 1): 0, (FIRST, 4): 0}


async def test_an_operator_who_goes_by_index_is_understood_by_members_of_old(
    cluster: LogicalCluster,
) -> None:
    await fill(cluster)
    old, operator = await at_number(cluster, 1), await connect(cluster, LOGICAL_PORT)
    await join(old, "old")
    wanted = {(FIRST, index): 0 for index in range(QUEUES)}
    assert await reset(operator, 0, force=True) == wanted
    assert await told(old) == {
        (f"{LOGICAL_QUEUE_BROKER}{number or ''}", queue_id): 0
        for number in range(BROKERS)
        for queue_id in range(QUEUES // BROKERS)
    }


async def test_java_5_0_0_is_told_in_the_names_of_the_port_that_it_comes_to(
    cluster: LogicalCluster,
) -> None:
    """Its preview goes by index, the release does not, and both name one version."""
    await fill(cluster)
    version = int(Version.V5_0_0)
    connections = {}
    for client_id, port in (
        ("preview", LOGICAL_PORT),
        ("release", cluster.brokers["broker1"].config.numbered_ports[0]),
        ("either", BROKER_PORT),
    ):
        for at in {port, BROKER_PORT}:
            client = await connect(cluster, at, version=version)
            await join(client, client_id)
            connections[client_id, at == BROKER_PORT] = client
    await reset(await at_number(cluster, 0), 0, force=True)
    for is_main in (True, False):
        assert await told(connections["preview", is_main]) == {(FIRST, 0): 0, (FIRST, 3): 0}
        assert await told(connections["release", is_main]) == {(FIRST, 0): 0, (FIRST, 1): 0}
    assert await told(connections["either", True]) == {}  # rather nothing than another queue


async def test_without_force_no_queue_goes_forward_nor_one_of_unknown_progress(
    cluster: LogicalCluster,
) -> None:
    await fill(cluster)
    client = await connect(cluster, LOGICAL_PORT)
    await join(client, "c")
    known = {(FIRST, index): 2 for index in range(QUEUES - 1)}
    assert await reset(client, -1, force=False) == known
    everything = {(FIRST, index): 3 for index in range(QUEUES)}
    assert await reset(client, -1, force=True) == everything


async def test_progress_in_the_physical_queue_of_before_counts(autojump_clock: object) -> None:
    async with open_logical_cluster() as cluster:
        await cluster.create_topic(queues=1)
        physical = await cluster.at("broker1", version=407)
        for _ in range(3):
            await physical.send("T", queue_id=0)
        await physical.call(15, UpdateConsumerOffset("g", "T", 0, 2).to_fields())
        for index, name in enumerate(cluster.brokers):
            await cluster.map(name, 0, index)
        client = await connect(cluster, LOGICAL_PORT)
        await join(client, "c")
        assert await reset(client, -1, force=False) == {(FIRST, 0): 2}


async def succeed(messages: Sequence[ReceivedMessage]) -> Outcome:
    return Outcome.SUCCESS


@pytest.mark.parametrize("knows", [True, False])
async def test_the_sdk_says_whether_it_goes_by_index(cluster: LogicalCluster, knows: bool) -> None:
    async with open_push_consumer(
        "g",
        name_servers=f"{cluster.name_server.host}:9876",
        subscriptions={"T": "*"},
        listener=ConcurrentListener(succeed),
        options=PushOptions(client=ClientOptions(logical_queues=knows)),
        dial=cluster.network.dialer(CLIENT_HOST),
        clock_ms=clock_ms,
    ):
        group = cluster.brokers["broker1"].running.context.clients.consumer_group("g")
        assert group is not None
        assert {client.knows_indices for client in group.clients.values()} == {knows}
