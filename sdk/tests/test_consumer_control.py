"""An application controls a consumer at work: it pauses it, gives it more tasks, moves it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Unpack

import pytest
import trio
from trio.testing import MockClock

from lanemq.sdk import (
    ClientClosed,
    ConcurrentListener,
    ConsumeFrom,
    LitePullConsumer,
    LitePullOptions,
    MessageQueue,
    NoRoute,
    OrderlyListener,
    PushConsumer,
    PushOptions,
    ReceivedMessage,
    StagedConcurrentListener,
    WrongUse,
    allocate_by_circle,
)
from lanemq.sdk.opening._settings import LitePullSettings, PushSettings
from lanemq.testkit.sdk.clients import lite_pull_consumer_of, push_consumer_of
from lanemq.testkit.sdk.cluster import START_MS, FakeCluster
from lanemq.wire import RequestCode
from lanemq.wire.bodies import ConsumerRunningInfo
from lanemq.wire.frame import request

Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)
PULL = RequestCode.PULL_MESSAGE
Listener = ConcurrentListener | OrderlyListener | StagedConcurrentListener


class Work:
    """A listener that takes its time, and counts how many of it run at once."""

    def __init__(self, spent_s: float = 1.0) -> None:
        self.spent_s = spent_s
        self.running = self.most = 0
        self.bodies: list[bytes] = []

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        await trio.sleep(self.spent_s)
        self.running -= 1
        self.bodies += [message.body for message in messages]


def concurrent(work: Work, concurrency: int) -> Listener:
    return ConcurrentListener(work, concurrency)


def staged(work: Work, concurrency: int) -> Listener:
    return StagedConcurrentListener(work, [1000], concurrency=concurrency)


def push(
    cluster: FakeCluster,
    listener: Listener,
    **settings: Unpack[PushSettings],
) -> AbstractAsyncContextManager[PushConsumer]:
    first = ConsumeFrom.FIRST_OFFSET
    return push_consumer_of(cluster, listener, PushOptions(consume_from=first), **settings)


def pull(
    cluster: FakeCluster, **settings: Unpack[LitePullSettings]
) -> AbstractAsyncContextManager[LitePullConsumer]:
    first = ConsumeFrom.FIRST_OFFSET
    return lite_pull_consumer_of(cluster, LitePullOptions(consume_from=first), **settings)


def fill(cluster: FakeCluster, count: int, queues: int = 1) -> None:
    cluster.create_topic("T", queues)
    for number in range(count):
        cluster.broker.put("T", number % queues, b"%03d" % number)


class TestConcurrency:
    @pytest.mark.parametrize("make", [concurrent, staged])
    async def test_more_listeners_run_as_soon_as_it_is_raised(
        self, cluster: FakeCluster, autojump_clock: MockClock, make: Callable[[Work, int], Listener]
    ) -> None:
        fill(cluster, 100)
        work = Work()
        async with push(cluster, make(work, 2)) as consumer:
            await trio.sleep(5.5)
            assert (work.most, len(work.bodies)) == (2, 10)
            consumer.set_concurrency(30)
            assert consumer.concurrency == 30
            await trio.sleep(0.1)
            assert work.running == 30
            await trio.sleep(4)
        assert sorted(work.bodies) == [b"%03d" % n for n in range(100)]

    @pytest.mark.parametrize("make", [concurrent, staged])
    async def test_fewer_run_once_those_that_run_have_finished(
        self, cluster: FakeCluster, autojump_clock: MockClock, make: Callable[[Work, int], Listener]
    ) -> None:
        fill(cluster, 60)
        work = Work()
        async with push(cluster, make(work, 20)) as consumer:
            await trio.sleep(0.5)
            consumer.set_concurrency(3)
            await trio.sleep(0.1)
            assert work.running == 20
            await trio.sleep(1)
            assert (work.running, len(work.bodies)) == (3, 20)
            work.most = 0
            await trio.sleep(30)
            assert work.most == 3
            assert len(work.bodies) == 60
            for number in range(9):  # and the three are still there
                cluster.broker.put("T", 0, b"more %d" % number)
            await trio.sleep(3.5)
            assert (work.most, len(work.bodies)) == (3, 69)

    async def test_idle_ones_leave_and_come_back(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, 20)
        work = Work()
        async with push(cluster, ConcurrentListener(work, concurrency=20)) as consumer:
            await trio.sleep(5)
            for concurrency in (1, 8):
                consumer.set_concurrency(concurrency)
                work.most = 0
                for number in range(16):
                    cluster.broker.put("T", 0, b"%d" % number)
                await trio.sleep(20)
                assert work.most == concurrency
        assert len(work.bodies) == 52

    async def test_queues_in_order_share_the_listeners_that_are_left(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, 80, queues=8)
        work = Work()
        async with push(cluster, OrderlyListener(work, concurrency=8)) as consumer:
            await trio.sleep(1.5)
            assert work.running == 8
            consumer.set_concurrency(2)
            await trio.sleep(1)
            work.most = 0
            await trio.sleep(20)
            assert work.most == 2
            consumer.set_concurrency(5)
            await trio.sleep(0.1)
            assert work.running == 5
            await trio.sleep(20)
        assert sorted(work.bodies) == [b"%03d" % n for n in range(80)]

    async def test_it_is_told_to_operators(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, 1)
        async with push(cluster, ConcurrentListener(Work(), concurrency=7)) as consumer:
            for expected in ("7", "9"):
                fields = {"consumerGroup": "cg", "clientId": consumer.client_id}
                answer = await cluster.broker.ask(
                    consumer.client_id, request(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
                )
                info = ConsumerRunningInfo.decode(answer.body)
                assert info.properties["PROP_THREADPOOL_CORE_SIZE"] == expected
                assert info.jstack is None
                consumer.set_concurrency(9)

    async def test_there_is_always_one(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, 1)
        async with push(cluster, ConcurrentListener(Work())) as consumer:
            with pytest.raises(ValueError, match="at least 1"):
                consumer.set_concurrency(0)


async def test_operators_can_see_where_every_task_is(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill(cluster, 1)
    async with push(cluster, ConcurrentListener(Work(100))) as consumer:
        await trio.sleep(1)
        fields = {
            "consumerGroup": "cg",
            "clientId": consumer.client_id,
            "jstackEnable": "true",
        }
        answer = await cluster.broker.ask(
            consumer.client_id, request(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
        )
        dump = ConsumerRunningInfo.decode(answer.body).jstack
        assert dump is not None
        assert "await trio.sleep(self.spent_s)" in dump
        assert "WorkerPool._serve" in dump
        assert "_worker_pool.py" in dump


class TestPauses:
    async def test_a_paused_queue_brings_nothing_until_it_is_resumed(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, 4, queues=2)
        work = Work(0)
        async with push(cluster, ConcurrentListener(work)) as consumer:
            await trio.sleep(1)
            work.bodies.clear()
            consumer.pause([Q0])
            assert consumer.paused == (Q0,)
            for number in (4, 5):
                cluster.broker.put("T", number % 2, b"%d" % number)
            await trio.sleep(60)
            assert work.bodies == [b"5"]
            assert set(consumer.queues) >= {Q0, Q1}
            consumer.resume([Q0])
            await trio.sleep(0.1)
            assert work.bodies == [b"5", b"4"]
            assert not consumer.paused

    async def test_a_paused_consumer_pulls_nothing_at_all(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, 4, queues=2)
        work = Work(0)
        async with push(cluster, ConcurrentListener(work)) as consumer:
            await trio.sleep(1)
            consumer.pause()
            await trio.sleep(20)  # the pulls that were waiting have come back
            pulls = cluster.broker.count(PULL)
            cluster.broker.put("T", 0, b"x")
            await trio.sleep(100)
            assert cluster.broker.count(PULL) == pulls
            assert len(work.bodies) == 4
            assert consumer.paused == consumer.queues
            consumer.resume()
            await trio.sleep(0.1)
            assert work.bodies[4:] == [b"x"]

    async def test_a_poll_passes_over_what_is_paused(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, 4, queues=2)
        async with pull(cluster) as consumer:
            await consumer.assign([Q0, Q1])
            await trio.sleep(1)
            consumer.pause([Q0])
            assert [message.body for message in await consumer.poll()] == [b"001", b"003"]
            assert await consumer.poll(2) == []
            consumer.resume([Q0])
            assert [message.body for message in await consumer.poll(0)] == [b"000", b"002"]

    async def test_a_poll_that_waits_goes_on_when_all_is_resumed(
        self, cluster: FakeCluster, autojump_clock: MockClock, nursery: trio.Nursery
    ) -> None:
        fill(cluster, 1)
        async with pull(cluster) as consumer:
            consumer.pause()
            await consumer.assign([Q0])

            @nursery.start_soon
            async def resume_later() -> None:
                await trio.sleep(3)
                consumer.resume()

            started_s = trio.current_time()
            (message,) = await consumer.poll(60)
            assert message.body == b"000"
            assert trio.current_time() - started_s < 3.5


class TestIteration:
    async def test_messages_come_one_by_one_and_progress_follows(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, 100)
        bodies = []
        async with pull(cluster) as consumer:
            await consumer.subscribe("T")
            async for message in consumer:
                bodies.append(message.body)
                await trio.sleep(1)
                if len(bodies) == 50:
                    break
                if len(bodies) == 40:
                    assert 30 <= cluster.broker.offsets["lg", "T", 0] < 40
        assert bodies == [b"%03d" % number for number in range(50)]
        assert cluster.broker.offsets["lg", "T", 0] == 50

    async def test_a_message_whose_treatment_fails_comes_again(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, 10)

        async def consume() -> None:
            async with pull(cluster, auto_commit=False) as consumer:
                await consumer.subscribe("T")
                async for message in consumer:
                    if message.body == b"007":
                        raise RuntimeError("cannot do this one")
                    await consumer.commit()

        with pytest.raises(RuntimeError, match="cannot"):
            await consume()
        assert cluster.broker.offsets["lg", "T", 0] == 7

    async def test_a_loop_that_never_waits_lets_others_run(
        self, cluster: FakeCluster, autojump_clock: MockClock, nursery: trio.Nursery
    ) -> None:
        fill(cluster, 100)
        seen: list[bytes] = []
        turns: list[int] = []

        async def other() -> None:
            while True:
                turns.append(len(seen))
                await trio.lowlevel.checkpoint()

        async with pull(cluster) as consumer:
            await consumer.assign([Q0])
            await trio.sleep(1)
            nursery.start_soon(other)
            async for message in consumer:
                seen.append(message.body)
                if len(seen) == 100:
                    break
        assert len(set(turns)) > 2
        nursery.cancel_scope.cancel()

    async def test_whoever_still_waits_learns_that_the_consumer_is_closed(
        self, cluster: FakeCluster, autojump_clock: MockClock, nursery: trio.Nursery
    ) -> None:
        fill(cluster, 0)
        closed = []

        async def iterate(consumer: LitePullConsumer) -> None:
            try:
                async for _ in consumer:
                    pass
            except ClientClosed:
                closed.append(True)

        async with pull(cluster) as consumer:
            await consumer.assign([Q0])
            nursery.start_soon(iterate, consumer)
            await trio.sleep(1)
        await trio.sleep(1)
        assert closed == [True]


class TestProgress:
    async def test_given_offsets_are_committed_as_they_are(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, 10, queues=2)
        async with pull(cluster, auto_commit=False) as consumer:
            await consumer.assign([Q0, Q1])
            await consumer.poll()
            await consumer.commit({Q0: 3})
            assert cluster.broker.offsets == {("lg", "T", 0): 3}
            await consumer.commit({Q1: 2}, wait=False)
            await trio.sleep(0.1)
            assert cluster.broker.offsets == {("lg", "T", 0): 3, ("lg", "T", 1): 2}
            with pytest.raises(WrongUse, match="not read by this consumer"):
                await consumer.commit({MessageQueue("T", "broker-a", 9): 1})
            with pytest.raises(WrongUse, match="counts messages from 0"):
                await consumer.commit({Q0: -1})

    async def test_offsets_are_found_by_time(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        cluster.create_topic("T", 2)
        for number in range(10):
            await trio.sleep(1)
            cluster.broker.put("T", number % 2, b"%d" % number)
        async with pull(cluster) as consumer:
            found = await consumer.offsets_for_times({Q0: START_MS + 4500, Q1: START_MS + 99_000})
            assert found == {Q0: 2, Q1: 5}
            await consumer.assign([Q0])
            consumer.seek(Q0, found[Q0])
            assert [message.body for message in await consumer.poll()] == [b"4", b"6", b"8"]
            with pytest.raises(NoRoute):
                await consumer.offsets_for_times({MessageQueue("X", "broker-a", 0): 1})

    async def test_another_expression_counts_for_what_comes_next(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        cluster.create_topic("T", 1)
        for number in range(6):
            cluster.broker.put("T", 0, b"%d" % number, TAGS="AB"[number % 2])
        async with pull(cluster, poll_messages_max=1) as consumer:
            await consumer.subscribe("T", "A")
            assert [message.body for message in await consumer.poll()] == [b"0"]
            await consumer.subscribe("T", "B")
            bodies = [(await consumer.poll())[0].body for _ in range(2)]
            assert bodies == [b"3", b"5"]  # the filter had passed over b"1" for A

    async def test_after_unsubscribing_others_have_the_queues(
        self, cluster: FakeCluster, autojump_clock: MockClock
    ) -> None:
        fill(cluster, 4, queues=2)
        async with pull(cluster) as first, pull(cluster) as second:
            # Ids are compared as texts: #10 is before #9. The lower one keeps queue 0; the messages
            # of a queue that was taken away are not reported.
            one, other = sorted((first, second), key=lambda consumer: consumer.client_id)
            await one.subscribe("T")
            assert list(one.queues) == [Q0, Q1]
            polled = [*await one.poll(), *await one.poll()]  # either queue may come first
            assert {message.queue for message in polled} == {Q0, Q1}
            await other.subscribe("T")
            await trio.sleep(21)
            await one.unsubscribe("T")
            await one.unsubscribe("T")
            assert not one.queues
            await trio.sleep(1)
            assert any(key[1:] == ("T", 0) for key in cluster.broker.offsets)


async def test_a_group_divides_its_queues_as_it_is_told_to(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 4)
    async with (
        push(cluster, ConcurrentListener(Work()), allocate=allocate_by_circle) as one,
        pull(cluster) as _,
        push(cluster, ConcurrentListener(Work()), allocate=allocate_by_circle) as two,
    ):
        await trio.sleep(1)
        shares = [
            [queue.queue_id for queue in consumer.queues if queue.topic == "T"]
            for consumer in sorted((one, two), key=lambda consumer: consumer.client_id)
        ]
        assert shares == [[0, 2], [1, 3]]


async def test_a_division_that_fails_leaves_what_there_is(
    cluster: FakeCluster, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("T", 4)
    broken: list[bool] = []

    def allocate(
        client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if broken:
            raise LookupError("no such room")
        return list(queues)

    async with push(cluster, ConcurrentListener(Work()), allocate=allocate) as consumer:
        queues = consumer.queues
        broken.append(True)
        await trio.sleep(60)
        assert consumer.queues == queues
    assert "no such room" in caplog.text
