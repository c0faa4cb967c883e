"""A topic that was deleted while a broker was down: nothing of it comes to life with the broker."""

from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock

from lanemq.testkit.logical.cluster import (
    TOPIC,
    LogicalCluster,
    messages_of,
    open_logical_cluster,
    until,
)
from lanemq.testkit.logical.mapped import tools
from lanemq.wire.bodies import TopicConfig

NAMES = ("broker1", "broker2", "broker3")
DOWN = "broker3"


async def make(cluster: LogicalCluster, queues: int = 1) -> None:
    """Make the topic on all brokers that run, and logical queues of its queues."""
    config = TopicConfig(TOPIC, read_queue_nums=queues, write_queue_nums=queues)
    async with tools(cluster) as admin:
        for broker in cluster.brokers.values():
            if broker.is_up:
                await admin.put_topic(broker.address, config)
        await admin.map_logical_queues(TOPIC)


async def delete(cluster: LogicalCluster) -> None:
    """As ``deleteTopic``: at all brokers that run, and at the name server."""
    async with tools(cluster) as admin:
        for broker in cluster.brokers.values():
            if broker.is_up:
                await admin.delete_topic(broker.address, TOPIC)
        await admin.delete_route(TOPIC)


def has_topic(cluster: LogicalCluster, name: str) -> bool:
    context = cluster.brokers[name].running.context
    return context.topics.get(TOPIC) is not None or TOPIC in context.logical.mappings


@pytest.fixture
async def cluster(autojump_clock: MockClock) -> AsyncIterator[LogicalCluster]:
    """A topic with messages in its three logical queues; broker3 has gone down since."""
    async with open_logical_cluster(*NAMES) as cluster:
        await make(cluster)
        for index in range(3):
            await cluster.fill(await cluster.normal(index), 5)
        await cluster.brokers[DOWN].kill()
        yield cluster


async def back(cluster: LogicalCluster, name: str = DOWN) -> None:
    await cluster.brokers[name].restart("power")
    cluster.forget()


async def test_a_topic_that_was_deleted_meanwhile_does_not_come_back_with_a_broker(
    cluster: LogicalCluster,
) -> None:
    await delete(cluster)
    await back(cluster)
    await trio.sleep(60)
    assert not has_topic(cluster, DOWN)
    async with tools(cluster) as admin:
        assert TOPIC not in await admin.topics()


async def test_a_topic_that_was_made_again_meanwhile_has_nothing_of_the_old_one(
    cluster: LogicalCluster,
) -> None:
    await delete(cluster)
    await make(cluster)
    await cluster.fill(await cluster.normal(1), 3, first=100)
    await back(cluster)
    await trio.sleep(60)
    assert not has_topic(cluster, DOWN)
    async with tools(cluster) as admin:
        queues = await admin.routed_logical_queues(TOPIC)
    assert queues is not None
    assert {segment.broker_name for segment in queues.segments} == {"broker1", "broker2"}
    answer = await cluster.pull(await cluster.normal(1), 0)
    assert [int(message.body) for message in messages_of(answer)] == [100, 101, 102]


async def test_it_is_found_out_when_others_can_be_reached_at_last(cluster: LogicalCluster) -> None:
    await delete(cluster)
    for name in NAMES[:2]:
        cluster.network.part(cluster.brokers[DOWN].host, cluster.brokers[name].host)
    await back(cluster)
    await trio.sleep(20)
    assert has_topic(cluster, DOWN)  # nobody says that it was deleted
    cluster.network.join()
    with trio.fail_after(60):
        await until(lambda: not has_topic(cluster, DOWN))


@pytest.mark.slow
async def test_a_broker_that_was_down_has_a_part_of_the_new_topic_afterwards(
    cluster: LogicalCluster,
) -> None:
    await delete(cluster)
    await make(cluster)
    await back(cluster)
    await trio.sleep(60)
    source = await cluster.normal(0)
    await cluster.fill(source, 4, first=200)
    await cluster.migrate(0, DOWN)
    await cluster.fill(await cluster.normal(0), 2, first=204)
    await cluster.brokers[DOWN].kill()
    await back(cluster)
    await trio.sleep(60)
    assert (await cluster.normal(0)).broker_name == DOWN


async def test_a_topic_that_was_deleted_at_one_broker_alone_lives_on(
    cluster: LogicalCluster,
) -> None:
    """That is not a deletion of the topic: brokers that were away go on with it."""
    async with tools(cluster) as admin:
        await admin.delete_topic(cluster.brokers["broker2"].address, TOPIC)
    await make(cluster)
    await back(cluster)
    await trio.sleep(60)
    assert (await cluster.normal(2)).broker_name == DOWN
    answer = await cluster.pull(await cluster.normal(2), 0)
    assert len(messages_of(answer)) == 5


async def test_a_deletion_outlives_the_brokers_that_know_of_it(cluster: LogicalCluster) -> None:
    await delete(cluster)
    for name in NAMES[:2]:
        await cluster.brokers[name].kill()
        await back(cluster, name)
    await back(cluster)
    await trio.sleep(60)
    assert not has_topic(cluster, DOWN)
