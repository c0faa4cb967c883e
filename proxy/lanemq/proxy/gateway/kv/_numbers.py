"""The numbers of the writes of one proxy to one partition."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, final

import trio

OUTSTANDING_MAX: Final = 200
"""Writes under way at once: a state keeps the results of the latest 256 of a writer."""


@final
class Numbers:
    """The writes under way."""

    def __init__(self) -> None:
        self._next = 1
        self._outstanding: dict[int, None] = {}
        self._freed = trio.Event()

    @property
    def waits(self) -> int:
        """The lowest number whose result is waited for."""
        return next(iter(self._outstanding), self._next)

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[int]:
        """Yield the number of a write, whose result is waited for within the block."""
        while self._next - self.waits >= OUTSTANDING_MAX:
            await self._freed.wait()
        number = self._next
        self._next += 1
        self._outstanding[number] = None
        try:
            yield number
        finally:
            del self._outstanding[number]
            freed, self._freed = self._freed, trio.Event()
            freed.set()
