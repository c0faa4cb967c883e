"""The watch over the event loop: long turns, and the requests that caused them.

A turn is what one task does before it lets others run. What is timed are the requests of one
read, which costs two readings of the clock, and each turn of handlers and of tasks that wait in
between. (An instrument of trio would see all turns, and cost a tenth of each small request.)
"""

import logging
from collections.abc import Awaitable, Generator, Iterable
from time import perf_counter
from typing import Any, Final, Generic, TypeVar, final

import trio

LOGGER = logging.getLogger("lanemq.proxy.loop")

HELD_S: Final = 0.1
"""Seconds beyond which a turn is logged and counted."""

SHOWN_CODES: Final = 5

_T = TypeVar("_T")


@final
class LoopWatch:
    """A timer of the turns of one event loop, whatever servers run in it."""

    def __init__(self) -> None:
        self.mark_s = perf_counter()
        """The begin of the turn that runs now, as far as it is timed."""
        self.held = 0
        """Number of turns longer than ``HELD_S``."""
        self.longest_s = 0.0
        """Length of the longest turn in seconds."""

    def requests_held(self, peer: object, codes: Iterable[int]) -> None:
        """Log that the requests of one read, of these ``codes``, have taken longer than
        ``HELD_S``."""
        shown = list(dict.fromkeys(codes))
        names = ", ".join(map(str, shown[:SHOWN_CODES]))
        more = " and others" if len(shown) > SHOWN_CODES else ""
        self.note(f"request {names}{more} of {peer}")

    def note(self, who: str) -> None:
        """Log and count the turn that began at ``mark_s``."""
        turn_s = perf_counter() - self.mark_s
        self.held += 1
        self.longest_s = max(self.longest_s, turn_s)
        LOGGER.warning("%s kept everybody waiting for %.0f ms", who, turn_s * 1000)


@final
class Timed(Generic[_T]):
    """Awaits ``inner`` and times each of its turns; ``who`` is for the log."""

    __slots__ = ("_inner", "_watch", "_who")

    def __init__(self, inner: Awaitable[_T], watch: LoopWatch, who: object) -> None:
        self._inner = inner
        self._watch = watch
        self._who = who

    def __await__(self) -> Generator[Any, Any, _T]:
        steps, watch = self._inner.__await__(), self._watch
        value: Any = None
        while True:
            watch.mark_s = perf_counter()
            try:
                yielded = steps.send(value) if value is not None else next(steps)
            except StopIteration as stop:
                result: _T = stop.value
                return result
            finally:
                if perf_counter() - watch.mark_s > HELD_S:
                    watch.note(str(self._who))
            try:
                value = yield yielded
            except BaseException:
                close = getattr(steps, "close", None)
                if close is not None:
                    close()
                raise


_WATCH: Final = trio.lowlevel.RunVar[LoopWatch]("lanemq.proxy.loop_watch")


def loop_watch() -> LoopWatch:
    """Return the watch of the running event loop."""
    try:
        return _WATCH.get()
    except LookupError:
        watch = LoopWatch()
        _WATCH.set(watch)
        return watch
