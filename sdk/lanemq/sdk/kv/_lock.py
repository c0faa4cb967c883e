"""A lock: an entry with a ttl that its holder renews."""

import math
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, final

import trio

from lanemq.wire import ProtocolError, RequestCode
from lanemq.wire.headers import KvWatch
from lanemq.wire.kv import (
    Action,
    ChangeKind,
    Changes,
    OpType,
    Step,
    decode_answer,
    encode_key,
    encode_steps,
)

from .._errors import ClientClosed, LanemqError
from .._tasks import open_quiet_nursery
from .._values import check_seconds
from ._numbers import check_ttl, milliseconds
from .requests._attempts import Attempts
from .requests._calls import KvCalls
from .requests._errors import KvCompacted, KvRejected, LockLost, LockNotAcquired

RENEWALS: Final = 3
"""Renewals within a ttl, so that one may fail."""
LOOK_S: Final = 5.0
RETRY_S: Final = 0.2


@final
class Lock:
    """A lock that is held, as far as its holder can know. Made by ``lock`` and ``leader``."""

    def __init__(self, calls: KvCalls, key: bytes, ttl_s: float, owner: bytes) -> None:
        self.key: bytes = key
        """The key of the entry that is the lock."""
        self.fencing: int = 0
        """A number that goes with the lock: every later holder has a higher one.

        In a namespace of one partition, so has every later holder of any lock there. Whoever is
        asked on behalf of the lock can refuse a lower number than the highest seen.
        """
        self.check: Step = Step(key, Action.CHECK, if_value=owner)
        """A condition for a batch: its other steps are done only while the lock is held.

        In a namespace of several partitions, their keys have to be in that of the lock.
        """
        self._calls = calls
        self._ttl_s = ttl_s
        self._ttl_ms = milliseconds(ttl_s)
        self._owner = owner
        self._clock = trio.lowlevel.current_clock()
        self._until_s = 0.0
        self._lost = False
        self._unsettled = False  # an attempt to get it may have been done

    @property
    def is_held(self) -> bool:
        """True while it is held: it was renewed in time, and nobody removed it."""
        return not self._lost and self._clock.current_time() < self._until_s

    async def _acquire(self, wait_s: float) -> None:
        """Try until it is held. Raises ``LockNotAcquired``, or what kept all from an answer."""
        until_s = trio.current_time() + wait_s
        with trio.CancelScope() as limit:
            first = self._calls.attempts_within(wait_s, limit)
            position = await self._try(first)
            limit.deadline = until_s
            first.error = None  # there was an answer
            while position is not None:
                await _released(self._calls, self.key, position)
                position = await self._try(self._calls.attempts())
            return
        raise first.error or LockNotAcquired(self.key, wait_s)

    async def _try(self, attempts: Attempts) -> int | None:
        """Try once; returns None, or the position from which on to wait for a change."""
        asked_s = trio.current_time()
        step = self._step(if_version=0)
        try:
            answer = await self._calls.write(self.key, OpType.CAS, step, attempts=attempts)
        except BaseException:
            self._unsettled = attempts.asked
            raise
        if not answer.done:
            return answer.position
        self._until_s = asked_s + self._ttl_s
        self.fencing = answer.position
        return None

    async def _renew(self) -> None:
        """Renew it until it is lost; ends then."""
        pause_s = self._ttl_s / RENEWALS
        while True:
            await trio.sleep(pause_s)
            asked_s = trio.current_time()
            pause_s = self._ttl_s / RENEWALS
            try:
                with trio.move_on_at(self._until_s):
                    step = self._step(if_value=self._owner)
                    answer = await self._calls.write(self.key, OpType.CAS, step)
                    if not answer.done:
                        self._lost = True
                        return
                    self._until_s = asked_s + self._ttl_s
                    continue
            except LanemqError:
                pause_s = min(RETRY_S, pause_s)
            if trio.current_time() >= self._until_s:
                self._lost = True
                return

    async def _give_up(self) -> None:
        """Release it if it is held, but do not try for long: its ttl ends it as well."""
        self._lost = True
        step = Step(self.key, Action.DELETE, if_value=self._owner)
        with trio.move_on_after(2.0, shield=True):
            try:
                await self._calls.write(self.key, OpType.CAS, encode_steps([step]))
            except (LanemqError, ProtocolError):
                return

    def _step(self, *, if_version: int | None = None, if_value: bytes | None = None) -> bytes:
        step = Step(
            self.key,
            Action.PUT,
            self._owner,
            ttl_ms=self._ttl_ms,
            if_version=if_version,
            if_value=if_value,
        )
        return encode_steps([step])


@asynccontextmanager
async def hold_lock(
    calls: KvCalls,
    nursery: trio.Nursery,
    key: bytes,
    *,
    ttl_s: float,
    wait_s: float | None,
    owner: bytes | None,
) -> AsyncIterator[Lock]:
    """Hold a lock for the length of the block; see ``KeyValueStore.lock``.

    What is left to be done after a failure is done in ``nursery``.
    """
    check_ttl(ttl_s)
    if wait_s is not None:
        check_seconds("wait_s", wait_s, zero=True, error=KvRejected)
    name = (owner or calls.namespace.encode()) + b"#" + secrets.token_hex(8).encode()
    lock = Lock(calls, key, ttl_s, name)
    try:
        await lock._acquire(math.inf if wait_s is None else wait_s)
    except ClientClosed:
        raise
    except BaseException:
        if lock._unsettled:  # nobody waits for that longer than for the lock
            nursery.start_soon(lock._give_up)
        raise
    async with open_quiet_nursery() as renewals:
        renewals.start_soon(lock._renew)
        try:
            yield lock
        finally:
            renewals.cancel_scope.cancel()
            was_held = lock.is_held
            await lock._give_up()
    if not was_held:
        raise LockLost(key)


async def _released(calls: KvCalls, key: bytes, position: int) -> None:
    """Wait until a lock is removed or expires, or for some seconds."""
    with trio.move_on_after(LOOK_S):
        index = 0
        while True:
            header = KvWatch(
                position=position,
                index=index,
                prefix=encode_key(key),
                namespace=calls.namespace,
                wait_millis=int(LOOK_S * 1000),
            )
            try:
                body = await calls.ask(key, RequestCode.KV_WATCH, header, wait_s=LOOK_S)
            except KvCompacted:
                return
            found = decode_answer(body, Changes)
            position, index = found.next_position, found.next_index
            for change in found.changes:
                if change.key == key and change.kind != ChangeKind.PUT:
                    return
