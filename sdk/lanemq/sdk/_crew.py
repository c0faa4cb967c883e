"""Tasks that run a listener: started when first needed, parked while there is nothing to do.

What waits, in which order it is taken and what becomes of it afterwards is their pool's.
"""

from collections.abc import Awaitable, Callable, Sequence, Sized
from math import inf
from typing import Generic, TypeVar, final

import trio

from ._consume_stats import TopicStats
from ._held_queue import HeldQueue
from ._listener import Handle
from ._log import get_logger
from ._messages import Outcome, ReceivedMessage
from ._ordered_listeners import AbandonMessage

LOGGER = get_logger("lanemq.sdk.listener")

# A listener that never waits would keep its task running; after this many batches it pauses
# for the others. trio has no other way to share the time.
BATCHES_PER_TURN = 16

Job = TypeVar("Job", bound=tuple[object, object])
"""Whose messages, and which."""


@final
class Worker(Generic[Job]):
    """One task of a crew, and what it is at.

    A cancel scope for every message would cost as much as the rest of its way to the listener:
    a worker keeps one as long as nobody cancels a listener of it.
    """

    __slots__ = ("cancelled", "job", "outcome", "scope", "since_s")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.cancelled = False  # what the scope says as well, but slowly
        self.job: Job | None = None
        self.outcome: object = None  # an Outcome, None or AbandonMessage, if the listener is right
        self.since_s = inf  # when the listener was called; inf while it does not run

    def cancel(self) -> None:
        """Cancel the listener that runs."""
        self.cancelled = True
        self.scope.cancel()

    async def run(
        self,
        handle: Handle,
        held: HeldQueue,
        messages: Sequence[ReceivedMessage],
        *,
        stats: TopicStats,
        clock_ms: Callable[[], int],
        now_s: float,
    ) -> float:
        """Run a listener, leave what came of it in ``outcome``, and return what time it is."""
        held.last_consume_ms = clock_ms()
        self.outcome = Outcome.RETRY  # what a cancellation leaves behind
        self.since_s = started_s = now_s
        try:
            self.outcome = await handle(messages)
        except AbandonMessage as error:
            self.outcome = error
        except Exception:  # the application's own; Cancelled is no Exception
            LOGGER.exception("the listener failed on %s; it will have it again", messages)
        finally:
            self.since_s = inf
            now_s = trio.current_time()
            ok = self.outcome is None or self.outcome is Outcome.SUCCESS
            stats.consumed(now_s, len(messages), now_s - started_s, ok=ok)
        return now_s


@final
class Crew(Generic[Job]):
    """Up to ``concurrency`` workers, of which one at a time is called while something waits.

    ``work`` serves with one worker until that is cancelled or not to go on. Whoever takes
    something while more waits calls the next: to wake all of them for each pull would cost more
    than a listener that never waits.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        waiting: Sized,
        work: Callable[[Worker[Job]], Awaitable[None]],
        concurrency: int,
    ) -> None:
        self._nursery = nursery
        self._waiting = waiting
        self._work = work
        self.concurrency = concurrency
        self.workers: list[Worker[Job]] = []
        self.called = False
        """Whether one of them has yet to look at what waits."""
        self.closing = False
        self._active = 0  # workers that are not parked
        self._parked = trio.lowlevel.ParkingLot()
        self._quiet = trio.Event()

    def call(self) -> None:
        """While something waits, have one more worker on its way, as far as allowed."""
        if self.called or self.closing or not self._waiting:
            return
        if self._parked:
            self.called = True
            self._active += len(self._parked.unpark(count=1))
        elif len(self.workers) < self.concurrency:
            self.called = True
            self._active += 1
            worker = Worker[Job]()
            self.workers.append(worker)
            self._nursery.start_soon(self._serve, worker)

    def resize(self, concurrency: int) -> None:
        """Let ``concurrency`` listeners run at once from now on; those that run finish."""
        assert concurrency > 0
        self.concurrency = concurrency
        excess = len(self.workers) - concurrency
        if excess > 0:
            self._active += len(self._parked.unpark(count=excess))
        self.call()

    def goes_on(self) -> bool:
        """Whether a worker that has nothing in hand is to stay."""
        return not self.closing and len(self.workers) <= self.concurrency

    async def rest(self) -> float:
        """Park the worker that runs this until it is called; return what time it is then."""
        self._leave()
        await self._parked.park()
        self.called = False
        return trio.current_time()

    def _leave(self) -> None:
        self._active -= 1
        if not self._active:
            self._quiet.set()

    async def _serve(self, worker: Worker[Job]) -> None:
        self.called = False
        while self.goes_on():
            worker.cancelled = False
            await self._work(worker)
        self.workers.remove(worker)
        self._leave()
        self.call()  # if this one was called, or lined something up, nobody is on the way now

    async def watch(self, timeout_s: float) -> None:
        """Cancel listeners that take too long; runs until cancelled."""
        while True:
            oldest_s = min((worker.since_s for worker in self.workers), default=inf)
            # One that starts after this look cannot be late before the next.
            await trio.sleep_until(min(oldest_s, trio.current_time()) + timeout_s)
            now_s = trio.current_time()
            for worker in self.workers:
                if now_s - worker.since_s >= timeout_s:
                    LOGGER.warning("the listener took too long on %s", worker.job and worker.job[1])
                    worker.cancel()

    async def close(self) -> None:
        """Begin nothing more, and return when the listeners that run have returned."""
        self.closing = True
        while self._active:
            self._quiet = trio.Event()
            await self._quiet.wait()
