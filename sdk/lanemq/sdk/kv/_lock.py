"""A lock: an entry under its holder's lease, and behind it a queue of those who wait.

Each of these has an entry as well, under a lease, and waits for the one before it: so one release
wakes one waiter, and they get the lock in the order they came.
"""

import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, final

import trio

from lanemq.wire import ProtocolError, RequestCode
from lanemq.wire.headers import KvGet
from lanemq.wire.kv import (
    Action,
    Entry,
    LeaseTerms,
    OpType,
    Step,
    decode_entry,
    encode_key,
    encode_steps,
)

from .._errors import ClientClosed, LanemqError
from .._tasks import open_quiet_nursery
from .._values import check_seconds
from ._lease import RENEWALS, Lease
from ._lock_queue import LOCK_BYTES_MAX, LockQueue, TicketGone
from ._numbers import check_key, check_ttl
from .requests._attempts import Attempts
from .requests._calls import KvCalls
from .requests._errors import (
    KvRejected,
    LockLost,
    LockNotAcquired,
    NoLease,
    NoNamespace,
)
from .requests._leases import grant_at, revoke_at

GIVE_UP_S: Final = 2.0
AGAIN_S: Final = 5.0
"""Seconds between two attempts to release what a lease holds that others share."""


@final
class Lock:
    """A lock that is held, as far as its holder can know. Made by ``lock`` and ``leader``."""

    def __init__(
        self,
        calls: KvCalls,
        key: bytes,
        owner: bytes,
        lease: Lease,
        *,
        tasks: trio.Nursery,
        later: trio.Nursery,
    ) -> None:
        """``tasks`` ends with its block, and ``later`` with the store."""
        self.key: bytes = key
        """The key of the entry that is the lock."""
        self.fencing: int = 0
        """A number that goes with the lock, from 1: every later holder has a higher one.

        In a namespace of one partition, so has every later holder of any lock there. Whoever is
        asked on behalf of the lock can refuse a lower number than the highest seen. Numbers of
        writes that a broker with ASYNC_FLUSH has lost with the power are given again.
        """
        self.check: Step = Step(key, Action.CHECK, if_value=owner)
        """A condition for a batch: its other steps are done only while the lock is held.

        In a namespace of several partitions, their keys have to be in that of the lock.
        """
        self._calls = calls
        self._tasks = tasks
        self._later = later
        self._owner = owner
        self._lease = lease
        self._lost = False
        self._unsettled = False
        """True if something of it may be there."""
        self._queue = LockQueue(calls, key)

    @property
    def is_held(self) -> bool:
        """True while it is held, as far as this process knows: its lease was kept alive in time.

        False at the latest when the lease's ttl is over, which is before anybody else has it. That
        somebody removed the key, or revoked the lease, shows up to a third of the ttl later:
        ``check`` and ``fencing`` are for what may not be done without it.
        """
        return not self._lost and self._lease.is_held

    async def _try(self, attempts: Attempts) -> bool:
        """Take it if it is free and nobody waits for it; returns whether that was so."""
        try:
            is_free = await self._is_free(attempts)
        except NoNamespace:
            if self._lease.is_held:
                raise
            await self._grant(attempts)  # a write makes the namespace, if anything may
            is_free = await self._is_free(attempts)
        if not is_free:
            return False
        if not self._lease.is_held:
            await self._grant(attempts)
        return await self._take(attempts) is None

    async def _is_free(self, attempts: Attempts) -> bool:
        return await self._entry(attempts) is None and await self._queue.is_empty(attempts)

    async def _grant(self, attempts: Attempts) -> None:
        """Have a lease of its own granted, and keep it alive."""

        async def ask(terms: LeaseTerms) -> None:
            await grant_at(self._calls, self.key, terms, attempts=attempts)

        self._unsettled = True
        await self._lease._grant(ask)
        self._tasks.start_soon(self._lease._renew)

    async def _take(self, attempts: Attempts) -> int | None:
        """Put the entry where there is none, and leave the queue; returns None, or the position
        from which on to wait for a change."""
        put = Step(self.key, Action.PUT, self._owner, ttl_ms=-self._lease.id, if_version=0)
        steps, ticket = [put], self._queue.ticket
        if ticket is not None:
            steps.append(Step(ticket, Action.DELETE))
        self._unsettled = True
        op_type = OpType.CAS if len(steps) == 1 else OpType.BATCH
        body = encode_steps(steps)
        answer = await self._calls.write(self.key, op_type, body, attempts=attempts)
        if not answer.done:
            return answer.position
        self.fencing = answer.position + 1
        self._queue.ticket = None
        return None

    async def _wait(self, *, is_own: bool) -> None:
        """Take its place in the queue, and return once it is held.

        Raises ``NoLease`` if a lease that others share has ended; one of its own is granted again.
        Whose entry is gone is behind all others then.
        """
        while True:
            try:
                if not self._lease.is_held and is_own:
                    await self._grant(self._calls.attempts())
                self._unsettled = True
                await self._queue.join(self._owner, self._lease.id)
                await self._wait_in_turn()
            except TicketGone:
                continue
            except NoLease:
                if not is_own:
                    raise
                self._lease._lose()
                with suppress(LanemqError):  # its ttl ends it as well, and its place in the queue
                    await revoke_at(self._calls, self.key, self._lease.id)
                continue
            return

    async def _wait_in_turn(self) -> None:
        await self._queue.until_first()
        while True:
            if not self._lease.is_held:  # the broker may have heard keep-alives without an answer
                raise NoLease(self._lease.id)
            taken_at = await self._take(self._calls.attempts())
            if taken_at is None:
                return
            await self._queue.until_free(taken_at)

    async def _entry(self, attempts: Attempts | None = None) -> Entry | None:
        header = KvGet(key=encode_key(self.key), namespace=self._calls.namespace)
        code = RequestCode.KV_GET
        return decode_entry(await self._calls.ask(self.key, code, header, attempts=attempts))

    async def _look(self) -> None:
        """Look whether its entry is there for as long as its lease is; ends when it is lost."""
        while self._lease.is_held:
            await trio.sleep(self._lease.ttl_s / RENEWALS)
            try:
                entry = await self._entry()
            except LanemqError:
                continue  # the lease says when that was too long
            if entry is None or entry.value != self._owner:
                self._lost = True
                return

    async def _give_up(self, *, is_own: bool) -> None:
        """Release it, and leave the queue, but do not try for long: its lease ends both as well.

        One that others share may last: so it is tried beside what follows for as long as that is
        held.
        """
        self._lost = True
        if is_own:
            await self._lease._give_up()
            return
        with trio.move_on_after(GIVE_UP_S, shield=True):
            if await self._release():
                return
        _later(self._later, self._release_later)

    async def _release(self) -> bool:
        """Remove what there is of it; returns False where it has to be tried again."""
        steps = [Step(self.key, Action.DELETE, if_value=self._owner)]
        try:
            await self._calls.write(self.key, OpType.CAS, encode_steps(steps))
            if self._queue.ticket is not None:
                steps = [Step(self._queue.ticket, Action.DELETE)]
                await self._calls.write(self.key, OpType.DELETE, encode_steps(steps))
        except ClientClosed:
            return True
        except (LanemqError, ProtocolError):
            return False
        return True

    async def _release_later(self) -> None:
        while self._lease.is_held:
            if await self._release():
                return
            await trio.sleep(AGAIN_S)


