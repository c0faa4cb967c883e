"""A staged producer sends a stage at once, and nothing of the next before all of it is stored."""

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.sdk import (
    ClientClosed,
    InvalidName,
    Message,
    MessageQueue,
    MessageRejected,
    Producer,
    StagedSender,
    StagedSendFailed,
    Stages,
)
from lanemq.testkit.sdk.clients import producer_of
from lanemq.testkit.sdk.cluster import FakeCluster, Peer, small_cluster
from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame

SEND = RequestCode.SEND_MESSAGE_V2


def message(number: int) -> Message:
    return Message(topic="T", body=b"%d" % number, keys=(f"key{number}",))


class Slow:
    """A broker that takes a second for each send, and remembers when each came."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.came: list[tuple[float, int]] = []
        self.began_s = trio.current_time()
        self.refuse: dict[int, list[int]] = {}  # body -> response codes
        original = cluster.broker.handlers.pop(SEND)

        async def send(frame: Frame, peer: Peer) -> Frame | None:
            number = int(frame.body)
            self.came.append((round(trio.current_time() - self.began_s, 3), number))
            await trio.sleep(1)
            if self.refuse.get(number):
                return frame.reply(self.refuse[number].pop(0), remark="as the test wishes")
            return original(frame, peer)

        cluster.broker.waiters[SEND] = send

    def times(self) -> dict[float, list[int]]:
        times: dict[float, list[int]] = {}
        for time_s, number in self.came:
            times.setdefault(time_s, []).append(number)
        return {time_s: sorted(numbers) for time_s, numbers in times.items()}


async def send_all(producer: Producer, sizes: list[int], count: int) -> None:
    async with producer.staged("prizes", sizes) as stage:
        for number in range(count):
            await stage.send(message(number))


@pytest.fixture
async def producer(cluster: FakeCluster) -> AsyncIterator[Producer]:
    cluster.create_topic("T", 4)
    async with producer_of(cluster) as producer:
        yield producer


async def test_stages_follow_each_other_and_inside_one_all_are_sent_at_once(
    cluster: FakeCluster, producer: Producer, autojump_clock: MockClock
) -> None:
    slow = Slow(cluster)
    async with producer.staged("prizes", [2, 3]) as stage:
        for number in range(8):
            await stage.send(message(number))
        assert stage.number == 8
    assert slow.times() == {0: [0, 1], 1: [2, 3, 4], 2: [5, 6, 7]}
    stored = [int(m.body) for m in cluster.broker.messages("T")]
    assert sorted(stored) == list(range(8))
    assert len({m.queue_id for m in cluster.broker.messages("T")}) == 1


async def test_no_more_than_the_concurrency_are_on_their_way(
    cluster: FakeCluster, producer: Producer, autojump_clock: MockClock
) -> None:
    slow = Slow(cluster)
    async with producer.staged("prizes", [5], concurrency=2) as stage:
        for number in range(6):
            await stage.send(message(number))
    assert [len(numbers) for numbers in slow.times().values()] == [2, 2, 1, 1]


async def test_a_failed_send_is_retried_inside_its_stage(
    cluster: FakeCluster, producer: Producer, autojump_clock: MockClock
) -> None:
    slow = Slow(cluster)
    slow.refuse = {1: [2, 2]}
    async with producer.staged("prizes", [2, 1]) as stage:
        for number in range(3):
            await stage.send(message(number))
    assert slow.times() == {0: [0, 1], 1.1: [1], 2.3: [1], 3.3: [2]}


@pytest.mark.parametrize("codes", [[2] * 5, [13]])
async def test_a_send_that_fails_for_good_ends_the_stage_and_names_the_messages(
    cluster: FakeCluster, producer: Producer, autojump_clock: MockClock, codes: list[int]
) -> None:
    slow = Slow(cluster)
    slow.refuse = {1: codes}
    with pytest.raises(StagedSendFailed, match=r"1 messages of stage 0 .*key1") as caught:
        await send_all(producer, [3, 1], 4)
    assert [int(failed.body) for failed, _ in caught.value.failures] == [1]
    assert caught.value.stage == 0
    assert 3 not in [number for _, number in slow.came]
    assert sorted(int(m.body) for m in cluster.broker.messages("T")) == [0, 2]


async def test_a_failure_in_the_last_stage_is_raised_at_the_end_of_the_block(
    cluster: FakeCluster, producer: Producer, autojump_clock: MockClock
) -> None:
    slow = Slow(cluster)
    slow.refuse = {0: [13]}
    with pytest.raises(StagedSendFailed):
        await send_all(producer, [], 1)


async def test_after_a_failure_nothing_more_can_be_sent(
    cluster: FakeCluster, producer: Producer, autojump_clock: MockClock
) -> None:
    slow = Slow(cluster)
    slow.refuse = {0: [13]}
    refused = 0

    async def go_on() -> None:
        nonlocal refused
        async with producer.staged("prizes", [1, 1, 1]) as stage:
            await stage.send(message(0))
            for number in (1, 2):
                with suppress(StagedSendFailed):
                    await stage.send(message(number))
                    refused -= 1
                refused += 1

    with pytest.raises(StagedSendFailed):
        await go_on()
    assert refused == 2
    assert [number for _, number in slow.came] == [0]


async def test_a_message_that_cannot_be_sent_is_not_counted(
    cluster: FakeCluster, producer: Producer, autojump_clock: MockClock
) -> None:
    slow = Slow(cluster)
    async with producer.staged("prizes", [1, 1]) as stage:
        with pytest.raises(MessageRejected):
            await stage.send(Message(topic="T", body=b"", properties={"TAGS": "x"}))
        await stage.send(message(0))
        with pytest.raises(InvalidName, match="has no place"):
            await stage.send(Message(topic="other", body=b"1"))
        await stage.send(message(1))
    assert slow.times() == {0: [0], 1: [1]}


async def test_the_queue_is_that_of_the_key_or_the_one_given(
    cluster: FakeCluster, producer: Producer, autojump_clock: MockClock
) -> None:
    queues = await producer.publish_queues("T")
    keys: list[str | int | MessageQueue] = ["a", "b", "c", 7, -2, queues[2]]
    seen = set()
    for key in keys:
        chosen = []
        for _ in range(2):
            async with producer.staged(key, [1]) as stage:
                chosen.append(stage.queue)
                await stage.send(message(0))
                chosen.append(stage.queue)
        assert chosen[0] is chosen[2] is None
        assert chosen[1] == chosen[3]
        assert chosen[1] in queues
        seen.add(chosen[1])
    assert queues[2] in seen
    assert len(seen) > 1


async def test_a_sender_is_closed_after_its_block(
    cluster: FakeCluster, producer: Producer, autojump_clock: MockClock
) -> None:
    async with producer.staged("prizes", [1]) as stage:
        await stage.send(message(0))
    with pytest.raises(ClientClosed):
        await stage.send(message(1))


@pytest.mark.parametrize("wrong", [{"definitions": [0]}, {"concurrency": 0}, {"attempts": 0}])
async def test_what_makes_no_sense_is_refused(
    producer: Producer, autojump_clock: MockClock, wrong: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match=r"at least 1|1 message"):
        async with producer.staged("k", **{"definitions": [1], **wrong}):  # type: ignore[arg-type]
            pass


async def test_an_error_in_the_block_cancels_what_is_on_its_way(
    cluster: FakeCluster, producer: Producer, autojump_clock: MockClock
) -> None:
    Slow(cluster)

    async def fail() -> None:
        async with producer.staged("prizes", [2]) as stage:
            await stage.send(message(0))
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert cluster.broker.messages("T") == []


@given(
    sizes=st.lists(st.integers(1, 4), max_size=4),
    refuse=st.dictionaries(st.integers(0, 19), st.lists(st.sampled_from([2, 2, 13]), max_size=3)),
    tasks=st.integers(1, 3),
)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_stages_arrive_in_order_or_end_in_an_error(
    sizes: list[int], refuse: dict[int, list[int]], tasks: int
) -> None:
    stages = Stages(sizes)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            cluster = small_cluster(nursery)
            cluster.create_topic("T", 1)
            slow = Slow(cluster)
            slow.refuse = {number: list(codes) for number, codes in refuse.items()}
            taken: list[int] = []
            failed: list[StagedSendFailed] = []
            async with producer_of(cluster) as producer:
                try:
                    async with producer.staged(MessageQueue("T", "broker-a", 0), sizes) as stage:

                        async def send_some(numbers: list[int]) -> None:
                            with suppress(StagedSendFailed):
                                for number in numbers:
                                    await stage.send(message(number))

                        async with trio.open_nursery() as senders:
                            for task in range(tasks):
                                senders.start_soon(send_some, list(range(20))[task::tasks])
                except StagedSendFailed as error:
                    failed.append(error)
            order = [number for _, number in slow.came]
            taken = list(dict.fromkeys(order))
            stored = [int(m.body) for m in cluster.broker.messages("T")]
            # Messages are numbered as they were taken; the broker saw whole stages in order.
            place = {number: n for n, number in enumerate(taken)}
            by_stage = [stages.stage_of(place[number]) for number in stored]
            assert by_stage == sorted(by_stage)
            if failed:
                lost = {int(failure.body) for failure, _ in failed[0].failures}
                assert lost == set(taken) - set(stored)
                assert max(by_stage, default=0) <= failed[0].stage
            else:
                assert sorted(stored) == list(range(20))
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def test_an_error_in_the_block_is_no_success_for_others_who_wait(
    cluster: FakeCluster, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    cluster.create_topic("T", 1)
    Slow(cluster)
    ended: list[str] = []

    async def wait(sender: StagedSender) -> None:
        with pytest.raises(StagedSendFailed) as caught:
            await sender.wait()
        assert [failed for failed, _ in caught.value.failures] == [message(0)]
        ended.append("wait")

    async def send(sender: StagedSender) -> None:
        with pytest.raises(ClientClosed):
            await sender.send(message(1))
        ended.append("send")

    async def fail(producer: Producer) -> None:
        async with producer.staged("k", [5], concurrency=1) as sender:
            await sender.send(message(0))
            nursery.start_soon(wait, sender)
            nursery.start_soon(send, sender)
            await trio.sleep(0.5)
            raise LookupError("mine")

    async with producer_of(cluster) as producer:
        with pytest.raises(LookupError):
            await fail(producer)
        await trio.sleep(1)
        assert sorted(ended) == ["send", "wait"]
