"""States whose rows cannot be read or written: closed at once, and made again while others serve.

A partition whose rows cannot be read is set aside: its rows are removed, and the owner of its log
makes the state again from there. If nothing can be written, RocksDB has met a damaged file or a
disk that failed: the database is closed, opened again, and read through, and the partitions that
cannot be read are set aside. What was not durable is made again from the logs, as after a crash.
"""

import math
from collections.abc import Callable
from typing import Final, final

import trio

from lanemq.local import get_logger

from .._errors import StoreError
from ._partition_states import PartitionStates
from .engines._rows import Meta

LOGGER: Final = get_logger(__name__)
PAUSE_S: Final = 5.0
"""Seconds between two times that the database is opened again."""
RETRY_S: Final = 1.0


@final
class Damage:
    """The damage of one store's states, and its repair; ``fix`` is called by a task."""

    def __init__(self, kept: PartitionStates, *, closed: Callable[[str], None]) -> None:
        """Call ``closed`` for each partition that is closed for a while."""
        self._kept = kept
        self._closed = closed
        self._partitions: dict[str, str] = {}
        self._database = ""
        self.awaited: set[str] = set()
        """Partitions that were set aside, and whose states have yet to be made again."""
        self._opened_s = -math.inf
        self.news = trio.Event()
        """Set when something is damaged."""
        self.on_set_aside: list[Callable[[str], bool]] = []
        """Callbacks for a partition whose rows are gone; True if the state is made again."""

    @property
    def is_there(self) -> bool:
        """True while something is damaged, and not set aside yet."""
        return bool(self._partitions or self._database)

    @property
    def is_awaited(self) -> bool:
        """True while records of the log may be needed for a state that is not there."""
        self.awaited -= self._kept.states.keys()
        return self.is_there or bool(self.awaited)

    def why_closed(self, name: str) -> str:
        """Return the reason why damage closes a partition now; empty where it does not."""
        if self._database:
            return "its database is damaged, and opened again"
        is_away = name in self.awaited and name not in self._kept.states
        is_closed = is_away or name in self._partitions
        return "its state is damaged, and made again" if is_closed else ""

    def note(self, name: str | None, error: OSError) -> None:
        """Close a partition whose rows cannot be read, or all of them if nothing can be written."""
        if name is None and not self._database:
            LOGGER.error("keys cannot be written; their database is opened again: %s", error)
            self._database = str(error)
        elif name is not None and name not in self._partitions and not self._database:
            LOGGER.error(
                "the state of namespace %s cannot be read, and is made again from its log: %s",
                name,
                error,
            )
            self._partitions[name] = str(error)
            self._closed(name)
        self.news.set()

    async def run(self, no_flush: trio.Lock) -> None:
        """Set aside what is damaged, until cancelled; while ``no_flush`` is held."""
        while True:
            await self.news.wait()
            self.news = trio.Event()
            while self.is_there:
                try:
                    async with no_flush:
                        await self.fix()
                except (OSError, StoreError) as error:
                    LOGGER.error("damaged keys cannot be set aside, next try soon: %s", error)
                    await trio.sleep(RETRY_S)

    async def fix(self) -> None:
        """Set aside what is damaged. Raises ``OSError``, ``StoreError``: then call it again."""
        if self._database:
            await trio.sleep(max(0.0, self._opened_s + PAUSE_S - trio.current_time()))
            self._opened_s = trio.current_time()
            for name in list(self._kept.states):
                self._closed(name)
            gone = await self._kept.open_again()
            self._database = ""
            for name, meta in gone.items():
                await self._make_again(name, meta)
        for name in list(self._partitions):
            meta = await self._kept.set_aside(name)
            del self._partitions[name]
            await self._make_again(name, meta)

    async def _make_again(self, name: str, meta: Meta) -> None:
        """Have the state made by whoever knows the whole log, else of the log that is here."""
        self.awaited.add(name)
        if not any(make(name) for make in self.on_set_aside):
            await self._kept.make(name, meta)
