"""The sequence numbers of writes; each partition remembers those of every writer."""

from typing import Final, final

import trio

OUTSTANDING_MAX: Final = 200
"""Writes under way at once, at most; a broker keeps the results of the latest 256."""


@final
class WriteWindow:
    """The writes of one client to one partition."""

    def __init__(self) -> None:
        self._next = 1
        self._outstanding: dict[int, None] = {}
        self._freed = trio.Event()

    @property
    def waits(self) -> int:
        """The lowest number whose answer is waited for."""
        return next(iter(self._outstanding))

    async def take(self) -> int:
        """Return the number of a write whose answer is waited for until ``give_back``."""
        while self._outstanding and self._next - self.waits >= OUTSTANDING_MAX:
            await self._freed.wait()
        sequence = self._next
        self._next += 1
        self._outstanding[sequence] = None
        return sequence

    def give_back(self, sequence: int) -> None:
        """Free the number of a write: its answer came, or is not waited for any more."""
        del self._outstanding[sequence]
        freed, self._freed = self._freed, trio.Event()
        freed.set()
