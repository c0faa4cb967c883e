"""The leases of a store, and what is held by them: locks and leaders."""

from contextlib import AbstractAsyncContextManager

import trio

from lanemq.wire.kv import KEY_BYTES_MAX, LeaseStatus, LeaseTerms

from .._values import check_text
from ._lease import Lease, hold_lease
from ._lock import Lock, hold_lock
from ._numbers import check_bytes, check_lease, check_ttl, milliseconds
from ._observe import Leaders
from .requests._calls import KvCalls
from .requests._errors import KvRejected
from .requests._leases import all_leases, grant, keep_alive, lease_status, new_lease, revoke


class KeyLeases:
    """The leases, locks and leaders of a store."""

    _calls: KvCalls
    _nursery: trio.Nursery
    _leases: dict[int, Lease]

    def lease(self, ttl_s: float = 15.0) -> AbstractAsyncContextManager[Lease]:
        """Hold a lease for the length of a block, for as long as this process lives.

        It is kept alive by itself. What is put with ``lease=lease.id`` is there as long as the
        lease: it is gone at the end of the block, and ``ttl_s`` seconds after the death of this
        process at the latest. Locks, leaders and an offset store can share it.

        Raises as ``put``, and ``LeaseLost`` at the end of the block if it was not held all the
        time: ask ``lease.is_held``, or wait for ``lease.wait_until_lost()``.
        """
        return hold_lease(self._calls, self._leases, ttl_s)

    async def grant_lease(self, ttl_s: float, *, lease: int | None = None) -> int:
        """Grant a lease that nobody keeps alive by itself; returns its number, which is ``lease``
        if that is given.

        It ends after ``ttl_s`` seconds, with all keys that were put under it, unless
        ``keep_lease_alive`` lets its time begin again. Raises ``KvRejected`` for a number that is
        taken or a lease too many, and as ``put``: then one of a given number may be there.
        """
        check_ttl(ttl_s)
        if lease is not None:
            check_lease(lease)
        number = new_lease() if lease is None else lease
        terms = LeaseTerms(number, milliseconds(ttl_s))
        await grant(self._calls, terms, is_chosen=lease is not None)
        return number

    async def keep_lease_alive(self, lease: int, *, of_any: bool = False) -> None:
        """Let the whole time of a lease begin again.

        With ``of_any`` it may be another account's, which takes the right to all keys. Raises
        ``NoLease`` if it has ended, and as ``put``.
        """
        check_lease(lease)
        await keep_alive(self._calls, lease, of_any=of_any)

    async def revoke_lease(self, lease: int, *, of_any: bool = False) -> None:
        """End a lease: its keys are deleted. Raises as ``keep_lease_alive``."""
        check_lease(lease)
        await revoke(self._calls, lease, of_any=of_any)

    async def lease_status(self, lease: int, *, of_any: bool = False) -> LeaseStatus:
        """Return the time that a lease has left, and its keys. Raises as ``keep_lease_alive``."""
        check_lease(lease)
        return await lease_status(self._calls, lease, of_any=of_any)

    async def leases(self, *, of_any: bool = False) -> list[LeaseStatus]:
        """Return the leases in the order of their numbers, without their keys.

        They are those of the account that asks, or with ``of_any`` all, which takes the right to
        all keys. Raises as ``get``.
        """
        return await all_leases(self._calls, of_any=of_any)

    def lock(
        self,
        key: bytes,
        *,
        ttl_s: float = 15.0,
        wait_s: float | None = None,
        lease: int | None = None,
    ) -> AbstractAsyncContextManager[Lock]:
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
        return self._held(key, ttl_s, wait_s, None, lease)

    def leader(
        self,
        name: str,
        *,
        ttl_s: float = 15.0,
        wait_s: float | None = None,
        owner: bytes = b"",
        lease: int | None = None,
    ) -> AbstractAsyncContextManager[Lock]:
        """Hold the leadership of ``name`` for the length of a block: the lock ``leader/NAME``.

        Others see ``owner`` in the value of that key, and by ``observe``. See ``lock``.
        """
        check_bytes("owner", owner)
        return self._held(_leader_key(name), ttl_s, wait_s, bytes(owner) or None, lease)

    def observe(self, name: str) -> Leaders:
        """Return the leaders of ``name``: the present one, and then each that follows."""
        return Leaders(self._calls, _leader_key(name))

    def _held(
        self,
        key: bytes,
        ttl_s: float,
        wait_s: float | None,
        owner: bytes | None,
        lease: int | None,
    ) -> AbstractAsyncContextManager[Lock]:
        return hold_lock(
            self._calls,
            self._nursery,
            key,
            ttl_s=ttl_s,
            wait_s=wait_s,
            owner=owner,
            lease=None if lease is None else held_by(self._leases, lease),
        )


def held_by(leases: dict[int, Lease], lease: int) -> Lease:
    """Return a lease that a store holds. Raises ``KvRejected``."""
    check_lease(lease)
    if lease not in leases:
        raise KvRejected(
            f"lease {lease} is not held by this store: take one by `store.lease()`, and give the "
            "number of that while its block runs"
        )
    return leases[lease]


def _leader_key(name: str) -> bytes:
    check_text("the name of a leader", name, most_bytes=KEY_BYTES_MAX - 100, error=KvRejected)
    return b"leader/" + name.encode()
