"""Supervision of background tasks: one that fails is begun again, and stops nothing else."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, final

import trio

from lanemq.local import get_logger

LOGGER = get_logger(__name__)

PAUSE_S: Final = 1.0
"""Seconds between a failure and the next turn."""


@final
class Supervisor:
    """The supervisor of one server's tasks, which begins failed ones again.

    Errors that a task expects it handles itself. What gets here is a bug, of ours or of a
    library: it is logged with all that is known, counted, and the task goes on a second later.
    Other tasks, and the process, hear nothing of it.
    """

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        """Number of failures of each task."""

    async def run(self, name: str, task: Callable[[], Awaitable[None]]) -> None:
        """Run ``task`` until it returns or is cancelled."""
        while True:
            try:
                await task()
            except Exception:  # costs the task its turn; logged and counted
                self.failed(name)
                await trio.sleep(PAUSE_S)
            else:
                return

    async def turn(self, name: str, action: Callable[[], Awaitable[None]]) -> None:
        """Run one of a task's several steps; the others follow even if it fails."""
        try:
            await action()
        except OSError:
            raise  # of the disk: it concerns them all
        except Exception:  # as above
            self.failed(name)

    def failed(self, name: str) -> None:
        """Log and count the exception that is being handled."""
        self.failures[name] += 1
        LOGGER.exception("%s failed, and goes on (failure %d)", name, self.failures[name])
