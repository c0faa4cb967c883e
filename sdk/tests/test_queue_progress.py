"""Consumers know where they are in their queues, and how far behind the ends."""

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    InvalidName,
    LanemqError,
    MessageQueue,
    OrderlyListener,
    ReceivedMessage,
    WrongUse,
)
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster

FIRST, OTHER = (MessageQueue("T", "broker-a", number) for number in (0, 1))


def fill(cluster: FakeCluster) -> None:
    cluster.create_topic("T", 2)
    for number in range(5):
        cluster.broker.put("T", 0, b"%d" % number)


async def test_a_reader_is_behind_by_what_it_has_not_returned(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster)
    async with lite_pull_consumer_of(
        cluster, consume_from=ConsumeFrom.FIRST_OFFSET, poll_messages_max=2
    ) as consumer:
        await consumer.assign([FIRST, OTHER])
        assert await consumer.end_offsets([FIRST, OTHER]) == {FIRST: 5, OTHER: 0}
        assert await consumer.lag() == {FIRST: 5, OTHER: 0}
        assert len(await consumer.poll()) == 2
        assert consumer.position(FIRST) == 2
        assert await consumer.lag() == {FIRST: 3, OTHER: 0}
        consumer.seek(FIRST, 4)
        assert (consumer.position(FIRST), await consumer.lag()) == (4, {FIRST: 1, OTHER: 0})


@pytest.mark.parametrize("kind", [ConcurrentListener, OrderlyListener])
async def test_a_push_consumer_is_behind_by_what_is_not_finished(
    cluster: FakeCluster,
    autojump_clock: MockClock,
    kind: type[ConcurrentListener | OrderlyListener],
) -> None:
    fill(cluster)
    go_on = trio.Event()

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        if messages[0].body == b"2":
            await go_on.wait()

    async with push_consumer_of(
        cluster, kind(handle, concurrency=1), consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        await trio.sleep(5)
        assert consumer.position(FIRST) == 2
        lag = await consumer.lag()
        assert (lag[FIRST], lag[OTHER]) == (3, 0)
        go_on.set()
        await trio.sleep(5)
        assert (consumer.position(FIRST), (await consumer.lag())[FIRST]) == (5, 0)


async def test_ends_of_queues_that_others_read_and_of_none(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster)
    cluster.create_topic("T2", 1)
    foreign = MessageQueue("T2", "broker-a", 0)
    cluster.broker.put("T2", 0, b"x")
    async with lite_pull_consumer_of(cluster) as consumer:
        await consumer.assign([FIRST])
        assert await consumer.end_offsets([foreign]) == {foreign: 1}
        assert await consumer.end_offsets([]) == {}
        with pytest.raises(WrongUse, match="not read by this consumer"):
            consumer.position(foreign)
        with pytest.raises(InvalidName):
            await consumer.end_offsets(["T"])  # type: ignore[list-item]
        with pytest.raises(LanemqError):
            await consumer.end_offsets([MessageQueue("Missing", "broker-a", 0)])


async def test_a_namespace_stays_out_of_sight(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("shop%T", 1)
    cluster.broker.put("shop%T", 0, b"x")
    async with lite_pull_consumer_of(
        cluster, namespace="shop", consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        await consumer.subscribe("T")
        assert await consumer.lag() == {FIRST: 1}
