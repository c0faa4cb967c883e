"""A lease: a time that keys share, kept alive for as long as its block runs."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, final

import trio

from lanemq.local import suspended_s
from lanemq.wire.kv import LeaseStatus, LeaseTerms

from .._errors import LanemqError
from .._tasks import open_quiet_nursery
from ._numbers import check_ttl, milliseconds
from .requests._calls import KvCalls
from .requests._errors import LeaseLost, NoLease
from .requests._leases import (
    grant,
    keep_alive,
    keep_alive_at,
    lease_status,
    new_lease,
    revoke,
    revoke_at,
)

RENEWALS: Final = 3
"""Keep-alives within a ttl, so that one may fail."""
RETRY_S: Final = 0.2
GIVE_UP_S: Final = 2.0
"""Seconds for which a lease is tried to be revoked: its ttl ends it as well."""


@final
class Lease:
    """A lease that is held, as far as its holder can know. Made by ``lease``.

    It is kept alive by itself, until its block ends: then it is revoked, and its keys are gone.
    """

    def __init__(self, calls: KvCalls, ttl_s: float, key: bytes | None = None) -> None:
        """Make one that is not granted yet: in the partition of ``key`` alone, or in all."""
        self.id: int = new_lease()
        """Its number, for ``lease=`` of a store's methods and of operations."""
        self.ttl_s: float = ttl_s
        """Seconds that it lasts without being kept alive."""
        self._calls = calls
        self._key = key
        self._clock = trio.lowlevel.current_clock()
        self._until_s = 0.0
        """By the clock of ``_now_s``; 0 before it is granted."""
        self._is_over = False
        self._lost = trio.Event()

    @property
    def is_held(self) -> bool:
        """True while it is held, as far as this process knows: it was kept alive in time.

        False at the latest when its ttl is over, which is before anybody else has what is under
        it. That somebody revoked it shows at the next renewal, after a third of the ttl.
        """
        return not self._is_over and self._now_s() < self._until_s

    def _now_s(self) -> float:
        """Return the time by a clock that goes on while the machine is suspended."""
        return self._clock.current_time() + suspended_s()

    async def wait_until_lost(self) -> None:
        """Return when it is no longer held; at the end of its block at the latest."""
        await self._lost.wait()

    async def status(self) -> LeaseStatus:
        """Return the time that is left, and the keys under it.

        Raises ``NoLease`` if it has ended, and as ``KeyValueStore.get``.
        """
        return await lease_status(self._calls, self.id)

    async def keep_alive(self) -> None:
        """Let its whole time begin again now, besides what is done by itself.

        Raises ``NoLease`` if it has ended, and as ``KeyValueStore.put``.
        """
        asked_s = self._now_s()
        try:
            if self._key is None:
                await keep_alive(self._calls, self.id)
            else:
                await keep_alive_at(self._calls, self._key, self.id)
        except NoLease:
            self._lose()
            raise
        if asked_s >= self._until_s:  # others may have had what is under it in between
            self._lose()
            raise NoLease(self.id)
        self._until_s = asked_s + self.ttl_s

    async def _grant(self, ask: Callable[[LeaseTerms], Awaitable[None]]) -> None:
        """Have it granted by ``ask``, again if it was lost."""
        if self._is_over or self._until_s:
            self.id = new_lease()
        asked_s = self._now_s()
        await ask(LeaseTerms(self.id, milliseconds(self.ttl_s)))
        self._until_s = asked_s + self.ttl_s
        if self._is_over:
            self._is_over, self._lost = False, trio.Event()

    async def _renew(self) -> None:
        """Keep it alive until it is lost; ends then, and where it was granted again."""
        number, pause_s = self.id, self.ttl_s / RENEWALS
        while True:
            await trio.sleep(pause_s)
            if self.id != number:
                return
            if not self.is_held:  # the machine was suspended
                self._lose()
                return
            pause_s = self.ttl_s / RENEWALS
            try:
                with trio.move_on_at(self._until_s - suspended_s()):
                    await self.keep_alive()
                    continue
            except NoLease:
                return
            except LanemqError:
                pause_s = min(RETRY_S, pause_s)
            if self._now_s() >= self._until_s:
                self._lose()
                return

    def _lose(self) -> None:
        self._is_over = True
        self._lost.set()

    async def _give_up(self) -> None:
        """Revoke it, but do not try for long."""
        self._lose()
        with trio.move_on_after(GIVE_UP_S, shield=True):
            try:
                if self._key is None:
                    await revoke(self._calls, self.id)
                else:
                    await revoke_at(self._calls, self._key, self.id)
            except LanemqError:
                return


@asynccontextmanager
async def hold_lease(calls: KvCalls, held: dict[int, Lease], ttl_s: float) -> AsyncIterator[Lease]:
    """Hold a lease in all partitions for the length of the block; see ``KeyLeases.lease``.

    It is in ``held`` meanwhile, by its number.
    """
    check_ttl(ttl_s)
    lease = Lease(calls, ttl_s)
    await lease._grant(partial(grant, calls))
    held[lease.id] = lease
    try:
        async with open_quiet_nursery() as renewals:
            renewals.start_soon(lease._renew)
            try:
                yield lease
            finally:
                renewals.cancel_scope.cancel()
                was_held = lease.is_held
                await lease._give_up()
    finally:
        del held[lease.id]
    if not was_held:
        raise LeaseLost(lease.id)
