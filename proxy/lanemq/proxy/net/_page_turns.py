"""The share that pages, of keys or of a search, have in the turns of the loop.

A page reads for ``PAGE_S`` at most, and the pages of one turn for about ``SHARE_S`` together. A
page beyond that waits for a later turn; there the peers are served in rotation, one page each, so
that a peer with many requests delays its own. All of it is part of what peers together have of a
turn (``LoopTurn``).
"""

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Generator, Hashable
from time import perf_counter
from typing import Final, TypeVar, final

import trio
from attrs import define, field

from ._loop_watch import loop_watch

PAGE_S: Final = 0.01
"""Seconds that one page reads."""
SHARE_S: Final = 0.01
"""Seconds after which the pages of a turn leave the loop to everything else."""

_T = TypeVar("_T")


@final
@define(eq=False)
class _Waiting:
    """A page that waits; ``read`` keeps its result or error itself."""

    read: Callable[[], None]
    is_read: trio.Event = field(init=False, factory=trio.Event)


@final
class Turns:
    """The pages of one broker; ``run`` is the task that reads those which wait.

    A page is a function of the time, by ``perf_counter``, at which its read has to end.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[_Waiting]] = OrderedDict()
        self._spent_s = 0.0
        self._news = trio.Event()

    @property
    def is_free(self) -> bool:
        """True if a page may be read in this turn."""
        return not self._waiting and self._spent_s < SHARE_S and loop_watch().has_time

    def now(self, read: Callable[[float], _T]) -> _T:
        """Read a page in this turn."""
        began_s = perf_counter()
        try:
            return read(began_s + PAGE_S)
        finally:
            self._spent_s += perf_counter() - began_s
            if self._spent_s >= SHARE_S:
                self._news.set()

    async def later(self, session: Hashable, read: Callable[[float], _T]) -> _T:
        """Read a page in this turn if it is free, else in a later one."""
        if self.is_free:
            return self.now(read)
        found: list[_T] = []
        failed: list[Exception] = []

        def read_it() -> None:
            try:
                found.append(self.now(read))
            except Exception as error:  # belongs to the request that waits
                failed.append(error)

        waiting = _Waiting(read_it)
        mine = self._waiting.setdefault(session, deque())
        mine.append(waiting)
        self._news.set()
        try:
            await waiting.is_read.wait()
        finally:
            if not waiting.is_read.is_set():
                mine.remove(waiting)
                if not mine and self._waiting.get(session) is mine:
                    del self._waiting[session]
        if failed:
            raise failed[0]
        return found[0]

    def read(self, session: Hashable, read: Callable[[float], _T]) -> _T | Awaitable[_T]:
        """Return a page, or what to wait for where this turn is not free."""
        return self.now(read) if self.is_free else self.later(session, read)

    async def run(self) -> None:
        """Read the pages that wait, until cancelled."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            await trio.lowlevel.checkpoint()
            self._spent_s = 0.0
            while self._waiting:
                self._read_some()
                await trio.lowlevel.checkpoint()
                self._spent_s = 0.0

    def _read_some(self) -> None:
        watch = loop_watch()
        watch.mark_s = perf_counter()  # whether or not the task is timed
        while self._waiting and self._spent_s < SHARE_S and watch.has_time:
            session, mine = self._waiting.popitem(last=False)
            one = mine.popleft()
            if mine:
                self._waiting[session] = mine  # behind the others
            one.read()
            one.is_read.set()


async def in_turns(turns: Turns, session: Hashable, steps: Generator[None, None, _T]) -> _T:
    """Run all steps and return their result: as many in a turn as a page has time for."""

    def read(until_s: float) -> tuple[_T] | None:
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                return (stop.value,)
            if perf_counter() >= until_s:
                return None

    try:
        while (result := await turns.later(session, read)) is None:
            pass
    finally:
        steps.close()
    return result[0]
