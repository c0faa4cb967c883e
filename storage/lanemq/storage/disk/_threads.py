"""Calls in a thread that a writer waits for, with as little around them as possible."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

import trio

if TYPE_CHECKING:
    from outcome import Outcome

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")


async def in_thread(do: Callable[[*_Ts], _T], *given: *_Ts) -> _T:
    """Call ``do`` in a thread, and return or raise what it does; a cancellation waits for it.

    ``trio.to_thread`` lets all tasks have a turn before it starts, takes a place among the
    threads that are allowed, and names the thread, back and forth: a tenth of what a write of
    the only client costs. This starts at once.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    task, token = trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()

    def deliver(result: "Outcome[_T]") -> None:
        with suppress(trio.RunFinishedError):  # nobody is left who waits for it
            token.run_sync_soon(trio.lowlevel.reschedule, task, result)

    trio.lowlevel.start_thread_soon(lambda: do(*given), deliver)
    found: _T = await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
    return found
