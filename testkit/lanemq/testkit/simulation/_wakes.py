"""Deadlines of a run at which a task is woken, without a cancel scope for each.

A scope that is entered, expires and is left costs five times as much, and most of what happens in a
run are bytes that arrive and tasks that have slept.
"""

import math
from collections.abc import Callable
from typing import Any, Final, final

import trio

_CORE: Final[Any] = trio._core._run


@final
class Wake:
    """A call of ``wake`` at a deadline, among those that trio's loop keeps for its scopes."""

    __slots__ = ("__weakref__", "_registered_deadline", "_wake")

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._registered_deadline = math.inf

    def at(self, deadline_s: float) -> None:
        """Have it called then, and not at an earlier set deadline; ``inf`` is never."""
        if deadline_s == self._registered_deadline:
            return
        deadlines = _CORE.GLOBAL_RUN_CONTEXT.runner.deadlines
        if self._registered_deadline != math.inf:
            deadlines.remove(self._registered_deadline, self)
        self._registered_deadline = deadline_s
        if deadline_s != math.inf:
            deadlines.add(deadline_s, self)

    def _cancel(self, reason: object) -> None:
        """Called by the loop at the deadline, as a scope is."""
        self.at(math.inf)
        self._wake()


async def sleep_until(deadline_s: float) -> None:
    """Sleep as ``trio.sleep_until`` does."""
    task = trio.lowlevel.current_task()
    wake = Wake(lambda: trio.lowlevel.reschedule(task))

    def abort(_: object) -> trio.lowlevel.Abort:
        wake.at(math.inf)
        return trio.lowlevel.Abort.SUCCEEDED

    wake.at(deadline_s)
    await trio.lowlevel.wait_task_rescheduled(abort)


async def sleep(seconds: float) -> None:
    """Sleep as ``trio.sleep`` does."""
    if not seconds >= 0:
        raise ValueError("`seconds` must be non-negative")
    if seconds == 0:
        await trio.lowlevel.checkpoint()
    else:
        await sleep_until(trio.current_time() + seconds)
