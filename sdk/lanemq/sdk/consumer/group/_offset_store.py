"""Stores of a group's positions other than the brokers of its queues."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, final, runtime_checkable

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.message import StageRecord

from ..._errors import LanemqError, StoreFailed
from ...listeners._ordered_listeners import StageOffsetStore


class OffsetStore(StageOffsetStore, Protocol):
    """Keeps the next offset of each queue, and a record of stages for those who have any.

    All methods raise when they cannot: the client logs it, and asks again.
    """

    async def load_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset that was saved last, None before the first."""

    async def save_offset(self, queue: MessageQueue, offset: int) -> None:
        """Keep an offset; it lasts on return."""


@contextmanager
def _failures() -> Iterator[None]:
    """Raise ``StoreFailed`` for what a store raises that knows nothing of ``LanemqError``."""
    try:
        yield
    except LanemqError:
        raise
    except Exception as error:
        raise StoreFailed(f"the store of offsets failed: {error!r}") from error


@final
class StageStore:
    """A store of the application's own; whatever it raises is a ``LanemqError`` here."""

    def __init__(self, store: StageOffsetStore) -> None:
        self._store = store

    async def load(self, queue: MessageQueue, strategy: str = "") -> StageRecord | None:
        with _failures():
            return await self._store.load(queue, strategy)

    async def save(self, queue: MessageQueue, record: StageRecord, strategy: str = "") -> None:
        with _failures():
            await self._store.save(queue, record, strategy)


@runtime_checkable
class PeekedStore(OffsetStore, Protocol):
    """A store that replaces only what it has loaded, so that a look must be no load."""

    async def peek_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset that was saved last, None before the first."""


async def peek_offset(store: OffsetStore, queue: MessageQueue) -> int | None:
    """Return the offset that was saved last; what ``store`` replaces stays the same."""
    with _failures():
        if isinstance(store, PeekedStore):
            return await store.peek_offset(queue)
        return await store.load_offset(queue)


@final
class StoreCommits:
    """A store as the place of a group's ordinary offsets."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        with _failures():
            return await self._store.load_offset(queue)

    async def commit_offset(self, queue: MessageQueue, offset: int, *, wait: bool) -> None:
        """Save the offset and wait for it, also without ``wait``. Raises ``LanemqError``."""
        with _failures():
            await self._store.save_offset(queue, offset)

    def place(self, queue: MessageQueue) -> str:
        """Return the place of a queue's offset, which is always the same."""
        return ""
