"""A batching sender: batches by time and size, a result for each message, bounds, an end."""

from itertools import pairwise

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import (
    BatchingFailed,
    BatchingSender,
    ClientClosed,
    Message,
    MessageRejected,
    Producer,
    RefusedByBroker,
    SendResult,
)
from lanemq.sdk.producer._accumulator import Accumulator
from lanemq.testkit.sdk.clients import producer_of
from lanemq.testkit.sdk.cluster import FakeCluster
from lanemq.wire import RequestCode, ResponseCode

BATCH, SEND = RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2


def message(number: int, **more: object) -> Message:
    return Message(topic="T", body=b"%d" % number, **more)  # type: ignore[arg-type]


async def test_messages_of_many_tasks_share_batches_and_have_results_of_their_own(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    results: dict[int, SendResult] = {}
    async with producer_of(cluster) as producer, producer.batching(linger_s=0.1) as sender:

        async def send(number: int) -> None:
            results[number] = await sender.send(message(number))

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(send, number)
    assert cluster.broker.count(BATCH) == 1
    assert len({result.message_id for result in results.values()}) == 50
    for number, result in results.items():
        stored = cluster.broker.messages("T")[result.queue_offset]
        assert stored.body == b"%d" % number
        assert stored.properties["UNIQ_KEY"] == result.message_id
        assert stored.offset_id == result.offset_id


async def test_a_batch_goes_when_it_has_lingered_or_is_full(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    async with producer_of(cluster) as producer:
        async with producer.batching(linger_s=10, batch_messages=4) as sender:
            for number in range(4):
                await sender.post(message(number))
            await trio.sleep(1)
            assert len(cluster.bodies("T")) == 4
            started_s = trio.current_time()
            await sender.send(message(4))
            assert trio.current_time() - started_s == pytest.approx(10, abs=0.5)
            await sender.post(message(5))
            await sender.flush()
            assert sender.pending == 0
            await sender.post(message(6))
        assert len(cluster.bodies("T")) == 7
        with pytest.raises(ClientClosed):
            await sender.post(message(7))


async def test_delayed_messages_go_by_themselves_and_keys_keep_their_order(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    async with producer_of(cluster) as producer, producer.batching(batch_messages=3) as sender:
        await sender.post(message(100, delay_level=3))
        for number in range(30):
            await sender.post(message(number), queue_key="k")
    assert cluster.broker.count(SEND) == 1
    queues: dict[int, list[int]] = {}
    for stored in cluster.broker.messages("T"):
        queues.setdefault(stored.queue_id, []).append(int(stored.body))
    assert list(range(30)) in [[n for n in numbers if n < 100] for numbers in queues.values()]


async def test_calls_wait_while_too_much_is_pending(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    async with (
        producer_of(cluster) as producer,
        producer.batching(linger_s=5, pending_messages=3) as sender,
    ):
        started_s = trio.current_time()
        for number in range(4):
            await sender.post(message(number))
            assert sender.pending <= 3
        assert trio.current_time() - started_s >= 5


async def test_errors_reach_those_whose_messages_they_are(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    told: list[object] = []
    cluster.create_topic("T", 1)
    async with (
        producer_of(cluster, retries=0) as producer,
        producer.batching(linger_s=0.1) as sender,
    ):
        with pytest.raises(MessageRejected):
            await sender.post(message(1, tags="a\x01b"))
        cluster.broker.refuse(BATCH, ResponseCode.MESSAGE_ILLEGAL)
        await sender.post(message(1))
        await sender.post(message(2), on_sent=lambda _, outcome: told.append(outcome))
        with pytest.raises(BatchingFailed, match="1 messages were not sent") as caught:
            await sender.flush()
        ((failed, _),) = caught.value.failures
        assert failed == message(1)
        assert isinstance(told[0], RefusedByBroker)
        await sender.flush()  # they are raised once
        await sender.post(message(3))
    assert cluster.bodies("T") == [b"3"]


async def test_an_error_in_the_block_ends_what_others_wait_for(
    cluster: FakeCluster, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    cluster.create_topic("T", 1)
    ended: list[str] = []
    outcomes: list[object] = []

    async def send(number: int, sender: BatchingSender) -> None:
        with pytest.raises(ClientClosed):
            await sender.send(message(number))
        ended.append("send")

    async def flush(sender: BatchingSender) -> None:
        with pytest.raises(BatchingFailed) as caught:
            await sender.flush()
        assert [failed for failed, _ in caught.value.failures] == [message(2)]
        ended.append("flush")

    async def fail(producer: Producer) -> None:
        async with producer.batching(linger_s=60) as sender:
            nursery.start_soon(send, 1, sender)
            await sender.post(message(2))
            await sender.post(message(3), on_sent=lambda _, outcome: outcomes.append(outcome))
            await trio.sleep(1)
            cluster.broker.mute(BATCH)
            nursery.start_soon(flush, sender)  # they are on their way
            await trio.sleep(1)
            nursery.start_soon(send, 4, sender)  # this one lingers
            await trio.sleep(1)
            raise LookupError("mine")

    async with producer_of(cluster) as producer:
        with pytest.raises(LookupError):
            await fail(producer)
        await trio.sleep(1)
        assert sorted(ended) == ["flush", "send", "send"]
        assert [type(outcome) for outcome in outcomes] == [ClientClosed]


@given(
    items=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(1, 50), st.floats(0, 3)), max_size=40
    ),
    batch_messages=st.integers(1, 5),
    batch_bytes=st.integers(1, 100),
)
def test_each_key_s_batches_have_all_of_it_in_order(
    items: list[tuple[str, int, float]], batch_messages: int, batch_bytes: int
) -> None:
    accumulator: Accumulator[str, int] = Accumulator(
        linger_s=1, batch_messages=batch_messages, batch_bytes=batch_bytes
    )
    sizes = [size for _, size, _ in items]
    out: dict[str, list[int]] = {"a": [], "b": []}
    now_s = 0.0
    away: set[str] = set()

    def drain(*, everything: bool) -> None:
        while (ready := accumulator.take(now_s, all_of_it=everything)) is not None:
            key, batch = ready
            assert key not in away, "one batch of a key at a time"
            assert 1 <= len(batch) <= batch_messages
            assert len(batch) == 1 or sum(sizes[n] for n in batch) <= batch_bytes
            out[key] += batch
            accumulator.returned(key)

    for number, (key, size, pause_s) in enumerate(items):
        now_s += pause_s
        drain(everything=False)
        assert accumulator.due_s() > now_s
        accumulator.add(key, number, size, now_s)
    drain(everything=True)
    assert accumulator.count == accumulator.size_bytes == 0
    for key, numbers in out.items():
        assert numbers == [n for n, (own, _, _) in enumerate(items) if own == key]
        assert all(a < b for a, b in pairwise(numbers))


async def test_what_is_posted_as_the_block_ends_is_sent_or_refused(
    cluster: FakeCluster, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    outcomes: list[str] = []

    async def post(sender: BatchingSender, number: int) -> None:
        try:
            await sender.post(message(number))
            outcomes.append("taken")
        except ClientClosed:
            outcomes.append("refused")

    rounds = 50  # trio runs the tasks of a turn in any order
    async with producer_of(cluster) as producer:
        for number in range(rounds):
            async with producer.batching() as sender:
                nursery.start_soon(post, sender, number)
                await trio.lowlevel.checkpoint()
            await wait_all_tasks_blocked()
    assert len(outcomes) == rounds
    assert len(cluster.bodies("T")) == outcomes.count("taken")
