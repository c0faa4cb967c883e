"""An orderly listener gets each queue's messages in their order, whatever fails."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from lanemq.sdk import (
    AbandonMessage,
    ConcurrentListener,
    ConsumeFrom,
    MessageModel,
    MessageQueue,
    OrderlyListener,
    Outcome,
    PushConsumer,
    PushOptions,
    ReceivedMessage,
    StagedConcurrentListener,
)
from lanemq.testkit.sdk.clients import push_consumer_of
from lanemq.testkit.sdk.cluster import FakeCluster, small_cluster
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import ConsumerRunningInfo
from lanemq.wire.frame import request

FIRST = PushOptions(consume_from=ConsumeFrom.FIRST_OFFSET)
LOCK, UNLOCK = RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ

Listener = ConcurrentListener | OrderlyListener | StagedConcurrentListener
Handle = Callable[[Sequence[ReceivedMessage]], Awaitable[Outcome | None]]


def consumer_of(
    cluster: FakeCluster, listener: Listener, options: PushOptions = FIRST
) -> AbstractAsyncContextManager[PushConsumer]:
    return push_consumer_of(cluster, listener, options)


class Log:
    """The calls of a listener, their times and lengths; ``fails`` are answers by offset."""

    def __init__(self, fails: dict[int, list[Outcome | Exception]] | None = None) -> None:
        self.calls: list[tuple[float, int, tuple[int, ...]]] = []
        self.running = 0
        self.fails = fails or {}
        self.takes_s = 1.0
        self.by_body = False  # offsets in the retry topic are those of arrival
        self.bodies: list[tuple[float, bytes]] = []

    async def __call__(self, messages: Sequence[ReceivedMessage]) -> Outcome | None:
        offsets = tuple(message.queue_offset for message in messages)
        self.calls.append((trio.current_time(), messages[0].queue.queue_id, offsets))
        await trio.sleep(self.takes_s)
        answers = self.fails.get(offsets[0])
        if self.by_body:
            self.bodies.append((trio.current_time(), messages[0].body))
            answers = self.fails.get(int(messages[0].body))
        if answers:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return None

    def times(self) -> list[tuple[float, tuple[int, ...]]]:
        first_s = self.calls[0][0]
        return [(round(time_s - first_s, 3), offsets) for time_s, _, offsets in self.calls]


async def test_messages_of_a_queue_come_one_after_the_other(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 3)
    for number in range(12):
        cluster.broker.put("T", number % 3, b"%d" % number)
    log = Log()
    async with consumer_of(cluster, OrderlyListener(log)):
        await trio.sleep(20)
    for queue_id in range(3):
        calls = [(t, offsets) for t, q, offsets in log.calls if q == queue_id]
        assert [offsets for _, offsets in calls] == [(0,), (1,), (2,), (3,)]
        starts = [t for t, _ in calls]
        assert [b - a for a, b in pairwise(starts)] == pytest.approx([1] * 3)


async def test_batches_come_whole_and_in_order(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    for number in range(5):
        cluster.broker.put("T", 0, b"%d" % number)
    log = Log()
    async with consumer_of(cluster, OrderlyListener(log, batch_messages=2)):
        await trio.sleep(20)
    assert log.times() == [(0, (0, 1)), (1, (2, 3)), (2, (4,))]


@pytest.mark.parametrize(
    "answer", [Outcome.SUSPEND_CURRENT_QUEUE, Outcome.RETRY, RuntimeError("as the test wishes")]
)
async def test_a_failure_is_tried_again_in_place_before_anything_else_of_the_queue(
    cluster: FakeCluster, autojump_clock: MockClock, answer: Outcome | Exception
) -> None:
    for number in range(3):
        cluster.broker.put("T", 0, b"%d" % number)
    log = Log({1: [answer] * 3})
    async with consumer_of(cluster, OrderlyListener(log, suspend_s=4)):
        await trio.sleep(60)
    assert log.times() == [(0, (0,)), (1, (1,)), (6, (1,)), (11, (1,)), (16, (1,)), (17, (2,))]
    assert cluster.broker.count(RequestCode.CONSUMER_SEND_MSG_BACK) == 0
    assert cluster.broker.offsets["cg", "T", 0] == 3


async def test_failing_is_without_limit_unless_one_is_given(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.broker.put("T", 0, b"poison")
    cluster.broker.put("T", 0, b"next")
    log = Log({0: [Outcome.SUSPEND_CURRENT_QUEUE] * 1000})
    async with consumer_of(cluster, OrderlyListener(log)):
        await trio.sleep(100)
    assert len(log.calls) == 50
    assert {offsets for _, _, offsets in log.calls} == {(0,)}
    assert cluster.bodies("%DLQ%cg") == []


async def test_beyond_the_limit_a_message_goes_to_the_dead_letters(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.broker.put("T", 0, b"poison")
    cluster.broker.put("T", 0, b"next")
    log = Log({0: [Outcome.SUSPEND_CURRENT_QUEUE] * 1000})
    async with consumer_of(cluster, OrderlyListener(log, max_reconsume_times=2)):
        await trio.sleep(100)
    assert [offsets for _, offsets in log.times()] == [(0,), (0,), (0,), (1,)]
    assert cluster.bodies("%DLQ%cg") == [b"poison"]


async def test_a_dead_letter_goes_by_a_copy_where_the_broker_refuses_it(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.broker.put("T", 0, b"poison")
    cluster.broker.refuse(RequestCode.CONSUMER_SEND_MSG_BACK, 1)
    log = Log({0: [AbandonMessage()]})
    async with consumer_of(cluster, OrderlyListener(log)):
        await trio.sleep(10)
    (copy,) = [f for f in cluster.broker.requests if f.code == RequestCode.SEND_MESSAGE_V2]
    assert copy.fields["b"] == "%RETRY%cg"
    # With these a broker puts it with the dead letters: more deliveries than it may have.
    assert int(copy.fields["j"]) > int(copy.fields["l"]) == 0


async def test_locks_are_taken_renewed_and_given_back(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 2)
    async with consumer_of(cluster, OrderlyListener(Log())) as consumer:
        at_first = cluster.broker.count(LOCK)
        assert {queue.topic for _, queue in cluster.broker.locks} >= {"T"}
        assert {holder for holder, _ in cluster.broker.locks.values()} == {consumer.client_id}
        await trio.sleep(19)
        assert cluster.broker.count(LOCK) - at_first <= 1
        await trio.sleep(2)
        renewed = [since_s for _, since_s in cluster.broker.locks.values()]
        assert min(renewed) >= trio.current_time() - 2
    assert cluster.broker.locks == {}
    assert cluster.broker.count(UNLOCK) >= 1


async def test_a_queue_is_handed_over_only_when_its_running_batch_has_ended(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 2)
    for queue_id in range(2):
        for number in range(40):
            cluster.broker.put("T", queue_id, b"%d" % number)
    first, second = Log(), Log()
    first.takes_s = 7
    async with consumer_of(cluster, OrderlyListener(first)):
        await trio.sleep(10)
        async with consumer_of(cluster, OrderlyListener(second)):
            await trio.sleep(30)
            begun = {q for _, q, _ in second.calls}
            assert len(begun) == 1
            moved = begun.pop()
            mine = [offsets[0] for _, q, offsets in first.calls if q == moved]
            theirs = [offsets[0] for _, q, offsets in second.calls if q == moved]
            # Without a gap, without a repetition, and not before the last batch was through.
            assert mine + theirs == list(range(len(mine) + len(theirs)))
            last_s = max(t for t, q, _ in first.calls if q == moved)
            assert min(t for t, _, _ in second.calls) >= last_s + 7


async def test_nobody_locks_in_a_broadcasting_group(
    cluster: FakeCluster, autojump_clock: MockClock, tmp_path: Path
) -> None:
    for number in range(3):
        cluster.broker.put("T", 0, b"%d" % number)
    options = replace(FIRST, message_model=MessageModel.BROADCASTING, offsets_dir=tmp_path)
    log = Log({1: [Outcome.SUSPEND_CURRENT_QUEUE]})
    async with consumer_of(cluster, OrderlyListener(log), options):
        await trio.sleep(20)
    assert [offsets for _, offsets in log.times()] == [(0,), (1,), (1,), (2,)]
    assert cluster.broker.count(LOCK) == cluster.broker.count(UNLOCK) == 0


async def test_running_info_says_that_it_is_orderly_and_what_it_locked(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    cluster.create_topic("T", 1)
    async with consumer_of(cluster, OrderlyListener(Log(), concurrency=3)) as consumer:
        fields = {"consumerGroup": "cg", "clientId": consumer.client_id, "jstackEnable": "false"}
        answer = await cluster.broker.ask(
            consumer.client_id, request(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
        )
    info = ConsumerRunningInfo.decode(answer.body)
    assert info.properties["PROP_CONSUMEORDERLY"] == "true"
    assert info.properties["PROP_THREADPOOL_CORE_SIZE"] == "3"
    assert info.mq_table[MessageQueue("T", "broker-a", 0)].locked


def run_listener(
    make: Callable[[Log], Listener],
    fails: dict[int, int],
    takes_s: float,
    *,
    by_body: bool = False,
) -> Log:
    """Run a listener over ten messages of one queue in a cluster of its own."""
    log = Log({k: [Outcome.SUSPEND_CURRENT_QUEUE] * n for k, n in fails.items()})
    log.takes_s, log.by_body = takes_s, by_body

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            cluster = small_cluster(nursery)
            for number in range(10):
                cluster.broker.put("T", 0, b"%d" % number)
            async with consumer_of(cluster, make(log)):
                await trio.sleep(200)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return log


FAILS = st.dictionaries(st.integers(0, 9), st.integers(1, 3), max_size=5)
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@given(fails=FAILS, max_times=st.sampled_from([None, 0, 1, 2]), takes_s=st.sampled_from([0, 0.5]))
@QUICK
def test_stages_of_one_equal_an_orderly_listener_message_for_message(
    fails: dict[int, int], max_times: int | None, takes_s: float
) -> None:
    orderly = run_listener(
        lambda log: OrderlyListener(log, max_reconsume_times=max_times), fails, takes_s
    )
    staged = run_listener(
        lambda log: StagedConcurrentListener(log, [1] * 10, max_reconsume_times=max_times),
        fails,
        takes_s,
    )
    assert staged.times() == orderly.times()


@pytest.mark.slow
@given(fails=FAILS, takes_s=st.sampled_from([0, 0.5]))
@QUICK
def test_no_stages_equal_a_concurrent_listener_message_for_message(
    fails: dict[int, int], takes_s: float
) -> None:
    concurrent = run_listener(
        lambda log: ConcurrentListener(_retrying(log)), fails, takes_s, by_body=True
    )
    staged = run_listener(
        lambda log: StagedConcurrentListener(log, []), fails, takes_s, by_body=True
    )
    assert sorted(staged.bodies) == sorted(concurrent.bodies)


@given(batch_messages=st.integers(1, 4), takes_s=st.sampled_from([0, 0.5]))
@QUICK
def test_no_stages_equal_a_concurrent_listener_batch_for_batch(
    batch_messages: int, takes_s: float
) -> None:
    concurrent = run_listener(
        lambda log: ConcurrentListener(log, concurrency=3, batch_messages=batch_messages),
        {},
        takes_s,
    )
    staged = run_listener(
        lambda log: StagedConcurrentListener(log, [], concurrency=3, batch_messages=batch_messages),
        {},
        takes_s,
    )
    assert sorted(staged.times()) == sorted(concurrent.times())


def _retrying(log: Log) -> Handle:
    async def handle(messages: Sequence[ReceivedMessage]) -> Outcome | None:
        outcome = await log(messages)
        return Outcome.RETRY if outcome is Outcome.SUSPEND_CURRENT_QUEUE else outcome

    return handle


def fill_with_bound_locks(cluster: FakeCluster, count: int) -> None:
    """Put messages into one queue, at a broker that ends locks with their connection."""
    cluster.broker.binds_locks = True
    cluster.create_topic("T", 1)
    for number in range(count):
        cluster.broker.put("T", 0, b"%d" % number)


@pytest.mark.parametrize("refusals", [0, 3], ids=["queue is read again", "queue is nobody's yet"])
async def test_what_a_listener_finishes_after_its_lock_ended_with_the_connection_is_finished(
    cluster: FakeCluster, autojump_clock: MockClock, refusals: int
) -> None:
    """A broker that is restarted takes the locks with it, and comes back without them."""
    fill_with_bound_locks(cluster, 3)
    log = Log()
    async with consumer_of(cluster, OrderlyListener(log)):
        await trio.sleep(1.5)
        assert [offsets for _, _, offsets in log.calls] == [(0,), (1,)]
        cluster.broker.refuse(LOCK, *[ResponseCode.SYSTEM_BUSY] * refusals)
        cluster.broker.cut()
        await trio.sleep(60)
    assert [offsets for _, _, offsets in log.calls] == [(0,), (1,), (2,)]
    assert cluster.broker.offsets["cg", "T", 0] == 3


async def test_what_is_finished_late_moves_nobody_who_went_elsewhere_meanwhile(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill_with_bound_locks(cluster, 5)
    log = Log()
    async with consumer_of(cluster, OrderlyListener(log)):
        await trio.sleep(1.5)
        cluster.broker.offsets["cg", "T", 0] = 3
        cluster.broker.cut()
        await trio.sleep(60)
    assert [offsets for _, _, offsets in log.calls] == [(0,), (1,), (3,), (4,)]


async def test_what_a_listener_fails_at_after_its_lock_ended_comes_again(
    cluster: FakeCluster, autojump_clock: MockClock
) -> None:
    fill_with_bound_locks(cluster, 2)
    log = Log({1: [ValueError("no")]})
    async with consumer_of(cluster, OrderlyListener(log)):
        await trio.sleep(1.5)
        cluster.broker.cut()
        await trio.sleep(60)
    assert [offsets for _, _, offsets in log.calls] == [(0,), (1,), (1,)]
