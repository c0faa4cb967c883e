"""Runs an application's listener over what was pulled, several at a time.

Source: RocketMQ 4.9.8, ConsumeMessageConcurrentlyService.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import final

import trio

from ._consume_stats import TopicStats
from ._held_queue import HeldQueue
from ._log import get_logger
from ._messages import Outcome, ReceivedMessage

LOGGER = get_logger("lanemq.sdk.listener")

Handle = Callable[[Sequence[ReceivedMessage]], Awaitable[Outcome | None]]
"""An application's listener; raising means ``Outcome.RETRY``."""

Retry = Callable[[HeldQueue, Sequence[ReceivedMessage], bool], Awaitable[None]]
"""Takes messages to deliver again; the flag says that their listener took too long."""

Succeed = Callable[[HeldQueue, Sequence[ReceivedMessage]], None]

# A listener that never waits would keep its task running; after this many batches it pauses
# for the others. trio has no other way to share the time.
BATCHES_PER_TURN = 16


@dataclass(frozen=True, slots=True)
class ConcurrentListener:
    """A listener for which the order of messages does not matter.

    ``handle`` is awaited with up to ``batch_messages`` messages of one queue, in up to
    ``concurrency`` tasks at once. Returning None or ``Outcome.SUCCESS`` settles them;
    ``Outcome.RETRY``, or any exception, has all of them delivered again later.
    """

    handle: Handle
    concurrency: int = 20
    batch_messages: int = 1

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.batch_messages < 1:
            raise ValueError("concurrency and batch_messages must be at least 1")


@final
class _Worker:
    """One task of a pool, and the batch it is at."""

    __slots__ = ("batch", "late", "outcome", "scope", "since_s")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.batch: tuple[HeldQueue, Sequence[ReceivedMessage]] | None = None
        self.outcome: Outcome | None = None
        self.late = False  # the time limit struck, and the scope is cancelled
        self.since_s = inf  # when the listener was called; inf while it does not run


