"""The end of a queue for linearizable reads: one request for all reads that wait for it."""

from typing import Final, final

import trio

from ._queue import LogQueue, NotYet

PAUSE_S: Final = 0.1
"""Seconds until the next request after one that failed."""


@final
class QueueEnds:
    """Asks for the end of one queue."""

    def __init__(self, queue: LogQueue) -> None:
        self._queue = queue
        self._turn = trio.Lock()
        self._asked = 0
        """Number of requests that were begun."""
        self._known: tuple[int, int] = (0, 0)
        """Number of the last request that was answered, and its answer."""

    async def next_end(self) -> int:
        """Return the end of the queue at a moment after the call began.

        It asks until there is an answer; the caller limits the time.
        """
        # A request that is under way may have been answered before this call began.
        needed = self._asked + 1
        while True:
            async with self._turn:
                if self._known[0] >= needed:
                    return self._known[1]
                self._asked += 1
                number = self._asked
                try:
                    end = await self._queue.end()
                except NotYet:
                    pass
                else:
                    self._known = number, end
                    return end
            await trio.sleep(PAUSE_S)
