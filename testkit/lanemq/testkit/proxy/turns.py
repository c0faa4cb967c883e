"""The time that turns of a server's loop take, as the server measures it.

A server that has been busy for too long lets others have their turn, answers with what it has
until then, and logs a warning. On a busy machine any turn can take that long.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Final, final
from unittest.mock import patch

CLOCK: Final = "perf_counter"
"""The name under which modules of servers import the clock that they measure turns by."""


def measuring_modules() -> list[ModuleType]:
    """Return the loaded modules of servers and stores that measure how long something takes."""
    loaded = sorted(sys.modules.items())
    servers = ("lanemq.proxy.", "lanemq.storage.")
    return [module for name, module in loaded if name.startswith(servers) and CLOCK in vars(module)]


@contextmanager
def turns_measured_by(clock: Callable[[], float]) -> Iterator[None]:
    """Make the servers of this process measure their turns by ``clock``, in seconds."""
    with ExitStack() as patches:
        for module in measuring_modules():
            patches.enter_context(patch.object(module, CLOCK, clock))
        yield


@final
class Turns:
    """A clock for turns, which goes on only where a test says so."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now_s(self) -> float:
        """Return the seconds that turns have taken together."""
        return self._now_s

    def take(self, seconds: float) -> None:
        """Let the turn that runs now take ``seconds`` more."""
        self._now_s += seconds
