"""A mock clock that waits for threads and serves fixtures too, loaded by pytest.

Trio's mock clock jumps when every task waits, and a task that waits for a thread waits too: the
clock would jump over whatever the thread is working on, further on a busy machine than on an idle
one. Here it jumps only when no thread is at work for a task.

pytest-trio runs a test by the clock among the test's own arguments. Where only a fixture asks for
one, the test would run in real time with a mock clock beside it; here it runs by that clock.
"""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar, final

import pytest
import trio
from trio.abc import Clock, Instrument
from trio.testing import MockClock

if TYPE_CHECKING:
    from outcome import Outcome

P = ParamSpec("P")
R = TypeVar("R")

_POLL_SECONDS: Final = 0.0005
"""The pause of the clock before it looks again; a thread gets the interpreter meanwhile."""


@final
class _AtWork:
    """The number of threads at work for the tasks of a run.

    A run that was broken off may leave threads behind, which are no other run's.
    """

    def __init__(self) -> None:
        self.threads = 0


_at_work: Final[trio.lowlevel.RunVar[_AtWork]] = trio.lowlevel.RunVar("threads at work")


def _of_this_run() -> _AtWork:
    """Return the run's count: by the run, for clocks of Hypothesis' examples are all equal."""
    try:
        return _at_work.get()
    except LookupError:  # this is its first thread
        _at_work.set(found := _AtWork())
        return found


def _counted(run: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    @wraps(run)
    async def run_counted(*args: P.args, **options: P.kwargs) -> R:
        at_work = _of_this_run()
        at_work.threads += 1
        try:
            return await run(*args, **options)
        finally:
            at_work.threads -= 1

    return run_counted


_start = trio.lowlevel.start_thread_soon


def _start_counted(
    do: Callable[[], R], deliver: Callable[["Outcome[R]"], object], name: str | None = None
) -> None:
    """Count a thread until the run knows what became of it: then its task is awake."""
    if not trio.lowlevel.in_trio_run():
        _start(do, deliver, name)
        return
    at_work, token = _of_this_run(), trio.lowlevel.current_trio_token()
    at_work.threads += 1

    def over() -> None:
        at_work.threads -= 1

    def delivered(result: "Outcome[R]") -> None:
        deliver(result)
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(over)

    _start(do, delivered, name)


_CLOCKS: Final = ("autojump_clock", "mock_clock")
_autojump = MockClock._autojump


def _jump_between_threads(clock: MockClock) -> None:
    if _of_this_run().threads:
        time.sleep(_POLL_SECONDS)
    else:
        _autojump(clock)


trio.to_thread.run_sync = _counted(trio.to_thread.run_sync)  # type: ignore[assignment]
# (One type variable is not another for mypy; what is replaced is what it is.)
trio.lowlevel.start_thread_soon = _start_counted  # type: ignore[assignment]
MockClock._autojump = _jump_between_threads  # type: ignore[method-assign, assignment]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let a test run by the clock that one of its fixtures asks for."""
    if not isinstance(item, pytest.Function):
        return
    own = item._fixtureinfo.argnames
    if any(name in item.fixturenames and name not in own for name in _CLOCKS):
        item.add_marker(pytest.mark.trio(run=_run_by_the_clock_of(item)))


def _run_by_the_clock_of(item: pytest.Function) -> Callable[..., object]:
    def run(
        main: Callable[[], Awaitable[object]], *, clock: Clock | None, instruments: list[Instrument]
    ) -> object:
        found = (value for value in item.funcargs.values() if isinstance(value, Clock))
        return trio.run(main, clock=clock or next(found), instruments=instruments)

    return run


@final
class StandingClock:
    """A time of day in milliseconds, which only a test moves."""

    def __init__(self, ms: int = 1_700_000_000_000) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms
