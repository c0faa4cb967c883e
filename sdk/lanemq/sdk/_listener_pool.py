"""Runs a concurrent listener over what was pulled, several at a time.

Source: RocketMQ 4.9.8, ConsumeMessageConcurrentlyService.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import final

import trio

from ._consume_stats import TopicStats
from ._crew import BATCHES_PER_TURN, Crew, Worker
from ._held_queue import HeldQueue
from ._listener import ConcurrentListener
from ._log import get_logger
from ._messages import Outcome, ReceivedMessage

LOGGER = get_logger("lanemq.sdk.listener")

Retry = Callable[[HeldQueue, Sequence[ReceivedMessage], bool], Awaitable[None]]
"""Takes messages to deliver again; the flag says that their listener took too long."""

Succeed = Callable[[HeldQueue, Sequence[ReceivedMessage]], None]

Job = tuple[HeldQueue, Sequence[ReceivedMessage]]


@final
class ListenerPool:
    """Tasks that run one listener. They start when first needed and then wait for work."""

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
        self._listener = listener
        self._succeed = succeed
        self._retry = retry
        self._stats = stats
        self._clock_ms = clock_ms
        self._timeout_s = timeout_s
        self._batches: deque[Job] = deque()
        self._crew = Crew(nursery, self._batches, self._work, listener.concurrency)

    @property
    def concurrency(self) -> int:
        """How many listeners may run at once."""
        return self._crew.concurrency

    def resize(self, concurrency: int) -> None:
        """Let ``concurrency`` listeners run at once from now on; those that run finish."""
        self._crew.resize(concurrency)

    def submit(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Have ``messages`` of one queue consumed when their turn comes.

        Once the pool closes nothing has a turn: what a last pull brings then comes again.
        """
        if self._crew.closing:
            return
        size = self._listener.batch_messages
        if size == 1:
            self._batches.extend((held, (message,)) for message in messages)
        else:
            self._batches.extend(
                (held, tuple(messages[at : at + size])) for at in range(0, len(messages), size)
            )
        self._crew.call()

    async def watch(self) -> None:
        """Cancel listeners that take too long; runs until cancelled."""
        await self._crew.watch(self._timeout_s)

    async def close(self) -> None:
        """Begin nothing more, and return when the listeners that run have returned."""
        self._batches.clear()
        await self._crew.close()

    async def _work(self, worker: Worker[Job]) -> None:
        with trio.CancelScope() as worker.scope:
            await self._run_batches(worker)
        if worker.cancelled and worker.job is not None:
            await self._settle(*worker.job, worker.outcome, timed_out=True)

    async def _run_batches(self, worker: Worker[Job]) -> None:
        """Run the listener until the pool closes, or until its time limit has struck."""
        crew, batches, handle, turn = self._crew, self._batches, self._listener.handle, 0
        now_s = trio.current_time()
        while crew.goes_on():
            if not batches:
                now_s = await crew.rest()
                continue
            held, messages = worker.job = batches.popleft()
            if batches and not crew.called:
                crew.call()
            if held.messages.dropped:
                continue
            stats = self._stats(held.queue.topic)
            now_s = await worker.run(
                handle, held, messages, stats=stats, clock_ms=self._clock_ms, now_s=now_s
            )
            if worker.cancelled:
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

    async def _settle(
        self,
        held: HeldQueue,
        messages: Sequence[ReceivedMessage],
        outcome: object,
        *,
        timed_out: bool,
    ) -> None:
        if held.dropped:
            LOGGER.info("%s is not ours any more; %s may come again", held.queue, messages)
        elif outcome is None or outcome is Outcome.SUCCESS:
            self._succeed(held, messages)
        else:
            if not isinstance(outcome, Outcome):
                LOGGER.error("%r is no Outcome, taken for RETRY", outcome)
            await self._retry(held, messages, timed_out)
