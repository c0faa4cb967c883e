"""A broker whose connection takes no bytes holds up what is for itself, and nothing else."""

from collections.abc import Awaitable, Callable, Sequence

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    BrokerUnreachable,
    ConcurrentListener,
    ConsumeFrom,
    LitePullOptions,
    Message,
    MessageQueue,
    OrderlyListener,
    PushOptions,
    ReceivedMessage,
    StagedConcurrentListener,
)
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, producer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode

Handle = Callable[[Sequence[ReceivedMessage]], Awaitable[None]]
Listener = ConcurrentListener | OrderlyListener | StagedConcurrentListener


@pytest.fixture
def pair(cluster: FakeCluster) -> FakeCluster:
    """Two brokers, and a topic with four queues at each."""
    cluster.add_broker()
    cluster.create_topic("T", 4)
    return cluster


def put_everywhere(cluster: FakeCluster) -> None:
    for broker in cluster.brokers:
        for queue_id in range(4):
            broker.put("T", queue_id, b"x")


def committed(cluster: FakeCluster, group: str) -> list[list[int]]:
    return [
        [broker.offsets.get((group, "T", queue_id), 0) for queue_id in range(4)]
        for broker in cluster.brokers
    ]


async def done(messages: Sequence[ReceivedMessage]) -> None:
    """Handle nothing."""


@pytest.mark.parametrize("stalled", [0, 1])
@pytest.mark.parametrize(
    "listener",
    [ConcurrentListener(done), OrderlyListener(done), StagedConcurrentListener(done, [100])],
    ids=["concurrent", "orderly", "staged"],
)
async def test_commits_to_others_go_on(
    pair: FakeCluster, autojump_clock: MockClock, listener: Listener, stalled: int
) -> None:
    other = 1 - stalled
    async with push_consumer_of(pair, listener, PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)):
        put_everywhere(pair)
        await trio.sleep(2)  # all is consumed, nothing is committed yet
        pair.brokers[stalled].stall()
        await trio.sleep(10)
        assert committed(pair, "cg")[other] == [1] * 4
        for queue_id in range(4):
            pair.brokers[other].put("T", queue_id, b"y")
        await trio.sleep(10)
        assert committed(pair, "cg")[other] == [2] * 4
        pair.brokers[stalled].go_on()
        await trio.sleep(40)
        assert committed(pair, "cg")[stalled] == [1] * 4


async def test_a_poll_is_not_held_up(pair: FakeCluster, autojump_clock: MockClock) -> None:
    put_everywhere(pair)
    async with lite_pull_consumer_of(
        pair, LitePullOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
    ) as consumer:
        await consumer.subscribe("T")
        for _ in range(8):
            assert await consumer.poll()
        await trio.sleep(6)
        pair.brokers[0].stall()
        started_s = trio.current_time()
        assert await consumer.poll(1) == []
        assert trio.current_time() - started_s < 5
        await trio.sleep(1)
        assert committed(pair, "lg")[1] == [1] * 4


async def test_queues_of_others_are_taken_and_given_up(
    pair: FakeCluster, autojump_clock: MockClock
) -> None:
    async with push_consumer_of(
        pair, ConcurrentListener(done), PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
    ) as consumer:
        put_everywhere(pair)
        await trio.sleep(2)
        pair.brokers[0].stall()
        started_s = trio.current_time()
        await consumer.unsubscribe("T")
        assert trio.current_time() - started_s < 15  # one time-out of each kind, not one a queue
        await trio.sleep(15)
        assert committed(pair, "cg")[1] == [1] * 4


async def test_a_one_way_send_says_so(pair: FakeCluster, autojump_clock: MockClock) -> None:
    queue = MessageQueue("T", "broker-a", 0)
    async with producer_of(pair) as producer:
        await producer.send(Message(topic="T", body=b"first"), queue=queue)
        pair.brokers[0].stall()
        started_s = trio.current_time()
        with pytest.raises(BrokerUnreachable, match="took nothing for 3 s"):
            await producer.send_oneway(Message(topic="T", body=b"second"), queue=queue)
        assert trio.current_time() - started_s == pytest.approx(3)


@pytest.mark.parametrize("silent", [0, 1])
@pytest.mark.parametrize(
    "listener", [ConcurrentListener, OrderlyListener], ids=["concurrent", "orderly"]
)
async def test_queues_of_others_start_after_the_time_of_one_request(
    pair: FakeCluster,
    autojump_clock: MockClock,
    listener: Callable[[Handle], Listener],
    silent: int,
) -> None:
    """Also where there are many queues of a broker that does not say where to start."""
    put_everywhere(pair)
    pair.brokers[silent].mute(RequestCode.QUERY_CONSUMER_OFFSET, 4)
    since_s = trio.current_time()
    handled_s: dict[str, list[float]] = {broker.name: [] for broker in pair.brokers}

    async def note(messages: Sequence[ReceivedMessage]) -> None:
        for message in messages:
            handled_s[message.queue.broker_name].append(trio.current_time() - since_s)

    options = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
    async with push_consumer_of(pair, listener(note), options):
        await trio.sleep(30)
    for times_s in handled_s.values():
        assert len(times_s) == 4
        assert max(times_s) < 5, "a request has 3 s, and a division is tried again after 1 s"
