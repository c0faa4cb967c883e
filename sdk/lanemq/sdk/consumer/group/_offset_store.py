"""Stores of a group's positions other than the brokers of its queues."""

from typing import Protocol, final

from lanemq.wire.bodies import MessageQueue

from ...listeners._ordered_listeners import StageOffsetStore


class OffsetStore(StageOffsetStore, Protocol):
    """Keeps the next offset of each queue, and a record of stages for those who have any.

    All methods raise ``LanemqError`` when they cannot.
    """

    async def load_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset that was saved last, None before the first."""

    async def save_offset(self, queue: MessageQueue, offset: int) -> None:
        """Keep an offset; it lasts on return."""


@final
class StoreCommits:
    """A store as the place of a group's ordinary offsets."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        return await self._store.load_offset(queue)

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None:
        """Save the offset and wait for it, also without ``wait``. Raises ``LanemqError``."""
        await self._store.save_offset(queue, offset)

    def place(self, queue: MessageQueue) -> str:
        """Return the place of a queue's offset, which is always the same."""
        return ""
