"""A broker that starts takes no message for a queue that may have gone on elsewhere."""

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk.admin import open_admin
from lanemq.testkit.logical.cluster import (
    CLIENT_HOST,
    TOPIC,
    LogicalCluster,
    redirect_of,
)
from lanemq.testkit.logical.mapped import mapped_cluster
from lanemq.wire import ResponseCode
from lanemq.wire.logical import Segment

OTHER = "other"


@pytest.fixture
async def cluster(autojump_clock: MockClock) -> AsyncIterator[LogicalCluster]:
    """Two brokers with two queues of one topic each, and one queue of another topic each."""
    async with mapped_cluster(queues=2) as cluster:
        await cluster.map_all(queues=1, topic=OTHER)
        yield cluster


async def gone_past(cluster: LogicalCluster) -> Segment:
    """Have broker2 go past queue 0 of broker1, which is down; returns the queue as it was."""
    source = await cluster.normal(0)
    await cluster.fill(source, 10)
    await cluster.brokers["broker1"].kill()
    target = await cluster.destination(0, "broker2")
    assert (await cluster.commit(source, target.with_delta(30))).code == 0
    return source


async def restart(cluster: LogicalCluster) -> None:
    await cluster.brokers["broker1"].restart("kill")
    cluster.forget()


async def forget(cluster: LogicalCluster, name: str) -> None:
    servers, dial = cluster.name_server.address, cluster.network.dialer(CLIENT_HOST)
    async with open_admin(name_servers=servers, dial=dial) as admin:
        await admin.forget_broker(name)


async def assert_withheld(cluster: LogicalCluster, segment: Segment) -> None:
    answer = await cluster.send(segment)
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE, answer
    assert "broker2" in (answer.remark or "")
    assert "forgetBroker" in (answer.remark or "")


@pytest.mark.slow
@pytest.mark.parametrize("away", ["down", "parted"])
async def test_a_queue_waits_for_the_word_of_the_broker_that_may_have_it_and_no_other_does(
    cluster: LogicalCluster, away: str
) -> None:
    untouched = await cluster.normal(1)
    (of_other,) = await cluster.chain("broker1", 0, OTHER)
    source = await gone_past(cluster)
    other = cluster.brokers["broker2"]
    if away == "down":
        await other.kill()
    else:
        cluster.network.part(other.host, cluster.brokers["broker1"].host)
    await restart(cluster)
    await assert_withheld(cluster, source)
    for segment in (untouched, of_other):
        await trio.sleep(3)  # each topic is asked about by itself
        assert (await cluster.send(segment)).code == 0
    await trio.sleep(60)
    await assert_withheld(cluster, source)
    if away == "down":
        await other.restart("kill")
    else:
        cluster.network.join()
    await trio.sleep(15)  # the addresses of other brokers are asked for every 10 s
    cluster.forget()
    assert redirect_of(await cluster.send(source)).following.broker_name == "broker2"
    assert (await cluster.send(await cluster.normal(0))).code == 0


async def test_a_broker_that_is_forgotten_keeps_no_queue_closed(cluster: LogicalCluster) -> None:
    source = await gone_past(cluster)
    await cluster.brokers["broker2"].kill()
    await restart(cluster)
    await assert_withheld(cluster, source)
    await forget(cluster, "broker2")
    await trio.sleep(10)
    assert (await cluster.send(source)).code == 0


async def test_a_topic_that_is_deleted_keeps_nothing_withheld(cluster: LogicalCluster) -> None:
    await gone_past(cluster)
    await cluster.brokers["broker2"].kill()
    await restart(cluster)
    logical = cluster.brokers["broker1"].running.context.logical
    assert list(logical.gate.withheld) == [(TOPIC, 0)]
    await logical.forget(TOPIC)
    await trio.sleep(10)
    assert not logical.gate.withheld


async def test_without_a_name_server_a_broker_starts_at_once(autojump_clock: MockClock) -> None:
    async with mapped_cluster("broker1") as cluster:
        source = await cluster.normal(0)
        await cluster.brokers["broker1"].kill()
        await cluster.name_server.kill()
        began_s = trio.current_time()
        await restart(cluster)
        assert (await cluster.send(source)).code == 0
        assert trio.current_time() - began_s < 5
