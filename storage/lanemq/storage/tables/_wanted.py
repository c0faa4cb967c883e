"""The writes of one table that somebody waits for.

One write is for all changes that were wanted before it began, and those that are wanted meanwhile
wait for the next one. The loop serves others while a thread writes.
"""

from typing import final

import trio

from ._table import Table


@final
class WantedWrites:
    """The changes of a table that are wanted and not written yet."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._names: dict[str, int] = {}
        """Names of changed entries -> the number of the last wish for them."""
        self._wished = self._tried = self._writes = 0
        """Numbers of the last wish, of the last one that a write was for, and of the writes."""
        self._error: OSError | None = None
        """The failure of the last write."""
        self._one_at_a_time = trio.Lock()

    def add(self, name: str) -> None:
        """Want the changes of an entry, and all before it, to be written."""
        self._wished += 1
        self._names[name] = self._wished

    def __contains__(self, name: str) -> bool:
        return name in self._names

    async def write(self) -> None:
        """Return when all that is wanted by now is written. Raises ``OSError``: what was to be
        written by then stays wanted, and the changes are kept."""
        wished, writes = self._wished, self._writes
        async with self._one_at_a_time:
            if self._tried < wished or self._writes == writes:  # no other write was for this one
                await self._try()
            if self._error is not None:
                raise OSError(*self._error.args) from self._error

    async def _try(self) -> None:
        number, error = self._wished, None
        if self._names and self._table.backend.at_once:
            try:
                await self._table.persist_in_turns()
            except OSError as failure:
                error = failure
        self._tried, self._error = number, error
        self._writes += 1
        if error is None:
            self._names = {name: wish for name, wish in self._names.items() if wish > number}
