"""Pauses: queues that are not to be pulled for the time being, by the application's wish."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import final

import trio

from lanemq.wire.bodies import MessageQueue


@final
@dataclass(frozen=True, slots=True)
class Paused:
    """The pauses at one moment."""

    is_all: bool = False
    queues: frozenset[MessageQueue] = frozenset()

    def holds(self, queue: MessageQueue) -> bool:
        """Return whether ``queue`` is paused."""
        return self.is_all or queue in self.queues


@final
class Pauses:
    """Pauses of single queues and of all. A queue stays paused where it goes and comes back."""

    def __init__(self) -> None:
        self.now = Paused()
        """Replaced whole by every change: other threads read it."""
        self._changed = trio.Event()

    def pause(self, queues: Iterable[MessageQueue] | None) -> None:
        """Pause ``queues``, or everything."""
        if queues is None:
            self.now = replace(self.now, is_all=True)
        else:
            self.now = replace(self.now, queues=self.now.queues.union(queues))

    def resume(self, queues: Iterable[MessageQueue] | None) -> None:
        """Lift the pauses of ``queues``, or every pause."""
        if queues is None:
            self.now = Paused()
        else:
            self.now = replace(self.now, queues=self.now.queues.difference(queues))
        self._changed.set()
        self._changed = trio.Event()

    def hold(self, queue: MessageQueue) -> bool:
        """Return whether ``queue`` is paused now."""
        return self.now.holds(queue)

    async def wait(self, queue: MessageQueue) -> None:
        """Return when ``queue`` is not paused; at once, without a checkpoint, if it is not."""
        while self.hold(queue):
            await self._changed.wait()
