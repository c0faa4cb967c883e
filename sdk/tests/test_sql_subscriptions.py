"""Subscriptions by a condition: checked here, checked by the brokers, and filtered there."""

from collections.abc import Sequence

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ConcurrentListener,
    ConsumeFrom,
    InvalidName,
    LitePullOptions,
    PushOptions,
    ReceivedMessage,
    RefusedByBroker,
    Sql,
)
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode
from lanemq.wire.bodies import CheckClientRequestBody

CHECK = RequestCode.CHECK_CLIENT_CONFIG


def fill(cluster: FakeCluster) -> None:
    cluster.create_topic("T", 1)
    for number in range(10):
        cluster.broker.put("T", 0, b"%d" % number, a=str(number), TAGS=["even", "odd"][number % 2])


@pytest.mark.parametrize("text", ["a >", "a > 5 garbage", "", "a > 'x'", "007 = a"])
def test_what_is_no_condition_is_refused_before_anything_is_sent(text: str) -> None:
    with pytest.raises(InvalidName, match=r"not a condition in SQL: .* at character"):
        Sql(text)


async def test_a_listener_gets_what_meets_the_condition(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster)
    bodies: list[bytes] = []

    async def handle(messages: Sequence[ReceivedMessage]) -> None:
        bodies.extend(message.body for message in messages)

    async with push_consumer_of(
        cluster,
        ConcurrentListener(handle),
        PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET),
        subscriptions={"T": Sql("a > 5 AND TAGS = 'odd'")},
    ) as consumer:
        await trio.sleep(1)
        assert bodies == [b"7", b"9"]
        assert [consumer.committed_offset(queue) for queue in consumer.queues][-1] == 10
    assert cluster.broker.offsets["cg", "T", 0] == 10
    codes = [frame.code for frame in cluster.broker.requests]
    assert codes.index(CHECK) < codes.index(RequestCode.HEART_BEAT)
    (asked,) = [frame for frame in cluster.broker.requests if frame.code == CHECK]
    body = CheckClientRequestBody.decode(asked.body)
    assert (body.group, body.client_id) == ("cg", consumer.client_id)
    assert body.subscription_data is not None
    assert body.subscription_data.sub_string == "a > 5 AND TAGS = 'odd'"
    assert body.subscription_data.expression_type == "SQL92"


async def test_a_poll_gets_what_meets_the_condition(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster)
    async with lite_pull_consumer_of(
        cluster, LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
    ) as consumer:
        await consumer.subscribe("T", Sql("a BETWEEN 2 AND 4"))
        assert [message.body for message in await consumer.poll()] == [b"2", b"3", b"4"]


async def test_a_broker_that_does_not_filter_so_says_it_at_once(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster)
    cluster.broker.property_filter = False
    async with lite_pull_consumer_of(cluster) as consumer:
        with pytest.raises(RefusedByBroker, match="no filter by properties"):
            await consumer.subscribe("T", Sql("a > 5"))


async def test_a_broker_that_cannot_be_asked_does_not_stop_the_consumer(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster)
    cluster.broker.mute(CHECK)
    async with lite_pull_consumer_of(
        cluster, LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
    ) as consumer:
        await consumer.subscribe("T", Sql("a > 8"))
        assert [message.body for message in await consumer.poll()] == [b"9"]


async def test_tags_are_not_asked_about(cluster: FakeCluster, autojump_clock: MockClock) -> None:
    fill(cluster)
    async with lite_pull_consumer_of(cluster) as consumer:
        await consumer.subscribe("T", "odd")
    assert cluster.broker.count(CHECK) == 0
