"""The time that turns of a server's loop take, as the server measures it.

A server that has been busy for too long lets others have their turn, answers with what it has
until then, and logs a warning. On a busy machine any turn can take that long.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, final
from unittest.mock import patch

from lanemq.proxy.broker.handlers.pulls import _parked, _reads
from lanemq.proxy.gateway import _link
from lanemq.proxy.gateway.kv import _partition
from lanemq.proxy.net import _connection, _loop_watch, _page_turns
from lanemq.proxy.sessions.keys import _pages
from lanemq.storage.kv import _copy, _kv, _past, _ranges, _redo, _turn
from lanemq.storage.kv import _reads as _kv_reads

_KEYS: Final = (_copy, _kv, _kv_reads, _pages, _past, _ranges, _redo, _turn)
_MEASURING: Final = (
    _connection,
    _link,
    _loop_watch,
    _page_turns,
    _parked,
    _partition,
    _reads,
    *_KEYS,
)
"""The modules that measure how long a turn takes."""


@contextmanager
def turns_measured_by(clock: Callable[[], float]) -> Iterator[None]:
    """Make the servers of this process measure their turns by ``clock``, in seconds."""
    with ExitStack() as patches:
        for module in _MEASURING:
            patches.enter_context(patch.object(module, "perf_counter", clock))
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
