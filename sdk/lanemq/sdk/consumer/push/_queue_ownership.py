"""Ownership of queues by ordered consumers: a queue is read while its lock is held.

Source: RocketMQ 4.9.8, RebalancePushImpl, ConsumeMessageOrderlyService.
"""

from collections.abc import Iterable, Sequence
from typing import Generic, final

import trio

from lanemq.wire.bodies import MessageQueue

from ..._messages import ReceivedMessage
from ...listeners._ordered_listeners import LockLoss
from ...observe._log import get_logger
from .._consumer_core import PERSIST_TIMEOUT_S, ConsumerCore
from ..ordered._queue_locks import Lease, QueueLocks
from ..pool._departures import Departures
from ..pool._pools import Pool
from ..pool._queue_consumer import S
from ..pulls._held_queue import HeldQueue

LOGGER = get_logger("lanemq.sdk.consumer")


@final
class QueueOwnership(Generic[S]):
    """The queues of one ordered consumer, by their locks. Nobody locks in a broadcasting group."""

    def __init__(self, core: ConsumerCore, on_lock_loss: LockLoss) -> None:
        self._core = core
        self._on_lock_loss = on_lock_loss
        self._locks = None if core.broadcasting else QueueLocks(core.client, core.group, self._lost)
        self._pool: Pool | None = None
        # The locks stay ours as long as listeners run.
        self._departures: Departures[S] = Departures(core, after=self.disclaim)
        core.rebalance.own_with(self)

    def serve(self, pool: Pool) -> None:
        """Let ``pool`` finish with the queues that are given up; set once, at the start."""
        self._pool = pool
        self._departures.serve(pool)

    async def keep_locks(self) -> None:
        """Renew the locks until cancelled."""
        if self._locks is not None:
            await self._locks.run()

    async def leave(self) -> None:
        """Give all locks back, after progress was reported for the last time."""
        if self._locks is not None:
            with trio.move_on_after(PERSIST_TIMEOUT_S, shield=True):
                await self._locks.release_all()

    def lease(self, queue: MessageQueue) -> Lease | None:
        """Return the lock of ``queue``; None where queues are not locked."""
        return None if self._locks is None else self._locks.lease(queue)

    def owns(self, queue: MessageQueue) -> bool:
        """Return whether messages of ``queue`` may be handed out at this moment."""
        return self._locks is None or self._locks.holds(queue)

    async def claim(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Return those of ``queues`` that may be read: ours by lock, and not being given up."""
        wanted = self._departures.claimable(queues)
        if self._locks is None or not wanted:
            return set(wanted)
        granted = await self._locks.claim(wanted)
        for queue in wanted:
            if queue not in granted:
                LOGGER.info("%s cannot be read yet: its lock is another consumer's", queue)
        return granted

    async def disclaim(self, queue: MessageQueue) -> None:
        """Give the lock of a queue back."""
        if self._locks is not None:
            await self._locks.release([queue])

    async def release(self, held: HeldQueue, *, finish: bool) -> None:
        """Give up a queue: its handlers finish, progress is reported, then the lock goes."""
        self._departures.begin(held)

    def finished_late(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        """Go on behind ``messages``, which a listener finished after their queue's lock was lost.

        They are those with which the queue went on. Nothing happens where it was given up for
        another reason, or goes on elsewhere: at another's offset, or at an operator's.
        """
        if held.lost_at is None:
            return
        queue, after = held.queue, messages[-1].queue_offset + 1
        rebalance = self._core.rebalance
        is_held = queue in rebalance.held
        if self._core.offsets.finished_late(queue, held.lost_at, after, is_held=is_held):
            rebalance.restart(queue, after)

    def _lost(self, queue: MessageQueue) -> None:
        assert self._pool is not None, "serve comes first"
        rebalance = self._core.rebalance
        held = rebalance.remove(queue)
        if held is not None:
            self._core.changes.revoked(queue)
        else:
            held = self._departures.get(queue)
        if held is None:
            return
        held.lost_at = self._core.offsets.get(queue)
        held.drop()
        self._core.offsets.forget(queue, cut_off=True)
        if self._on_lock_loss is LockLoss.CANCEL:
            self._pool.cancel(held)
        rebalance.wake()
