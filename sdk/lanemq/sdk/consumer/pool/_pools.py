"""Pools: what runs a listener over the messages that schedulers let run."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import trio

from lanemq.wire.bodies import MessageQueue

from ..._messages import ReceivedMessage
from ...listeners._listener import Handle
from ...listeners._listener_context import takes_context
from ...observe._consume_stats import TopicStats
from ..ordered._queue_locks import Lease
from ..pulls._held_queue import HeldQueue
from ._outside_calls import listener_executor_of
from ._outside_pool import OutsidePool
from ._queue_consumer import Completion, S
from ._turns import Turns
from ._worker_pool import WorkerPool

# Calls of a listener without an order that are handed over before others have ended: with a
# bound as low as that of calls that run at once, little would be left to hand over together.
AHEAD: Final = 256


class Pool(Protocol):
    """Consumes the messages of queues."""

    concurrency: int
    """Most listeners that run at once; ``resize`` changes it."""

    def submit(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Take ``messages``, the next of their queue, to be consumed when their turn comes."""

    def passed(self, held: HeldQueue) -> None:
        """Note that a pull found nothing for the listener, but the next offset may have moved."""

    async def retire(self, held: HeldQueue) -> None:
        """Hand out nothing of ``held`` any more; return when its listeners have returned."""

    def cancel(self, held: HeldQueue) -> None:
        """Cancel the listeners that run for a queue that was lost."""

    def resize(self, concurrency: int) -> None:
        """Set the number of listeners that run at once from now on; those that run finish."""

    async def watch(self) -> None:
        """Stop listeners that take too long; runs until cancelled."""

    async def close(self) -> None:
        """Begin nothing more, and return when the listeners that run have returned."""


def make_pool(
    nursery: trio.Nursery,
    handle: Handle,
    group: str,
    completion: Completion[S],
    *,
    schedule: Callable[[HeldQueue], S],
    lease: Callable[[MessageQueue], Lease | None],
    stats: Callable[[str], TopicStats],
    clock_ms: Callable[[], int],
    concurrency: int,
    timeout_s: float,
    has_order: bool,
) -> Pool:
    """Return the pool of a listener: of tasks, or for one that runs outside of the core."""
    executor = listener_executor_of(handle)
    if executor is None:
        return WorkerPool(
            nursery,
            handle,
            group,
            completion,
            schedule=schedule,
            lease=lease,
            stats=stats,
            clock_ms=clock_ms,
            concurrency=concurrency,
            timeout_s=timeout_s,
        )
    return OutsidePool(
        nursery,
        executor,
        completion,
        lambda wake: Turns(completion, schedule=schedule, lease=lease, stats=stats, on_wake=wake),
        group=group if takes_context(handle) else None,
        clock_ms=clock_ms,
        concurrency=concurrency,
        ahead=0 if has_order else AHEAD,
        merges=not has_order,
        timeout_s=timeout_s,
    )
