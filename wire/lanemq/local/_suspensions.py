"""The time for which this machine was suspended.

Linux' monotonic clock, and so trio's, stands still meanwhile; brokers count on, and give locks and
leases to others. Whoever relies on one of these adds this to the time.
"""

import time
from typing import Final, final

STEP_S: Final = 0.1
"""Seconds. Less is no suspension, but the time between two looks at clocks."""
LOOKS_MAX: Final = 5


def _ahead_s() -> float:
    """Return how far the clock that counts suspensions is ahead of the one that does not."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return 0.0  # other systems have no such clock, or none that stands still
    for _ in range(LOOKS_MAX):
        before_s = time.clock_gettime(time.CLOCK_MONOTONIC)
        ahead_s = time.clock_gettime(time.CLOCK_BOOTTIME) - before_s
        if time.clock_gettime(time.CLOCK_MONOTONIC) - before_s < STEP_S / 2:
            break  # else this thread had to wait in between, and the machine ran
    return ahead_s


@final
class Suspensions:
    """The suspensions since the process began; any thread may ask."""

    def __init__(self) -> None:
        self._first_s = self._last_s = _ahead_s()

    def total_s(self) -> float:
        """Return the seconds, which grow in steps: two looks without a suspension are equal."""
        ahead_s = _ahead_s()
        if ahead_s - self._last_s > STEP_S:
            self._last_s = ahead_s
        return self._last_s - self._first_s


_MACHINE: Final = Suspensions()
suspended_s: Final = _MACHINE.total_s
"""Returns the seconds for which the machine was suspended since the process began."""
