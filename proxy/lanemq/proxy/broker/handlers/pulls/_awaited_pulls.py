"""Parked pulls of callers in the process, which wait for the result themselves."""

from collections.abc import Callable, Generator
from typing import Any, final

import trio

from ....net._session import Session
from ....sessions.state._hold import Hold
from ....sessions.values._results import Pulled
from ._parked import Deliver, ParkedPulls


@final
class AwaitedPull:
    """A pull that is parked from now on, for the one task that waits for its result."""

    def __init__(self, parked_pulls: ParkedPulls, park: Callable[[Deliver], Hold[Session]]) -> None:
        self._result: Pulled | Exception | None = None
        self._is_there = trio.Event()
        self._parked_pulls = parked_pulls
        self._hold: Hold[Session] | None = park(self._deliver)

    def _deliver(self, result: Pulled | Exception) -> None:
        self._hold = None  # it refers to this: no circle is left for the collector
        self._result = result
        self._is_there.set()

    def __await__(self) -> Generator[Any, Any, Pulled]:
        return self._wait().__await__()

    def close(self) -> None:
        """Give the pull up."""
        if self._hold is not None:
            self._parked_pulls.forget(self._hold)
            self._hold = None

    async def _wait(self) -> Pulled:
        """Wait for the result. Raises ``Refused``."""
        await self._is_there.wait()
        assert self._result is not None
        if isinstance(self._result, Exception):
            raise self._result
        return self._result
