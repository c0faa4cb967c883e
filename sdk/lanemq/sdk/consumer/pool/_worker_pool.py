"""Worker pool: tasks that run one listener over what the queues' schedulers let run.

Tasks start when first needed and park while nothing waits. Which messages may run is decided by
the scheduler of their queue, what becomes of them afterwards by a completion policy.
Source: RocketMQ 4.9.8, ConsumeMessageConcurrentlyService, ConsumeMessageOrderlyService.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import Generic, final

import trio

from lanemq.wire.bodies import MessageQueue

from ..._messages import ReceivedMessage
from ...listeners._listener import Handle
from ...listeners._listener_context import takes_context
from ...observe._consume_stats import TopicStats
from ...observe._log import get_logger
from ..ordered._queue_locks import Lease
from ..pulls._held_queue import HeldQueue
from ._queue_consumer import Completion, Messages, QueueConsumer, S, context_of
from ._turns import Turns
from ._worker import Worker

LOGGER = get_logger("lanemq.sdk.listener")

# A listener that never waits would keep its task running; after this many batches it pauses
# for the others. trio has no other way to share the time.
BATCHES_PER_TURN = 16


@final
class WorkerPool(Generic[S]):
    """A pool of up to ``concurrency`` workers, woken one at a time while something waits.

    A worker that takes something while more waits wakes the next: to wake all of them for each
    pull would cost more than a listener that never waits.

    ``schedule`` makes the scheduler of a queue that was not read before, ``lease`` gives its
    lock (None where nobody locks).
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        handle: Handle,
        group: str,
        completion: Completion[S],
        *,
        schedule: Callable[[HeldQueue], S],
        lease: Callable[[MessageQueue], Lease | None] = lambda _: None,
        stats: Callable[[str], TopicStats],
        clock_ms: Callable[[], int],
        concurrency: int,
        timeout_s: float,
    ) -> None:
        self._nursery = nursery
        self._handle = handle
        self._group = group  # as listeners are told it
        self._with_context = takes_context(handle)
        self._completion = completion
        self._turns = Turns(
            completion, schedule=schedule, lease=lease, stats=stats, on_wake=self._wake
        )
        self._clock_ms = clock_ms
        self._timeout_s = timeout_s
        self.concurrency = concurrency
        """Most listeners that run at once; ``resize`` changes it."""
        self.workers: list[Worker[S]] = []
        self._woken = False  # one of the workers has yet to look at what waits
        self._closing = False
        self._active = 0  # workers that are not parked
        self._parked = trio.lowlevel.ParkingLot()
        self._quiet = trio.Event()

    # Pulled messages

    def submit(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Take ``messages``, the next of their queue, to be consumed when their turn comes.

        Once the pool closes nothing has a turn: what a last pull brings then comes again.
        """
        self._turns.put(held, messages)
        self._wake_worker()

    def passed(self, held: HeldQueue) -> None:
        """Note that a pull found nothing for the listener, but the next offset may have moved."""
        self._turns.passed(held)

    # Lives of queues

    async def retire(self, held: HeldQueue) -> None:
        """Hand out nothing of ``held`` any more; return when its listeners have returned."""
        consumer = self._turns.begin_to_retire(held)
        if consumer is not None:
            await self._turns.retired(consumer)

    def cancel(self, held: HeldQueue) -> None:
        """Cancel the listeners that run for a queue that was lost."""
        assert held.dropped
        for worker in self.workers:
            if worker.job is not None and worker.job[0].held is held and worker.since_s != inf:
                worker.cancel()

    def _wake(self, consumer: QueueConsumer[S]) -> None:
        self._turns.enqueue(consumer)
        self._wake_worker()

    # Workers

    def _wake_worker(self) -> None:
        """Wake or start one more worker while something waits, as far as ``concurrency`` allows."""
        if self._woken or self._closing or not self._turns.waiting:
            return
        if self._parked:
            self._woken = True
            self._active += len(self._parked.unpark(count=1))
        elif len(self.workers) < self.concurrency:
            self._woken = True
            self._active += 1
            worker = Worker[S]()
            self.workers.append(worker)
            self._nursery.start_soon(self._serve, worker)

    def resize(self, concurrency: int) -> None:
        """Set the number of listeners that run at once from now on; those that run finish."""
        assert concurrency > 0
        self.concurrency = concurrency
        excess = len(self.workers) - concurrency
        if excess > 0:
            self._active += len(self._parked.unpark(count=excess))
        self._wake_worker()

    def _stays(self) -> bool:
        """Return whether a worker that has nothing in hand goes on."""
        return not self._closing and len(self.workers) <= self.concurrency

    async def _park(self) -> float:
        """Park the worker that runs this until it is woken; return the time then."""
        self._leave()
        await self._parked.park()
        self._woken = False
        return trio.current_time()

    def _leave(self) -> None:
        self._active -= 1
        if not self._active:
            self._quiet.set()

    async def _serve(self, worker: Worker[S]) -> None:
        self._woken = False
        while self._stays():
            worker.cancelled = False
            with trio.CancelScope() as worker.scope:
                await self._run_batches(worker)
            if worker.cancelled:
                assert worker.job is not None  # only a listener that runs is cancelled
                consumer, batch = worker.job
                outcome = worker.outcome
                work = self._completion.complete(consumer, batch, outcome, timed_out=True)
                if work is not None:
                    await work
                self._turns.ended(consumer)
        self.workers.remove(worker)
        self._leave()
        self._wake_worker()  # if this worker was woken, or enqueued something, no other will look

    async def _run_batches(self, worker: Worker[S]) -> None:
        """Call the listener until the pool closes, or until a call was cancelled."""
        handle, clock_ms, complete = self._handle, self._clock_ms, self._completion.complete
        waiting, turn = self._turns.waiting, 0
        now_s = trio.current_time()
        while self._stays():
            job = worker.job = self._turns.next(now_s)
            if job is None:
                now_s = await self._park()
                continue
            if waiting and not self._woken:
                self._wake_worker()
            consumer, batch = job
            consumer.running += 1
            now_s = await worker.run(
                self._in_context(consumer, batch) if self._with_context else handle,
                consumer.held,
                batch.messages,
                stats=consumer.stats,
                clock_ms=clock_ms,
                now_s=now_s,
            )
            if worker.cancelled:
                return  # too late, yet perhaps with an outcome: a new scope is needed all the same
            work = complete(consumer, batch, worker.outcome, timed_out=False)
            if work is not None:
                await work
                now_s = trio.current_time()
            self._turns.ended(consumer)
            turn += 1
            if turn % BATCHES_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
                now_s = trio.current_time()

    def _in_context(self, consumer: QueueConsumer[S], batch: Messages) -> Handle:
        """Return the listener, given a context for ``batch``."""
        context = context_of(self._group, consumer, batch)
        return lambda messages: self._handle(messages, context)

    async def watch(self) -> None:
        """Cancel listeners that take too long; runs until cancelled."""
        while True:
            # One that was cancelled is not looked at again: it may take its time to end.
            running = [worker for worker in self.workers if not worker.cancelled]
            oldest_s = min((worker.since_s for worker in running), default=inf)
            # A listener that starts after this look cannot be late before the next.
            await trio.sleep_until(min(oldest_s, trio.current_time()) + self._timeout_s)
            now_s = trio.current_time()
            for worker in self.workers:
                if not worker.cancelled and now_s - worker.since_s >= self._timeout_s:
                    LOGGER.warning("the listener took too long on %s", worker.job and worker.job[1])
                    worker.cancel()

    async def close(self) -> None:
        """Begin nothing more, and return when the listeners that run have returned."""
        self._closing = True
        while self._active:
            self._quiet = trio.Event()
            await self._quiet.wait()
