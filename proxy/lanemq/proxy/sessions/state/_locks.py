"""The queue locks behind orderly listeners: one client at a time consumes a queue in order.

A lock belongs to a client (not to a connection) and lives 60 s from its last renewal; the
reference client renews every 20 s and stops trusting its own lock after 30 s. A client that gives
its locks up itself when its connection ends may say so (``BOUND_LOCK_FIELD``): then its locks end
with the connection, and the queues of a killed consumer wait for nobody.

Source: RocketMQ 4.9.8, RebalanceLockManager.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final, final

from lanemq.wire.bodies import MessageQueue

from ...net.limits._quotas import PeerQuota

LOCK_LIFE_S = 60.0
LOCKS_MAX: Final = 200_000
"""Most locks of a broker."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_s: float
    connection: Hashable | None = None
    """The connection that the lock ends with, if it does."""
    owner: Hashable = None
    """The one whose share of the places it takes."""

    def is_free(self, now_s: float) -> bool:
        return now_s - self.renewed_s > LOCK_LIFE_S


@final
@dataclass(frozen=True, slots=True)
class Lent:
    """A lock that a client has."""

    client_id: str
    age_s: float
    """Seconds since it was renewed."""


@final
class QueueLocks:
    """The locks of all groups. Times are arguments, in seconds of any one clock."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        # What each connection has, so that its end costs no more than that.
        self._bound: dict[Hashable, set[tuple[str, MessageQueue]]] = {}
        self._places = PeerQuota[Hashable](LOCKS_MAX)

    def lock(
        self,
        group: str,
        client_id: str,
        queues: Iterable[MessageQueue],
        now_s: float,
        *,
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
        for queue in queues:
            lock = locks.get(queue)
            if lock is None and not self._places.has_room(owner):
                continue
            if lock is None or lock.client_id == client_id or lock.is_free(now_s):
                self._put(group, queue, _Lock(client_id, now_s, connection, owner))
                locks = self._groups[group]
                held.append(queue)
        return held

    def _put(self, group: str, queue: MessageQueue, lock: _Lock) -> None:
        self._remove(group, queue)
        self._groups.setdefault(group, {})[queue] = lock
        self._places.take(lock.owner)
        if lock.connection is not None:
            self._bound.setdefault(lock.connection, set()).add((group, queue))

    def _remove(self, group: str, queue: MessageQueue) -> None:
        lock = self._groups.get(group, {}).pop(queue, None)
        if lock is not None:
            self._places.give_back(lock.owner)
        if lock is not None and lock.connection is not None:
            bound = self._bound[lock.connection]
            bound.discard((group, queue))
            if not bound:
                del self._bound[lock.connection]

    def closed(self, connection: Hashable) -> None:
        """Release the locks that end with a connection."""
        for group, queue in tuple(self._bound.get(connection, ())):
            self._remove(group, queue)

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release the client's own locks; those of others stay."""
        locks = self._groups.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                self._remove(group, queue)

    def holder(self, group: str, queue: MessageQueue, now_s: float) -> str | None:
        """Return the client that holds the lock, if any does."""
        lock = self._groups.get(group, {}).get(queue)
        return None if lock is None or lock.is_free(now_s) else lock.client_id

    def lent(self, group: str, queue: MessageQueue, now_s: float) -> Lent | None:
        """Return the holder and the age of a lock."""
        lock = self._groups.get(group, {}).get(queue)
        if lock is None or lock.is_free(now_s):
            return None
        return Lent(lock.client_id, now_s - lock.renewed_s)

    def inherit(self, group: str, queue: MessageQueue, client_id: str, renewed_s: float) -> None:
        """Take over a lock that another broker lent, unless one was renewed here."""
        lock = self._groups.get(group, {}).get(queue)
        if lock is None or lock.renewed_s < renewed_s:
            self._put(group, queue, _Lock(client_id, renewed_s))

    def expire(self, now_s: float) -> None:
        """Forget locks that were not renewed, which are void already: their memory is freed."""
        for group, locks in list(self._groups.items()):
            for queue in [queue for queue, lock in locks.items() if lock.is_free(now_s)]:
                self._remove(group, queue)
            if not locks:
                del self._groups[group]
