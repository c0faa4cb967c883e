"""Pauses: queues that are not to be pulled for the time being, by the application's wish."""

from collections.abc import Iterable
from typing import final

import trio

from lanemq.wire.bodies import MessageQueue


@final
class Pauses:
    """Pauses of single queues and of all. A queue stays paused where it goes and comes back."""

    def __init__(self) -> None:
        self._all = False
        self._queues: frozenset[MessageQueue] = frozenset()  # replaced: other threads read it
        self._changed = trio.Event()

    def pause(self, queues: Iterable[MessageQueue] | None) -> None:
        """Pause ``queues``, or everything."""
        if queues is None:
            self._all = True
        else:
            self._queues = self._queues.union(queues)

    def resume(self, queues: Iterable[MessageQueue] | None) -> None:
        """Lift the pauses of ``queues``, or every pause."""
        if queues is None:
            self._queues = frozenset()
            self._all = False
        else:
            self._queues = self._queues.difference(queues)
        self._changed.set()
        self._changed = trio.Event()

    def hold(self, queue: MessageQueue) -> bool:
        """Return whether ``queue`` is paused now."""
        return self._all or queue in self._queues

    async def wait(self, queue: MessageQueue) -> None:
        """Return when ``queue`` is not paused; at once, without a checkpoint, if it is not."""
        while self.hold(queue):
            await self._changed.wait()
