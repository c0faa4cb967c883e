"""The time of day, and waiting for one.

A machine's clock is set forward and back while processes run. So nothing sleeps through the span
until a time of day: whoever waits for one looks at the clock again at least once a second. Spans
are measured by ``trio.current_time``, which is never set.
"""

import time
from collections.abc import Callable
from typing import Final

import trio

LOOK_S: Final = 1.0
"""Seconds after which a waiting task looks at the time of day again."""


def system_clock_ms() -> int:
    """Return the Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


async def wait_towards(due_ms: int | None, clock_ms: Callable[[], int], woken: trio.Event) -> None:
    """Wait until ``clock_ms`` shows ``due_ms``, or until ``woken``, but for ``LOOK_S`` at most.

    The caller then looks at its work again, by a clock that may have been set meanwhile. None is
    work that only ``woken`` announces. Times are milliseconds since 1970.
    """
    if due_ms is None:
        await woken.wait()
        return
    with trio.move_on_after(min(max(0, due_ms - clock_ms()) / 1000, LOOK_S)):
        await woken.wait()
