"""The watch over the event loop: long turns, and the requests that caused them.

A turn is what one task does before it lets others run. What is timed are the requests of one
read, which costs two readings of the clock, and each turn of handlers and of tasks that wait in
between. (An instrument of trio would see all turns, and cost a tenth of each small request.)
"""

from collections.abc import Awaitable, Generator, Hashable, Iterable
from time import perf_counter
from typing import Any, Final, Generic, Protocol, TypeVar, final

import trio

from lanemq.local import get_logger
from lanemq.wire import HostAddress

from ._loop_turn import SHARE_S, LoopTurn

LOGGER = get_logger("lanemq.proxy.loop", by_peers=True)

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
        """Length of the longest of these in seconds."""
        self.peak_s = 0.0
        """Length of the longest turn in seconds, of all that are timed."""
        self.turn = LoopTurn()
        self.asking: str | None = None
        """The address of the peer whose request is handled now; None in all other work."""

    @property
    def has_time(self) -> bool:
        """True if the turn of the loop, with the task that runs, has time left."""
        return self.turn.spent_s + (perf_counter() - self.mark_s) < SHARE_S

    def until_s(self, seconds: float) -> float:
        """Return the time, by ``perf_counter``, until which the turn of the loop takes
        ``seconds``."""
        return self.mark_s + seconds - self.turn.spent_s

    def begin(self, owner: "Owner") -> float:
        """Begin the turn of a connection; returns the time."""
        self.mark_s = begun_s = perf_counter()
        self.asking = owner.peer.host
        return begun_s

    def slice_until_s(self) -> float:
        """Return the time until which the connection whose turn has begun handles requests."""
        return self.mark_s + self.turn.slice_s()

    def is_held_since(self, begun_s: float) -> bool:
        """End the turn that began then; returns whether it took longer than ``HELD_S``."""
        self.asking, self.mark_s = None, begun_s
        took_s = perf_counter() - begun_s
        self.turn.spend(took_s)
        if took_s > self.peak_s:
            self.peak_s = took_s
        return took_s > HELD_S

    async def ended(self, session: "Ending") -> None:
        """End a session in a turn of the loop that has time for it: the registries forget what
        the peer had, and many peers may end at once."""
        await self.turn.begin(session)
        begun_s = self.begin(session)
        session.ended()
        if self.is_held_since(begun_s):
            self.note(f"the end of {session.peer}")

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


class Owner(Hashable, Protocol):
    """The peer for which a task works: its connection."""

    @property
    def peer(self) -> HostAddress:
        """The address of the peer."""


class Ending(Owner, Protocol):
    """The session of a connection that has ended."""

    def ended(self) -> None:
        """Tell all who wait for the peer, and the registries."""


@final
class Timed(Generic[_T]):
    """Awaits ``inner`` and times each of its turns; ``who`` is for the log.

    With an ``owner`` each of them begins in a turn of the loop that has time for it.
    """

    __slots__ = ("_inner", "_owner", "_watch", "_who")

    def __init__(
        self,
        inner: Awaitable[_T],
        watch: LoopWatch,
        who: object,
        owner: Owner | None = None,
    ) -> None:
        self._inner = inner
        self._owner = owner
        self._watch = watch
        self._who = who

    def __await__(self) -> Generator[Any, Any, _T]:
        steps, watch, owner = self._inner.__await__(), self._watch, self._owner
        turn = watch.turn
        value: Any = None
        while True:
            if owner is not None and not turn.is_free:
                yield from turn.begin(owner).__await__()
            watch.mark_s = perf_counter()
            watch.asking = owner.peer.host if owner is not None else None
            try:
                yielded = steps.send(value) if value is not None else next(steps)
            except StopIteration as stop:
                result: _T = stop.value
                return result
            finally:
                watch.asking = None
                took_s = perf_counter() - watch.mark_s
                turn.spend(took_s)
                watch.peak_s = max(watch.peak_s, took_s)
                if took_s > HELD_S:
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


def asking_host() -> str | None:
    """Return the address of the peer whose request the running event loop handles now."""
    try:
        return _WATCH.get().asking
    except (LookupError, RuntimeError):  # there is none, or no event loop
        return None
