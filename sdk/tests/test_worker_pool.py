"""The number of workers: as many as listeners wait, and no more than are of use."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import Outcome, ReceivedMessage
from lanemq.sdk.consumer.pool._concurrent_scheduler import ConcurrentScheduler
from lanemq.sdk.consumer.pool._queue_consumer import Messages, QueueConsumer
from lanemq.sdk.consumer.pool._worker_pool import WorkerPool
from lanemq.sdk.consumer.pulls._held_queue import HeldQueue
from lanemq.sdk.listeners._listener import Handle
from lanemq.sdk.observe._consume_stats import TopicStats
from lanemq.testkit.sdk.cluster import clock_ms
from lanemq.testkit.sdk.pools import QUEUE, messages_of

Scheduler = ConcurrentScheduler[ReceivedMessage]
Consumer = QueueConsumer[Scheduler]


class Acknowledged:
    """A completion policy that notes what was handed out, and takes only success."""

    def __init__(self, settled: list[int]) -> None:
        self._settled = settled

    def complete(
        self, consumer: Consumer, batch: Messages, outcome: object, *, timed_out: bool
    ) -> None:
        assert outcome is None
        assert not timed_out
        self._settled.extend(message.queue_offset for message in batch.messages)

    def nothing_to_take(self, consumer: Consumer) -> None:
        pass

    def nothing_found(self, held: HeldQueue) -> None:
        raise AssertionError("no pull came back empty")


def pool_of(
    nursery: trio.Nursery, handle: Handle, settled: list[int], concurrency: int
) -> WorkerPool[Scheduler]:
    stats = TopicStats(0)
    return WorkerPool(
        nursery,
        handle,
        "g",
        Acknowledged(settled),
        schedule=lambda _: ConcurrentScheduler(),
        concurrency=concurrency,
        stats=lambda _: stats,
        clock_ms=clock_ms,
        timeout_s=900,
    )


@pytest.mark.parametrize(("count", "running"), [(1, 1), (19, 19), (20, 20), (100, 20)])
async def test_listeners_that_wait_all_run_at_once(
    autojump_clock: MockClock, count: int, running: int
) -> None:
    now = most = 0
    settled: list[int] = []

    async def handle(messages: object) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await trio.sleep(1)
        now -= 1

    async with trio.open_nursery() as nursery:
        pool = pool_of(nursery, handle, settled, 20)
        pool.submit(HeldQueue(QUEUE, 0), messages_of(count))
        await trio.sleep(-(-count // 20))  # so many rounds of one second
        await wait_all_tasks_blocked()
        assert len(settled) == count
        nursery.cancel_scope.cancel()
    assert most == running


async def test_a_listener_that_never_waits_needs_few_workers() -> None:
    settled: list[int] = []

    async def handle(messages: object) -> Outcome:
        return Outcome.SUCCESS

    async with trio.open_nursery() as nursery:
        pool = pool_of(nursery, handle, settled, 20)
        for _ in range(10):
            pool.submit(HeldQueue(QUEUE, 0), messages_of(32))
            await wait_all_tasks_blocked()
        assert len(pool.workers) <= 3
        nursery.cancel_scope.cancel()
    assert len(settled) == 320


@given(
    steps=st.lists(
        st.one_of(st.integers(1, 40), st.tuples(st.just("resize"), st.integers(1, 30))), max_size=12
    ),
    waits=st.lists(st.booleans(), min_size=1),
)
async def test_no_message_is_left_lying_however_the_pool_is_resized(
    steps: list[int | tuple[str, int]], waits: list[bool]
) -> None:
    settled: list[int] = []
    calls = 0

    async def handle(messages: object) -> None:
        nonlocal calls
        calls += 1
        if waits[calls % len(waits)]:
            await trio.lowlevel.checkpoint()

    expected = 0
    async with trio.open_nursery() as nursery:
        pool = pool_of(nursery, handle, settled, 5)
        for step in steps:
            if isinstance(step, tuple):
                pool.resize(step[1])
            else:
                expected += step
                pool.submit(HeldQueue(QUEUE, 0), messages_of(step))
            await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert len(settled) == expected


@pytest.mark.timeout(30)  # the fault it looks for keeps the loop busy for ever
async def test_what_a_pull_brings_while_the_pool_closes_is_left() -> None:
    settled: list[int] = []
    begun = 0

    async def handle(messages: object) -> None:
        nonlocal begun
        begun += 1
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        pool = pool_of(nursery, handle, settled, 5)
        pool.submit(HeldQueue(QUEUE, 0), messages_of(1))
        await wait_all_tasks_blocked()
        nursery.start_soon(pool.close)
        await wait_all_tasks_blocked()
        pool.submit(HeldQueue(QUEUE, 0), messages_of(3))
        await wait_all_tasks_blocked()  # a pool that hires for them is never at rest
        nursery.cancel_scope.cancel()
    assert (begun, settled) == (1, [])


async def test_a_listener_that_does_not_end_when_it_is_cancelled_is_cancelled_once(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    ends = trio.Event()

    async def handle(messages: object) -> None:
        with trio.CancelScope(shield=True):
            await ends.wait()
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        pool = pool_of(nursery, handle, [], 20)
        nursery.start_soon(pool.watch)
        pool.submit(HeldQueue(QUEUE, 0), messages_of(2))
        await wait_all_tasks_blocked()
        mock_clock.jump(901)
        for _ in range(20):  # a watch that finds the same calls late again never sleeps
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
        ends.set()
    late = [record for record in caplog.records if "took too long" in record.message]
    assert len(late) == 2
