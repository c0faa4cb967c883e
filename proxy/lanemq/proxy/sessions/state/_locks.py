"""The queue locks behind orderly listeners: one client at a time consumes a queue in order.

A lock belongs to a client (not to a connection) and lives 60 s from its last renewal; the
reference client renews every 20 s and stops trusting its own lock after 30 s. A client that gives
its locks up itself when its connection ends may say so (``BOUND_LOCK_FIELD``): then its locks end
with the connection, and the queues of a killed consumer wait for nobody.

A client id is what a request says, so a lock is its account's as well: another account neither
renews nor releases it, unless it may do everything.

Source: RocketMQ 4.9.8, RebalanceLockManager.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, final

from lanemq.wire.bodies import MessageQueue

from ...net._turns import LOOKS_OF_A_STEP, Steps
from ...net.limits._budget import Budget
from ._lock_charges import LockCharges

LOCK_LIFE_S = 60.0
LOCK_BYTES: Final = 512
"""Estimated bytes that a lock takes beside its names."""


@final
class Asker(NamedTuple):
    """The account behind a request for locks."""

    name: str | None = None
    """Its name; "" for nobody, None where it is not known."""
    is_limited: bool = False
    """True if it may not touch the locks of other accounts."""


ANYONE: Final = Asker()


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_s: float
    account: str | None
    """The account that has it; None where it is not known: then any account with the id has."""
    connection: Hashable | None = None
    """The connection that the lock ends with, if it does."""
    owner: Hashable = None
    """The one whose share of the places it takes."""


@final
@dataclass(frozen=True, slots=True)
class Lent:
    """A lock that a client has."""

    client_id: str
    age_s: float
    """Seconds since it was renewed."""
    account: str | None
    """The client's account, where it is known."""


@final
class QueueLocks:
    """The locks of all groups. Times are arguments, in seconds of any one clock."""

    def __init__(self, budget: Budget) -> None:
        """Charge what locks take to ``budget``."""
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        # What each connection has, so that its end costs no more than that.
        self._bound: dict[Hashable, set[tuple[str, MessageQueue]]] = {}
        # Connections that have ended: their locks are void, and are forgotten in steps.
        self._ended: set[Hashable] = set()
        self._charges = LockCharges(budget)

    def lock(
        self,
        group: str,
        client_id: str,
        queues: Iterable[MessageQueue],
        now_s: float,
        *,
        asker: Asker = ANYONE,
        connection: Hashable | None = None,
        owner: Hashable | None = None,
    ) -> list[MessageQueue]:
        """Lock or renew ``queues``; returns those that the client now holds.

        Those for which ``owner``, mostly a connection, has no place left are not among them. They
        end with ``connection``, if one is given: ``closed`` has to be called then.
        """
        locks = self._groups.get(group, {})
        held: list[MessageQueue] = []
        owner = client_id if owner is None else owner
        room, new, new_bytes = self._charges.room(owner), 0, 0
        for queue in queues:
            lock = locks.get(queue)
            if (
                lock is not None
                and lock.client_id == client_id
                and lock.account == asker.name
                and lock.connection == connection
                and lock.owner == owner
            ):
                lock.renewed_s = now_s
                held.append(queue)
                continue
            if lock is None and new >= room:
                continue
            if lock is None or _is_own(lock, client_id, asker) or self._is_free(lock, now_s):
                if lock is not None:
                    self._remove(group, queue)
                lock = _Lock(client_id, now_s, asker.name, connection, owner)
                locks = self._keep(group, queue, lock)
                new, new_bytes = new + 1, new_bytes + _lock_bytes(group, queue, lock)
                held.append(queue)
        if new:  # thousands at once are charged once
            self._charges.take(owner, new_bytes, new)
        return held

    def _put(self, group: str, queue: MessageQueue, lock: _Lock) -> None:
        self._remove(group, queue)
        self._keep(group, queue, lock)
        self._charges.take(lock.owner, _lock_bytes(group, queue, lock))

    def _keep(self, group: str, queue: MessageQueue, lock: _Lock) -> dict[MessageQueue, _Lock]:
        locks = self._groups.setdefault(group, {})
        locks[queue] = lock
        if lock.connection is not None:
            self._bound.setdefault(lock.connection, set()).add((group, queue))
        return locks

    def _remove(self, group: str, queue: MessageQueue) -> None:
        lock = self._groups.get(group, {}).pop(queue, None)
        if lock is not None:
            self._charges.give_back(lock.owner, _lock_bytes(group, queue, lock))
        if lock is not None and lock.connection is not None:
            bound = self._bound[lock.connection]
            bound.discard((group, queue))
            if not bound:
                del self._bound[lock.connection]

    def closed(self, connection: Hashable) -> None:
        """Release the locks that end with a connection; no other may be equal to it later."""
        if connection in self._bound:
            self._ended.add(connection)

    def _is_free(self, lock: _Lock, now_s: float) -> bool:
        return (
            now_s - lock.renewed_s > LOCK_LIFE_S
            or lock.connection in self._ended
            or self._charges.is_void(lock.owner)
        )

    def unlock(
        self,
        group: str,
        client_id: str,
        queues: Iterable[MessageQueue],
        *,
        asker: Asker = ANYONE,
    ) -> None:
        """Release the client's own locks; those of others stay."""
        locks = self._groups.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and _is_own(lock, client_id, asker):
                self._remove(group, queue)

    def holder(self, group: str, queue: MessageQueue, now_s: float) -> str | None:
        """Return the client that holds the lock, if any does."""
        lock = self._groups.get(group, {}).get(queue)
        return None if lock is None or self._is_free(lock, now_s) else lock.client_id

    def lent(self, group: str, queue: MessageQueue, now_s: float) -> Lent | None:
        """Return the holder and the age of a lock."""
        lock = self._groups.get(group, {}).get(queue)
        if lock is None or self._is_free(lock, now_s):
            return None
        return Lent(lock.client_id, now_s - lock.renewed_s, lock.account)

    def inherit(
        self,
        group: str,
        queue: MessageQueue,
        client_id: str,
        renewed_s: float,
        account: str | None = None,
    ) -> None:
        """Take over a lock that another broker lent, unless one was renewed here."""
        lock = self._groups.get(group, {}).get(queue)
        if lock is None or lock.renewed_s < renewed_s:
            self._put(group, queue, _Lock(client_id, renewed_s, account))

    def expire(self, now_s: float) -> Steps[None]:
        """Forget locks that are void, because they were not renewed or their connection has
        ended, so many in each step: their memory is freed."""
        looks = 0
        for group in list(self._groups):
            for queue, lock in list(self._groups.get(group, {}).items()):
                looks += 1
                if looks % LOOKS_OF_A_STEP == 0:
                    yield None
                if self._is_free(lock, now_s) and self._groups.get(group, {}).get(queue) is lock:
                    self._remove(group, queue)
            if group in self._groups and not self._groups[group]:
                del self._groups[group]
        self._ended &= self._bound.keys()


def _is_own(lock: _Lock, client_id: str, asker: Asker) -> bool:
    is_other_account = asker.is_limited and lock.account not in (asker.name, None)
    return lock.client_id == client_id and not is_other_account


def _lock_bytes(group: str, queue: MessageQueue, lock: _Lock) -> int:
    """Estimate the bytes kept for a lock."""
    names = len(group) + len(lock.client_id) + len(queue.topic) + len(queue.broker_name)
    return LOCK_BYTES + names + len(lock.account or "")
