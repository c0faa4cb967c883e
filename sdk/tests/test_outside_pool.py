"""The pool whose listener runs outside of the core: calls in batches, and every way they end."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import AbandonMessage, MessageQueue, Outcome, ReceivedMessage
from lanemq.sdk.consumer.pool._concurrent_scheduler import ConcurrentScheduler
from lanemq.sdk.consumer.pool._outside_pool import OutsidePool
from lanemq.sdk.consumer.pool._queue_consumer import Messages, QueueConsumer
from lanemq.sdk.consumer.pool._turns import Turns
from lanemq.sdk.consumer.pulls._held_queue import HeldQueue
from lanemq.sdk.observe._consume_stats import TopicStats
from lanemq.testkit.sdk.cluster import clock_ms
from lanemq.testkit.sdk.pools import QUEUE, FakeExecutor, messages_of

Scheduler = ConcurrentScheduler[ReceivedMessage]
Consumer = QueueConsumer[Scheduler]
TIMEOUT_S = 900.0


@dataclass
class Completed:
    """A completion policy that notes what it is given."""

    calls: list[tuple[list[int], object, bool]] = field(default_factory=list)
    fails: bool = False
    work: Awaitable[None] | None = None

    def complete(
        self, consumer: Consumer, batch: Messages, outcome: object, *, timed_out: bool
    ) -> Awaitable[None] | None:
        if self.fails:
            raise ZeroDivisionError
        offsets = [message.queue_offset for message in batch.messages]
        self.calls.append((offsets, outcome, timed_out))
        return self.work

    def nothing_to_take(self, consumer: Consumer) -> None:
        pass

    def nothing_found(self, held: HeldQueue) -> None:
        raise AssertionError("no pull came back empty")

    @property
    def succeeded(self) -> list[int]:
        return [
            offset for offsets, outcome, _ in self.calls if outcome is None for offset in offsets
        ]


@dataclass
class Stand:
    """A pool of up to two listeners at once, with room for three calls more."""

    pool: OutsidePool[Scheduler]
    executor: FakeExecutor
    completion: Completed
    held: HeldQueue
    nursery: trio.Nursery

    def submit(self, count: int) -> None:
        self.pool.submit(self.held, messages_of(count))


@asynccontextmanager
async def pool_of(executor: FakeExecutor) -> AsyncIterator[Stand]:
    completion, stats = Completed(), TopicStats(0)
    async with trio.open_nursery() as nursery:
        pool: OutsidePool[Scheduler] = OutsidePool(
            nursery,
            executor,
            completion,
            lambda wake: Turns(
                completion,
                schedule=lambda _: ConcurrentScheduler(),
                lease=lambda _: None,
                stats=lambda _: stats,
                on_wake=wake,
            ),
            group=None,
            clock_ms=clock_ms,
            concurrency=2,
            ahead=3,
            merges=True,
            timeout_s=TIMEOUT_S,
        )
        nursery.start_soon(pool.watch)
        yield Stand(pool, executor, completion, HeldQueue(QUEUE, 0), nursery)
        nursery.cancel_scope.cancel()


async def test_calls_are_handed_over_and_completed_together(autojump_clock: MockClock) -> None:
    async with pool_of(FakeExecutor()) as stand:
        executor = stand.executor
        stand.submit(8)
        assert executor.handed_over == [5]
        executor.start(5)
        executor.end(executor.running(), Outcome.SUCCESS)
        assert stand.completion.calls == [([0, 1, 2, 3, 4], None, False)]
        assert executor.handed_over == [5, 3]
        executor.start(3)
        executor.end(executor.running()[1:])
        assert stand.completion.succeeded == [0, 1, 2, 3, 4, 6, 7]
        executor.end(executor.running())
        assert sorted(stand.completion.succeeded) == list(range(8))


@pytest.mark.parametrize("value", [0, "", False, Outcome.RETRY])
async def test_whatever_is_returned_but_success_is_no_success(
    autojump_clock: MockClock, value: object
) -> None:
    async with pool_of(FakeExecutor()) as stand:
        stand.submit(1)
        stand.executor.start(1)
        (call,) = stand.executor.running()
        stand.executor.end([call], value)
        assert stand.completion.calls == [([0], value, False)]
        assert call.batch.messages[0].failure


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(), AbandonMessage("dead")])
async def test_errors_become_outcomes(autojump_clock: MockClock, error: BaseException) -> None:
    async with pool_of(FakeExecutor()) as stand:
        stand.submit(1)
        stand.executor.start(1)
        (call,) = stand.executor.running()
        stand.executor.end([call], error=error)
        outcome = error if isinstance(error, AbandonMessage) else Outcome.RETRY
        assert stand.completion.calls == [([0], outcome, False)]
        assert type(error).__name__ in (call.batch.messages[0].failure or "")


async def test_who_abandons_nothing_has_failed(autojump_clock: MockClock) -> None:
    async with pool_of(FakeExecutor()) as stand:
        stand.submit(1)
        stand.executor.start(1)
        (call,) = stand.executor.running()
        stand.executor.end([call], error=AbandonMessage("dead", messages=[]))
        assert stand.completion.calls == [([0], Outcome.RETRY, False)]


async def test_a_late_call_is_left_alone_and_its_outcome_does_not_count(
    autojump_clock: MockClock,
) -> None:
    async with pool_of(FakeExecutor()) as stand:
        stand.submit(1)
        stand.executor.start(1)
        (call,) = stand.executor.running()
        await trio.sleep(TIMEOUT_S + 1)
        late = [([0], Outcome.RETRY, True)]
        assert stand.completion.calls == late
        stand.executor.end([call])
        assert stand.completion.calls == late
        with trio.fail_after(1):
            await stand.pool.close()


async def test_a_late_call_with_an_order_is_waited_for_and_counts(
    autojump_clock: MockClock,
) -> None:
    async with pool_of(FakeExecutor(ordered=True)) as stand:
        stand.submit(1)
        stand.executor.start(1)
        (call,) = stand.executor.running()
        await trio.sleep(3 * TIMEOUT_S)
        assert stand.executor.cancelled == [call]
        assert stand.completion.calls == []
        stand.executor.end([call])
        await wait_all_tasks_blocked()
        assert stand.completion.calls == [([0], None, True)]


async def test_a_late_call_that_is_stopped_is_tried_again(autojump_clock: MockClock) -> None:
    async with pool_of(FakeExecutor(cancel_grace_s=1)) as stand:
        stand.submit(2)
        stand.executor.start(2)
        quick, slow = stand.executor.running()
        await trio.sleep(TIMEOUT_S + 0.5)
        stand.executor.end([quick], error=RuntimeError(), was_cancelled=True)
        assert stand.completion.calls == [([0], Outcome.RETRY, True)]
        await trio.sleep(1)  # the other has had its time
        assert stand.completion.calls[1:] == [([1], Outcome.RETRY, True)]
        stand.executor.end([slow])
        assert len(stand.completion.calls) == 2


async def test_a_queue_that_is_given_up_waits_only_for_calls_that_run(
    autojump_clock: MockClock,
) -> None:
    async with pool_of(FakeExecutor()) as stand:
        executor = stand.executor
        stand.submit(8)
        executor.start(2)
        other = HeldQueue(MessageQueue("T", "broker-a", 1), 0)
        stand.pool.submit(other, messages_of(1))
        stand.nursery.start_soon(stand.pool.retire, stand.held)
        await wait_all_tasks_blocked()
        assert [call.consumer.held for call in executor.waiting] == [other]
        executor.end(executor.running())
        await wait_all_tasks_blocked()
        assert stand.completion.succeeded == [0, 1]
        executor.start(1)
        executor.end(executor.running())
        assert stand.completion.succeeded == [0, 1, 0]


async def test_a_pool_that_closes_begins_nothing_more(autojump_clock: MockClock) -> None:
    async with pool_of(FakeExecutor()) as stand:
        stand.submit(4)
        stand.executor.start(1)
        closed = trio.Event()

        async def close() -> None:
            await stand.pool.close()
            closed.set()

        stand.nursery.start_soon(close)
        await wait_all_tasks_blocked()
        stand.submit(4)
        assert stand.executor.waiting == []
        assert not closed.is_set()
        stand.executor.end(stand.executor.running())
        await wait_all_tasks_blocked()
        assert closed.is_set()
        assert stand.completion.succeeded == [0]


async def test_a_cancellation_stops_what_runs_and_takes_what_ended(
    autojump_clock: MockClock,
) -> None:
    executor = FakeExecutor(cancel_grace_s=1)
    async with pool_of(executor) as stand:
        stand.submit(2)
        executor.start(2)
        finished, cancelled = executor.running()
        stand.nursery.cancel_scope.cancel()
        async with trio.open_nursery() as outer:
            outer.cancel_scope.shield = True
            await wait_all_tasks_blocked()
            assert executor.cancelled == [finished, cancelled]
            executor.end([finished])
            executor.end([cancelled], error=RuntimeError(), was_cancelled=True)
    assert stand.completion.calls == [([0], None, False)]
    assert executor.is_closed


async def test_an_error_of_the_completion_ends_the_consumer(autojump_clock: MockClock) -> None:
    with pytest.RaisesGroup(ZeroDivisionError):
        async with pool_of(FakeExecutor()) as stand:
            stand.completion.fails = True
            stand.submit(1)
            stand.executor.start(1)
            stand.executor.end(stand.executor.running())
            await trio.sleep(1)