@final
class ListenerPool:
    """Tasks that run one listener. They start when first needed and then wait for work.

    A cancel scope for every message would cost as much as the rest of its way to the listener:
    a worker keeps one as long as no listener takes too long, and one task looks at the clock.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        listener: ConcurrentListener,
        *,
        succeed: Succeed,
        retry: Retry,
        stats: Callable[[str], TopicStats],
        clock_ms: Callable[[], int],
        timeout_s: float,
    ) -> None:
        self._nursery = nursery
        self._listener = listener
        self.concurrency = listener.concurrency
        """How many listeners may run at once; ``resize`` changes it."""
        self._succeed = succeed
        self._retry = retry
        self._stats = stats
        self._clock_ms = clock_ms
        self._timeout_s = timeout_s
        self._batches: deque[tuple[HeldQueue, Sequence[ReceivedMessage]]] = deque()
        self._workers: list[_Worker] = []
        self._active = 0  # workers that are not parked
        self._called = False  # one of them has yet to look for batches
        self._idle = trio.lowlevel.ParkingLot()
        self._closing = False
        self._quiet = trio.Event()

    def submit(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Have ``messages`` of one queue consumed when their turn comes.

        Once the pool closes nothing has a turn: what a last pull brings then comes again.
        """
        if self._closing:
            return
        size = self._listener.batch_messages
        if size == 1:
            self._batches.extend((held, (message,)) for message in messages)
        else:
            self._batches.extend(
                (held, tuple(messages[at : at + size])) for at in range(0, len(messages), size)
            )
        self._call_worker()

    def _call_worker(self) -> None:
        """While there are batches, have one more worker on its way, as far as allowed.

        It calls the next when it takes a batch. To wake all of them for each pull would cost
        more than a listener that never waits.
        """
        if self._called or not self._batches:
            return
        if self._idle:
            self._called = True
            self._active += len(self._idle.unpark(count=1))
        elif len(self._workers) < self.concurrency:
            self._called = True
            self._active += 1
            worker = _Worker()
            self._workers.append(worker)
            self._nursery.start_soon(self._work, worker)

    def resize(self, concurrency: int) -> None:
        """Let ``concurrency`` listeners run at once from now on; those that run finish."""
        assert concurrency > 0
        self.concurrency = concurrency
        excess = len(self._workers) - concurrency
        if excess > 0:
            self._active += len(self._idle.unpark(count=excess))
        self._call_worker()

    def _goes_on(self) -> bool:
        """Whether a worker that has nothing in hand is to stay."""
        return not self._closing and len(self._workers) <= self.concurrency

    async def watch(self) -> None:
        """Cancel listeners that take too long; runs until cancelled."""
        while True:
            oldest_s = min((worker.since_s for worker in self._workers), default=inf)
            now_s = trio.current_time()
            # One that starts after this look cannot be late before the next.
            await trio.sleep_until(min(oldest_s, now_s) + self._timeout_s)
            now_s = trio.current_time()
            for worker in self._workers:
                if now_s - worker.since_s >= self._timeout_s:
                    worker.late = True
                    worker.scope.cancel()

    async def _work(self, worker: _Worker) -> None:
        self._called = False
        while self._goes_on():
            with trio.CancelScope() as worker.scope:
                await self._run_batches(worker)
            if worker.late and worker.batch is not None:
                LOGGER.warning("the listener took too long on %s", worker.batch[1])
                worker.late = False
                await self._settle(*worker.batch, worker.outcome, timed_out=True)
        self._workers.remove(worker)
        self._rest()
        self._call_worker()  # if this one was called, nobody is on the way now

    def _rest(self) -> None:
        self._active -= 1
        if not self._active:
            self._quiet.set()

    async def _run_batches(self, worker: _Worker) -> None:
        """Run the listener until the pool closes, or until its time limit has struck."""
        batches, turn = self._batches, 0
        now_s = trio.current_time()
        while self._goes_on():
            if not batches:
                self._rest()
                await self._idle.park()
                self._called = False
                now_s = trio.current_time()
                continue
            held, messages = worker.batch = batches.popleft()
            if batches and not self._called:
                self._call_worker()
            if held.messages.dropped:
                continue
            now_s = await self._consume(worker, held, messages, now_s)
            if worker.late:
                return  # too late, yet with an outcome: a new scope is needed all the same
            outcome = worker.outcome
            if (outcome is None or outcome is Outcome.SUCCESS) and not held.messages.dropped:
                self._succeed(held, messages)
            else:
                await self._settle(held, messages, outcome, timed_out=False)
                now_s = trio.current_time()
            turn += 1
            if turn % BATCHES_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
                now_s = trio.current_time()

    async def _consume(
        self,
        worker: _Worker,
        held: HeldQueue,
        messages: Sequence[ReceivedMessage],
        started_s: float,
    ) -> float:
        """Run the listener, leave its outcome with the worker, and return what time it is."""
        held.last_consume_ms = self._clock_ms()
        worker.outcome = Outcome.RETRY  # what a cancellation leaves behind
        worker.since_s = started_s
        try:
            worker.outcome = await self._listener.handle(messages)
        except Exception:  # the application's own; Cancelled is no Exception
            LOGGER.exception("the listener failed on %s; it will come again", messages)
        finally:
            worker.since_s = inf
            now_s = trio.current_time()
            ok = worker.outcome is None or worker.outcome is Outcome.SUCCESS
            self._stats(held.queue.topic).consumed(now_s, len(messages), now_s - started_s, ok=ok)
        return now_s

    async def _settle(
        self,
        held: HeldQueue,
        messages: Sequence[ReceivedMessage],
        outcome: Outcome | None,
        *,
        timed_out: bool,
    ) -> None:
        if held.dropped:
            LOGGER.info("%s is not ours any more; %s may come again", held.queue, messages)
        elif outcome is None or outcome is Outcome.SUCCESS:
            self._succeed(held, messages)
        else:
            if not isinstance(outcome, Outcome):  # type checkers look at it, others do not
                LOGGER.error("%r is no Outcome, taken for RETRY", outcome)  # type: ignore[unreachable]
            await self._retry(held, messages, timed_out)

    async def close(self) -> None:
        """Begin nothing more, and return when the listeners that run have returned."""
        self._closing = True
        self._batches.clear()
        while self._active:
            self._quiet = trio.Event()
            await self._quiet.wait()
