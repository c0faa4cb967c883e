"""Requests of clients of keys, with their answers, to be judged by ``is_linearizable``."""

import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, final

import trio

from lanemq.sdk import LanemqError
from lanemq.sdk.kv import Compare, KeyValueStore, NoNamespace, Operation, open_kv_store
from lanemq.wire.kv import LEASE_MAX

from .linearizable import NOT_KNOWN, is_linearizable, otherwise
from .linearizable import Operation as Call

AGAIN_S: Final = 0.2
"""Seconds until a client asks again that met no namespace."""
LEASE_S: Final = 86_400.0
"""Seconds that a lease lasts: more than any history, so it ends by its revocation alone."""


@final
class History:
    """The requests of every client about some keys, with their answers."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.of: dict[bytes, list[Call]] = {key: [] for key in keys}
        self.answered = 0

    async def note(
        self,
        key: bytes,
        kind: str,
        ask: Callable[[], Awaitable[object]],
        *,
        value: bytes = b"",
        version: int = 0,
    ) -> None:
        """Ask, and keep what comes of it."""
        begin_s = trio.current_time()
        try:
            answer = await ask()
        except (LanemqError, trio.Cancelled) as error:
            if kind != "get":  # without a namespace too: an earlier attempt may have been done
                lost = Call(begin_s, math.inf, kind, NOT_KNOWN, value, version)
                self.of[key].append(lost)
            if isinstance(error, trio.Cancelled):
                raise
            if isinstance(error, NoNamespace):
                await trio.sleep(AGAIN_S)
            return
        done = Call(begin_s, trio.current_time(), kind, answer, value, version)
        self.of[key].append(done)
        self.answered += 1

    async def drop(self, ask: Callable[[], Awaitable[object]]) -> None:
        """Ask for the deletion of the namespace, and keep it for each key."""
        begin_s, end_s = trio.current_time(), math.inf
        try:
            await ask()
            end_s = trio.current_time()
        finally:
            answer = NOT_KNOWN if end_s == math.inf else None
            for calls in self.of.values():
                calls.append(Call(begin_s, end_s, "drop", answer))

    @property
    def is_linearizable(self) -> bool:
        """True if each key's history has an explanation."""
        return all(map(is_linearizable, self.of.values()))


@asynccontextmanager
async def clients(
    name_server: str,
    history: History,
    count: int = 4,
    *,
    broker: str | None = None,
    namespace: str = "default",
) -> AsyncIterator[None]:
    """Let so many clients work for the length of the block."""
    async with trio.open_nursery() as nursery:

        async def run(name: int) -> None:
            async with open_kv_store(
                name_servers=name_server, broker=broker, namespace=namespace, timeout_s=60.0
            ) as store:
                await work(store, history, name)

        for name in range(count):
            nursery.start_soon(run, name)
        yield
        nursery.cancel_scope.cancel()


async def answered(history: History, count: int) -> None:
    """Wait until so many calls have been answered."""
    while history.answered < count:  # noqa: ASYNC110 - the clients have nobody to tell
        await trio.sleep(0.005)


async def work(
    store: KeyValueStore, history: History, name: int, *, pause_mean_s: float = 0.0
) -> None:
    """Ask for keys at random, without an end. ``name`` tells the values of clients apart."""
    rng = random.Random(name)
    number, seen = 0, dict.fromkeys(history.of, 0)
    while True:
        if pause_mean_s:
            await trio.sleep(rng.expovariate(1 / pause_mean_s))
        number += 1
        key, value = rng.choice(list(history.of)), b"%d-%d" % (name, number)
        version = rng.choice((0, seen[key], seen[key], seen[key] + 1))

        async def get(key: bytes = key) -> object:
            entry = await store.get(key)
            seen[key] = 0 if entry is None else entry.version
            return None if entry is None else (entry.version, entry.value)

        async def cas(key: bytes = key, value: bytes = value, version: int = version) -> object:
            return (await store.compare_and_set(key, value, version=version)).done

        async def txn(key: bytes = key, value: bytes = value, version: int = version) -> object:
            result = await store.txn(
                [Compare.version(key, "=", version)],
                then=[Operation.put(key, value)],
                otherwise=[Operation.get(key), Operation.put(key, otherwise(value))],
            )
            if result.succeeded:
                return result.results[0].version
            entry = result.results[0].entry
            read = None if entry is None else (entry.version, entry.value)
            return read, result.results[1].version

        chosen = rng.random()
        if chosen < 0.4:
            await history.note(key, "get", get)
        elif chosen < 0.5:
            await history.note(key, "put", partial(store.put, key, value), value=value)
        elif chosen < 0.6:
            await _lease(store, history, key, value, rng.randrange(1, LEASE_MAX))
        elif chosen < 0.75:
            await history.note(key, "delete", partial(store.delete, key))
        elif chosen < 0.88:
            await history.note(key, "cas", cas, value=value, version=version)
        else:
            await history.note(key, "txn", txn, value=value, version=version)


async def _lease(
    store: KeyValueStore, history: History, key: bytes, value: bytes, lease: int
) -> None:
    """Put a value under a lease of its own, and end that."""
    try:
        await store.grant_lease(LEASE_S, lease=lease)
    except LanemqError:
        return  # it has no key, and ends by its time
    await history.note(key, "put", partial(store.put, key, value, lease=lease), value=value)
    await history.note(key, "revoke", partial(store.revoke_lease, lease), value=value)