@asynccontextmanager
async def hold_lock(
    calls: KvCalls,
    nursery: trio.Nursery,
    key: bytes,
    *,
    ttl_s: float,
    wait_s: float | None,
    owner: bytes | None,
    lease: Lease | None,
) -> AsyncIterator[Lock]:
    """Hold a lock for the length of the block; see ``KeyLeases.lock``.

    ``lease`` is one that others share; without, it gets one of its own. What is left to be done
    after a failure is done in ``nursery``.
    """
    check_key(key)
    if len(key) > LOCK_BYTES_MAX:
        raise KvRejected(f"a lock's key of {len(key)} bytes, it has to have 1 to {LOCK_BYTES_MAX}")
    check_ttl(ttl_s)
    if wait_s is not None:
        check_seconds("wait_s", wait_s, zero=True, error=KvRejected)
    name = (owner or calls.namespace.encode()) + b"#" + secrets.token_hex(8).encode()
    is_own = lease is None
    if lease is not None and not lease.is_held:
        raise NoLease(lease.id)
    async with open_quiet_nursery() as tasks:
        held_by = Lease(calls, ttl_s, key) if lease is None else lease
        lock = Lock(calls, key, name, held_by, tasks=tasks, later=nursery)
        try:
            await _acquire(lock, math.inf if wait_s is None else wait_s, is_own=is_own)
        except ClientClosed:
            raise
        except BaseException:
            if lock._unsettled:  # nobody waits for that longer than for the lock
                _later(nursery, partial(lock._give_up, is_own=is_own))
            raise
        tasks.start_soon(lock._look)
        try:
            yield lock
        finally:
            tasks.cancel_scope.cancel()
            was_held = lock.is_held
            await lock._give_up(is_own=is_own)
    if not was_held:
        raise LockLost(key)


def _later(nursery: trio.Nursery, work: Callable[[], Awaitable[None]]) -> None:
    """Have work done beside the store's calls; a store that has closed does none any more, and the
    lease ends what is left."""
    with suppress(RuntimeError):  # trio's word for a nursery that has ended
        nursery.start_soon(work)


async def _acquire(lock: Lock, wait_s: float, *, is_own: bool) -> None:
    """Try until it is held. Raises ``LockNotAcquired``, or what kept all from an answer."""
    until_s = trio.current_time() + wait_s
    with trio.CancelScope() as limit:
        first = lock._calls.attempts_within(wait_s, limit)
        is_held = await lock._try(first)
        first.error = None  # there was an answer
        if not is_held and wait_s > 0:
            limit.deadline = until_s
            await lock._wait(is_own=is_own)
            is_held = True
        if is_held:
            return
    raise first.error or LockNotAcquired(lock.key, wait_s)
