"""Calls of clients of ``UpstreamKeys``, with their answers, to be judged as one store."""

import math
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, final

import trio

from lanemq.proxy.gateway.kv import KeysUnavailable, UpstreamKeys

from .linearizable import NOT_KNOWN, Operation, is_linearizable


@final
class KeysHistory:
    """The calls of all clients about some keys."""

    def __init__(self, names: Sequence[bytes]) -> None:
        self.of: dict[bytes, list[Operation]] = {name: [] for name in names}
        self.answered = 0
        self.longest_s = 0.0
        """The longest time between two answers since the last call of ``begin_pause``."""
        self._last_s = 0.0

    def begin_pause(self) -> None:
        """Measure pauses from now on."""
        self._last_s, self.longest_s = trio.current_time(), 0.0

    async def call(
        self,
        name: bytes,
        kind: str,
        ask: Callable[[], Awaitable[Any]],
        value: bytes = b"",
        version: int = 0,
    ) -> None:
        """Call, and keep what comes of it."""
        begin_s = trio.current_time()
        try:
            answer = await ask()
        except (KeysUnavailable, trio.Cancelled) as error:
            if kind != "get":
                lost = Operation(begin_s, math.inf, kind, NOT_KNOWN, value, version)
                self.of[name].append(lost)
            if isinstance(error, trio.Cancelled):
                raise
            return
        if kind == "get":
            answer = None if answer is None else (answer.version, answer.value)
        if kind == "cas":
            answer = answer is not None
        now_s = trio.current_time()
        self.of[name].append(Operation(begin_s, now_s, kind, answer, value, version))
        self.answered += 1
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s

    async def work(
        self,
        keys: UpstreamKeys,
        number: int,
        rng: random.Random,
        *,
        calls: float = math.inf,
        pause_mean_s: float = 0.5,
    ) -> None:
        """Call at random. ``number`` tells the values of clients apart."""
        count = 0
        while count < calls:
            count += 1
            name, value = rng.choice(list(self.of)), b"%d-%d" % (number, count)
            known = keys.get(name)
            version = rng.choice((0, known.version if known else 0))
            chosen = rng.random()
            if chosen < 0.4:
                await self.call(name, "get", partial(keys.read, name))
            elif chosen < 0.7:
                await self.call(name, "put", partial(keys.put, name, value), value)
            else:
                cas = partial(keys.put, name, value, expected=version)
                await self.call(name, "cas", cas, value, version)
            await trio.sleep(rng.expovariate(1 / pause_mean_s))

    @property
    def is_linearizable(self) -> bool:
        """True if the calls of each key have an explanation."""
        return all(map(is_linearizable, self.of.values()))
