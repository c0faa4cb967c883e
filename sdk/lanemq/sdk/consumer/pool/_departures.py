"""Queues that a consumer gives up while listeners still run for them."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, final

from lanemq.wire.bodies import MessageQueue

from ...observe._log import get_logger
from .._consumer_core import ConsumerCore
from ..pulls._held_queue import HeldQueue
from ._pools import Pool
from ._queue_consumer import S

LOGGER = get_logger("lanemq.sdk.consumer")


async def _nothing(queue: MessageQueue) -> None:
    """Do nothing: the end of a queue concerns no one else."""


@final
class Departures(Generic[S]):
    """Gives queues up: their listeners finish, progress is reported, then the queues go.

    ``after`` is called when the progress of a queue was reported; not if the queue was dropped
    meanwhile.
    """

    def __init__(
        self, core: ConsumerCore, after: Callable[[MessageQueue], Awaitable[None]] = _nothing
    ) -> None:
        self._core = core
        self._after = after
        self._pool: Pool | None = None
        self._leaving: dict[MessageQueue, HeldQueue] = {}
        self._wanted: set[MessageQueue] = set()

    def serve(self, pool: Pool) -> None:
        """Let ``pool`` finish with the queues that are given up; set once, at the start."""
        self._pool = pool

    def get(self, queue: MessageQueue) -> HeldQueue | None:
        """Return ``queue`` while it is being given up; else None."""
        return self._leaving.get(queue)

    def claimable(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Return those of ``queues`` that are not being given up; ask for the others later."""
        asked = tuple(queues)
        self._wanted.update(queue for queue in asked if queue in self._leaving)
        return [queue for queue in asked if queue not in self._leaving]

    def begin(self, held: HeldQueue) -> None:
        """Hand out nothing more of ``held``, and give it up when its listeners have returned."""
        held.scope.cancel()
        self._leaving[held.queue] = held
        self._core.nursery.start_soon(self._depart, held)

    async def _depart(self, held: HeldQueue) -> None:
        assert self._pool is not None, "serve comes first"
        queue, offsets = held.queue, self._core.offsets
        await self._pool.retire(held)
        if not held.dropped:  # else its lock was lost meanwhile, and another has the queue
            await offsets.persist([queue], wait=True, again=True)
            held.drop()
            offsets.forget(queue)
            await self._after(queue)
        del self._leaving[queue]
        self._core.changes.revoked(queue)
        LOGGER.info("gave up %s", queue)
        if queue in self._wanted:
            self._wanted.discard(queue)
            self._core.rebalance.wake()
