"""Operations on a logical queue that exclude each other: map, seal, grow, migrate."""

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import final

import trio

from lanemq.wire.logical import MIGRATION_IN_PROGRESS

from ....logical.rules._refusals import refusal


@final
class _Operation:
    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.done = trio.Event()


@final
class Operations:
    """The operations that run on one broker's logical queues, at most one on each."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, int], _Operation] = {}

    @asynccontextmanager
    async def hold(self, topic: str, index: int, name: Hashable) -> AsyncIterator[None]:
        """Hold a logical queue exclusively; wait for one held under the same name.

        Raises ``Refused`` (migration in progress) while another one has it.
        """
        while (running := self._running.get((topic, index))) is not None:
            if running.name != name:
                raise refusal(MIGRATION_IN_PROGRESS)
            await running.done.wait()
        operation = self._running[topic, index] = _Operation(name)
        try:
            yield
        finally:
            del self._running[topic, index]
            operation.done.set()

    def has(self, topic: str) -> bool:
        """Return whether any logical queue of a topic is held."""
        return any(held == topic for held, _ in self._running)
