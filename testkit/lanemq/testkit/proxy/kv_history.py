"""Requests of clients of keys, with their answers, to be judged by ``is_linearizable``."""

import math
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import final

import trio

from lanemq.sdk import LanemqError
from lanemq.sdk.kv import KeyValueStore, NoNamespace

from .linearizable import NOT_KNOWN, Operation, is_linearizable


@final
class History:
    """The requests of every client about some keys, with their answers."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.of: dict[bytes, list[Operation]] = {key: [] for key in keys}
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
        except NoNamespace:
            return
        except (LanemqError, trio.Cancelled) as error:
            if kind != "get":
                lost = Operation(begin_s, math.inf, kind, NOT_KNOWN, value, version)
                self.of[key].append(lost)
            if isinstance(error, trio.Cancelled):
                raise
            return
        done = Operation(begin_s, trio.current_time(), kind, answer, value, version)
        self.of[key].append(done)
        self.answered += 1

    @property
    def is_linearizable(self) -> bool:
        """True if each key's history has an explanation."""
        return all(map(is_linearizable, self.of.values()))


async def work(
    store: KeyValueStore, history: History, name: int, *, pause_mean_s: float = 0.0
) -> None:
    """Ask for keys at random, without an end. ``name`` tells the values of clients apart."""
    rng = random.Random(name)
    number = 0
    while True:
        if pause_mean_s:
            await trio.sleep(rng.expovariate(1 / pause_mean_s))
        number += 1
        key, value = rng.choice(list(history.of)), b"%d-%d" % (name, number)
        version = rng.randrange(4)

        async def get(key: bytes = key) -> object:
            entry = await store.get(key)
            return None if entry is None else (entry.version, entry.value)

        async def cas(key: bytes = key, value: bytes = value, version: int = version) -> object:
            return (await store.compare_and_set(key, value, version=version)).done

        chosen = rng.random()
        if chosen < 0.4:
            await history.note(key, "get", get)
        elif chosen < 0.6:
            await history.note(key, "put", partial(store.put, key, value), value=value)
        elif chosen < 0.75:
            await history.note(key, "delete", partial(store.delete, key))
        else:
            await history.note(key, "cas", cas, value=value, version=version)
