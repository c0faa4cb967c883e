"""Which client may consume a queue in order: the locks behind orderly listeners.

A lock belongs to a client (not to a connection) and lives 60 s from its last renewal; the
reference client renews every 20 s and stops trusting its own lock after 30 s.

Source: RocketMQ 4.9.8, RebalanceLockManager; AdminBrokerProcessor.lockBatchMQ, unlockBatchMQ.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from lanemq.wire import Frame, LockBatch, LockBatchResult, MessageQueue, RequestCode

from .._dispatch import Handlers
from .._session import Session

if TYPE_CHECKING:
    from ._context import BrokerContext

LOCK_LIFE_S = 60.0


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_s: float

    def is_free(self, now_s: float) -> bool:
        return now_s - self.renewed_s > LOCK_LIFE_S


@final
class QueueLocks:
    """The locks of all groups. Times are arguments, in seconds of any one clock."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now_s: float
    ) -> list[MessageQueue]:
        """Lock or renew; returns the queues of ``queues`` that the client now holds."""
        locks = self._groups.setdefault(group, {})
        held: list[MessageQueue] = []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None or lock.client_id == client_id or lock.is_free(now_s):
                locks[queue] = _Lock(client_id, now_s)
                held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give up the locks that are the client's own; those of others stay."""
        locks = self._groups.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]

    def holder(self, group: str, queue: MessageQueue, now_s: float) -> str | None:
        """The client that holds the lock, if any does."""
        lock = self._groups.get(group, {}).get(queue)
        return None if lock is None or lock.is_free(now_s) else lock.client_id

    def expire(self, now_s: float) -> None:
        """Forget the locks nobody renewed. They bind nobody; this only frees their memory."""
        for group, locks in list(self._groups.items()):
            for queue in [queue for queue, lock in locks.items() if lock.is_free(now_s)]:
                del locks[queue]
            if not locks:
                del self._groups[group]


def register(handlers: Handlers, broker: "BrokerContext") -> None:
    """LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42)."""

    def lock_batch(frame: Frame, session: Session) -> Frame:
        body = LockBatch.decode(frame.body)
        held = broker.locks.lock(body.consumer_group, body.client_id, body.mq_set, broker.now_s())
        return frame.reply(body=LockBatchResult(lock_ok_mq_set=tuple(held)).encode())

    def unlock_batch(frame: Frame, session: Session) -> Frame:
        body = LockBatch.decode(frame.body)
        broker.locks.unlock(body.consumer_group, body.client_id, body.mq_set)
        return frame.reply()

    handlers.add(RequestCode.LOCK_BATCH_MQ, lock_batch)
    handlers.add(RequestCode.UNLOCK_BATCH_MQ, unlock_batch)
