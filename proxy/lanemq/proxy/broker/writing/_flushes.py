"""Waits of senders for the disk, under SYNC_FLUSH."""

from collections.abc import Awaitable
from typing import Final, TypeVar, final

import trio
from msgspec.structs import replace

from lanemq.storage import FlushMode, Store

from ...sessions.values._results import Stored

AnswerT = TypeVar("AnswerT")


@final
class Flushes:
    """The waits of one broker's senders."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.are_awaited: Final = store.config.flush is FlushMode.SYNC
        """True if a message counts as stored only when on the disk, unless its sender decides."""

    async def reached(self, end: int) -> bool:
        """Wait until the log is on the disk up to ``end``; return False if that took too long."""
        store = self._store
        with trio.move_on_after(store.config.sync_flush_timeout_s):
            await store.flushed(end)
            return True
        return False

    async def flushed(self, stored: Stored) -> Stored:
        """Return the result once the log is on the disk up to its end, or that took too long."""
        return stored if await self.reached(stored.end) else replace(stored, is_late=True)

    def answered(self, answer: AnswerT, end: int) -> AnswerT | Awaitable[AnswerT]:
        """Return the answer to a request that stored records up to ``end``.

        It waits where messages count as stored only when on the disk, but not for ever: such an
        answer has no code that says it was too late.
        """
        return self._once_reached(answer, end) if self.are_awaited else answer

    async def _once_reached(self, answer: AnswerT, end: int) -> AnswerT:
        await self.reached(end)
        return answer
