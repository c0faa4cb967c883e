"""Generated from lanemq.sdk.kv._leases by sdk/tools/generate_faces.py."""

from contextlib import AbstractContextManager

from lanemq.wire.kv import LeaseStatus

from ...kv._store import KeyValueStore
from .._bridge import Bridge
from ._held import Leaders, Lease, Lock


class KeyLeases:
    """The leases, locks and leaders of a store."""

    _core: KeyValueStore
    _bridge: Bridge

    def lease(self, ttl_s: float = 15.0) -> AbstractContextManager[Lease]:
        """Hold a lease for the length of a block, for as long as this process lives.

        It is kept alive by itself. What is put with ``lease=lease.id`` is there as long as the
        lease: it is gone at the end of the block, and ``ttl_s`` seconds after the death of this
        process at the latest. Locks, leaders and an offset store can share it.

        Raises as ``put``, and ``LeaseLost`` at the end of the block if it was not held all the
        time: ask ``lease.is_held``, or wait for ``lease.wait_until_lost()``.
        """
        return self._bridge.open(Lease, self._core.lease, ttl_s)

    def grant_lease(self, ttl_s: float, *, lease: int | None = None) -> int:
        """Grant a lease that nobody keeps alive by itself; returns its number, which is ``lease``
        if that is given.

        It ends after ``ttl_s`` seconds, with all keys that were put under it, unless
        ``keep_lease_alive`` lets its time begin again. Raises ``KvRejected`` for a number that is
        taken or a lease too many, and as ``put``: then one of a given number may be there.
        """
        return self._bridge.call(self._core.grant_lease, ttl_s, lease=lease)

    def keep_lease_alive(self, lease: int, *, of_any: bool = False) -> None:
        """Let the whole time of a lease begin again.

        With ``of_any`` it may be another account's, which takes the right to all keys. Raises
        ``NoLease`` if it has ended, and as ``put``.
        """
        self._bridge.call(self._core.keep_lease_alive, lease, of_any=of_any)

    def revoke_lease(self, lease: int, *, of_any: bool = False) -> None:
        """End a lease: its keys are deleted. Raises as ``keep_lease_alive``."""
        self._bridge.call(self._core.revoke_lease, lease, of_any=of_any)

    def lease_status(self, lease: int, *, of_any: bool = False) -> LeaseStatus:
        """Return the time that a lease has left, and its keys. Raises as ``keep_lease_alive``."""
        return self._bridge.call(self._core.lease_status, lease, of_any=of_any)

    def leases(self, *, of_any: bool = False) -> list[LeaseStatus]:
        """Return the leases in the order of their numbers, without their keys.

        They are those of the account that asks, or with ``of_any`` all, which takes the right to
        all keys. Raises as ``get``.
        """
        return self._bridge.call(self._core.leases, of_any=of_any)

    def lock(
        self,
        key: bytes,
        *,
        ttl_s: float = 15.0,
        wait_s: float | None = None,
        lease: int | None = None,
    ) -> AbstractContextManager[Lock]:
        """Hold a lock for the length of a block, for as long as this process lives.

        It is kept by itself. Whoever dies without giving it up keeps it for ``ttl_s`` seconds
        more; with ``lease``, the number of a lease of this store that is held, as long as that
        lasts. Who waits gets it in the order of coming, each with an entry under
        ``KEY/waiting/``. It is waited for until ``wait_s`` is over; None is for ever. One attempt
        is always made, and takes as long as a request may: 0 is that one alone.

        Raises ``LockNotAcquired``, as ``put`` if no attempt was answered, and ``LockLost`` at the
        end of the block if it was not held all the time: ask ``lock.is_held`` before what only the
        holder may do, and hand on ``lock.fencing`` to whom it is done to, or ``lock.check`` in a
        ``batch``.
        """
        return self._bridge.open(
            Lock, self._core.lock, key, ttl_s=ttl_s, wait_s=wait_s, lease=lease
        )

    def leader(
        self,
        name: str,
        *,
        ttl_s: float = 15.0,
        wait_s: float | None = None,
        owner: bytes = b"",
        lease: int | None = None,
    ) -> AbstractContextManager[Lock]:
        """Hold the leadership of ``name`` for the length of a block: the lock ``leader/NAME``.

        Others see ``owner`` in the value of that key, and by ``observe``. See ``lock``.
        """
        return self._bridge.open(
            Lock, self._core.leader, name, ttl_s=ttl_s, wait_s=wait_s, owner=owner, lease=lease
        )

    def observe(self, name: str) -> Leaders:
        """Return the leaders of ``name``: the present one, and then each that follows."""
        return Leaders(self._bridge.run(self._core.observe, name), self._bridge)
