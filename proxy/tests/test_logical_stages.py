"""A group with stages in logical queues: the gate goes by what is committed to these."""

import pytest
import trio

from lanemq.testkit.logical.cluster import CLIENT_HOST, LogicalCluster
from lanemq.testkit.proxy.brokers import Client
from lanemq.testkit.proxy.peers import Peer
from lanemq.testkit.simulation._processes import LOGICAL_PORT
from lanemq.wire import RequestCode
from lanemq.wire.bodies import SubscriptionGroupConfig
from lanemq.wire.headers import ResetOffset, UpdateConsumerOffset
from lanemq.wire.message import decode_messages

pytestmark = [
    pytest.mark.slow,  # a cluster of its own for every test
    pytest.mark.mapped_cluster(queues=2),  # 0 and 1 at the first broker, 2 and 3 at the second
]

NOT_FOUND = 19


async def reader(cluster: LogicalCluster, broker: int, stages: list[int]) -> Client:
    """A member of group g, at the listener of broker number ``broker``."""
    config = SubscriptionGroupConfig(group_name="g", extra={"stages": stages})
    for name in cluster.brokers:
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        assert (await (await cluster.at(name)).call(code, body=config.encode())).code == 0
    dial = cluster.network.dialer(CLIENT_HOST)
    client = Client(Peer(await dial(cluster.brokers[f"broker{broker}"].host, LOGICAL_PORT)))
    await client.heartbeat("c", consumers={"g": {"T": "*"}})
    return client


async def fill(client: Client, index: int, count: int) -> None:
    for _ in range(count):
        assert (await client.send("T", queue_id=index)).code == 0


async def given(client: Client, index: int, offset: int, *, suspend: bool = False) -> list[int]:
    """The offsets of what a pull is given; following what it says where it gives nothing."""
    for _ in range(4):
        answer = await client.pull("T", index, offset, sys_flag=6 if suspend else 4)
        if answer.code == 0:
            return [message.queue_offset for message in decode_messages(answer.body)]
        assert answer.code in (NOT_FOUND, 20)
        offset = int(answer.fields["nextBeginOffset"])
    return []


async def commit(client: Client, index: int, offset: int) -> None:
    await client.call(15, UpdateConsumerOffset("g", "T", index, offset).to_fields())


@pytest.mark.parametrize("index", [0, 2])
async def test_the_next_stage_is_given_out_once_the_one_before_is_committed(
    cluster: LogicalCluster, index: int
) -> None:
    client = await reader(cluster, 1, [4, 3])
    await fill(client, index, 10)
    assert await given(client, index, 0) == [0, 1, 2, 3]
    assert await given(client, index, 4) == []
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            assert await given(client, index, 4, suspend=True) == [4, 5, 6]

        nursery.start_soon(wait)
        await trio.sleep(1)
        begun_s = trio.current_time()
        await commit(await reader(cluster, 2, [4, 3]), index, 4)
    assert trio.current_time() - begun_s < 1
    assert await given(client, index, 7) == []
    await commit(client, index, 7)
    assert await given(client, index, 7) == [7, 8, 9]


async def test_stages_go_on_through_the_segments_of_a_queue(cluster: LogicalCluster) -> None:
    """Read behind the end, where commits go to the broker of the new segment, and over it."""
    client = await reader(cluster, 1, [4, 10, 4])
    await fill(client, 0, 10)
    await cluster.migrate(0, "broker2")
    await fill(client, 0, 20)
    await trio.sleep(11)
    assert await given(client, 0, 0) == [0, 1, 2, 3]
    assert await given(client, 0, 4) == []
    await commit(client, 0, 4)
    assert await given(client, 0, 4) == [4, 5, 6, 7, 8, 9]
    assert await given(client, 0, 10) == [10, 11, 12, 13]
    assert await given(client, 0, 14) == []
    await commit(client, 0, 14)
    assert await given(client, 0, 14) == [14, 15, 16, 17]
    assert await given(client, 0, 18) == []
    await commit(client, 0, 18)
    assert (await given(client, 0, 18))[0] == 18


async def test_a_stage_that_ends_with_a_segment_is_waited_for_in_the_next(
    cluster: LogicalCluster,
) -> None:
    client = await reader(cluster, 1, [4, 4])
    await fill(client, 0, 4)
    assert await given(client, 0, 0) == [0, 1, 2, 3]
    await cluster.migrate(0, "broker2")
    await fill(client, 0, 8)
    await trio.sleep(11)
    assert await given(client, 0, 4) == []
    await commit(client, 0, 4)
    assert await given(client, 0, 4) == [4, 5, 6, 7]
    await commit(client, 0, 8)
    assert await given(client, 0, 8) == [8, 9, 10, 11]


async def test_a_reset_has_the_stages_counted_anew(cluster: LogicalCluster) -> None:
    client = await reader(cluster, 1, [2, 2])
    await fill(client, 0, 6)
    for offset in (0, 2):
        assert await given(client, 0, offset) == [offset, offset + 1]
        await commit(client, 0, offset + 2)
    assert await given(client, 0, 4) == [4, 5]
    header = ResetOffset(topic="T", group="g", timestamp=0, is_force=True)
    assert (await client.call(222, header.to_fields())).code == 0
    await commit(client, 0, 0)
    assert await given(client, 0, 0) == [0, 1]
    assert await given(client, 0, 2) == []


async def test_a_reader_at_the_end_of_a_closed_queue_is_held(cluster: LogicalCluster) -> None:
    """It would ask again at once, and the broker others for the group's progress each time."""
    client = await reader(cluster, 1, [100])
    await fill(client, 0, 3)
    source = await cluster.normal(0)
    assert (await cluster.prepare(source, await cluster.destination(0, "broker2"))).code == 0
    begun_s = trio.current_time()
    answer = await client.pull("T", 0, 3, sys_flag=6, suspend_timeout_millis=5000)
    assert (answer.code, answer.fields["nextBeginOffset"]) == (NOT_FOUND, "3")
    assert trio.current_time() - begun_s >= 5
