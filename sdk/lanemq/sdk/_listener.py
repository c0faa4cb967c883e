"""Runs an application's listener over what was pulled, several at a time.

Source: RocketMQ 4.9.8, ConsumeMessageConcurrentlyService.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import final

import trio

from ._consume_stats import TopicStats
from ._held_queue import HeldQueue
from ._messages import Outcome, ReceivedMessage

LOGGER = logging.getLogger("lanemq.sdk.listener")

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
        self._nursery = nursery
        self._listener = listener
        self._succeed = succeed
        self._retry = retry
        self._stats = stats
        self._clock_ms = clock_ms
        self._timeout_s = timeout_s
        self._batches: deque[tuple[HeldQueue, Sequence[ReceivedMessage]]] = deque()
        self._idle = trio.lowlevel.ParkingLot()
        self._workers = 0
        self._busy = 0
        self._closing = False
        self._quiet = trio.Event()

    def submit(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Have ``messages`` of one queue consumed when their turn comes."""
        size = self._listener.batch_messages
        if size == 1:
            self._batches.extend((held, (message,)) for message in messages)
        else:
            self._batches.extend(
                (held, tuple(messages[at : at + size])) for at in range(0, len(messages), size)
            )
        waiting = len(self._batches)
        if self._idle:
            self._idle.unpark(count=min(waiting, len(self._idle)))
        while self._workers < self._listener.concurrency and self._workers - self._busy < waiting:
            self._workers += 1
            self._nursery.start_soon(self._work)

    async def _work(self) -> None:
        batches = self._batches
        while not self._closing:
            if not batches:
                await self._idle.park()
                continue
            self._busy += 1
            turn = 0
            while batches and not self._closing:
                held, messages = batches.popleft()
                if held.dropped:
                    continue
                await self.consume(held, messages)
                turn += 1
                if turn % BATCHES_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()
            self._busy -= 1
            if not self._busy:
                self._quiet.set()

    async def consume(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Run the listener over one batch and settle it.

        Being cancelled leaves the batch unsettled: it will be delivered again.
        """
        outcome: Outcome | None = Outcome.RETRY
        held.last_consume_ms = self._clock_ms()
        started_s = trio.current_time()
        with trio.move_on_after(self._timeout_s) as scope:
            try:
                outcome = await self._listener.handle(messages)
            except Exception:  # the application's own; Cancelled is no Exception
                LOGGER.exception("the listener failed on %s; it will come again", messages)
        succeeded = outcome is None or outcome is Outcome.SUCCESS
        now_s = trio.current_time()
        self._stats(held.queue.topic).consumed(
            now_s, len(messages), now_s - started_s, ok=succeeded
        )
        if held.dropped:
            LOGGER.info("%s is not ours any more; %s may come again", held.queue, messages)
        elif succeeded:
            self._succeed(held, messages)
        else:
            if outcome is not Outcome.RETRY:
                LOGGER.error("the listener returned %r, no Outcome; taken for RETRY", outcome)
            await self._retry(held, messages, scope.cancelled_caught)

    async def close(self) -> None:
        """Begin nothing more, and return when the listeners that run have returned."""
        self._closing = True
        self._batches.clear()
        while self._busy:
            self._quiet = trio.Event()
            await self._quiet.wait()
