"""The messages that wait to be indexed, and those who wait until they are fewer."""

from collections import deque
from collections.abc import Iterable
from typing import Final, final

import trio

from ._keys import keys_at_most

BACKLOG_MAX: Final = 40_000
"""Number of keys, as ``keys_at_most`` counts them, beyond which senders wait for the index."""
BACKLOG_FULL: Final = 10 * BACKLOG_MAX
"""Number of keys beyond which messages are refused: memory must not grow with the number of senders
that wait. Each key takes 64 bytes at most."""

Message = tuple[str, int, int, int, bytes]
"""Topic, log position, store time, sysFlag, properties."""


@final
class Backlog:
    """The messages that an index has to take, in the order of the log.

    Whoever adds to it while it ``is_behind`` awaits ``caught_up``.
    """

    def __init__(self) -> None:
        self.keys = 0
        """The number of keys that wait, by ``keys_at_most``."""
        self.many = trio.Event()
        """Set when messages wait that are enough to be indexed together."""
        self._messages: deque[Message] = deque()
        self._room = trio.Event()

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def is_behind(self) -> bool:
        """True if more than ``BACKLOG_MAX`` keys wait."""
        return self.keys > BACKLOG_MAX

    def add(self, messages: Iterable[Message]) -> int:
        """Let messages wait; returns how many keys they have."""
        before = self.keys
        for message in messages:
            self._messages.append(message)
            self.keys += keys_at_most(message[-1])
        return self.keys - before

    def taken(self, rest: int) -> list[Message]:
        """Take the oldest messages, until ``rest`` keys are left."""
        if rest <= 0:
            all_, self._messages, self.keys = list(self._messages), deque(), 0
            return all_
        taken = []
        while self.keys > rest:
            taken.append(message := self._messages.popleft())
            self.keys -= keys_at_most(message[-1])
        return taken

    async def caught_up(self) -> None:
        """Wait until the index is no longer behind, or cannot be written."""
        if self.is_behind:
            self.many.set()
            await self._room.wait()

    def make_room(self) -> None:
        """End the waits of ``caught_up``."""
        if self._room.statistics().tasks_waiting:
            room, self._room = self._room, trio.Event()
            room.set()
