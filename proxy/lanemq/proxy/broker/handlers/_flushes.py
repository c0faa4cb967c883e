"""Waits of stored sends for the disk."""

from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.storage import FlushMode, Store

from .._results import Stored


@final
class Flushes:
    """The waits of one broker's senders."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.are_awaited: Final = store.config.flush is FlushMode.SYNC
        """True if a message counts as stored only when on the disk, unless its sender decides."""

    async def flushed(self, stored: Stored) -> Stored:
        """Return the result once the log is on the disk up to its end, or that took too long."""
        store = self._store
        with trio.move_on_after(store.config.sync_flush_timeout_s):
            await store.flushed(stored.end)
            return stored
        return replace(stored, is_late=True)
