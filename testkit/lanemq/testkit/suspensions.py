"""A machine that seems to have been suspended, for tests."""

import time
from collections.abc import Callable

import pytest

from lanemq.local import suspended_s


def suspending(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return what suspends the machine for some seconds, for as long as a test runs: only the clock
    that counts suspensions sees it."""
    real = time.clock_gettime
    ahead_s = real(time.CLOCK_BOOTTIME) - real(time.CLOCK_MONOTONIC)
    ahead_s += suspended_s()  # what tests before have suspended

    def clock_gettime(clock: int) -> float:
        if clock == time.CLOCK_BOOTTIME:
            return real(time.CLOCK_MONOTONIC) + ahead_s
        return real(clock)

    def suspend(seconds: float) -> None:
        nonlocal ahead_s
        ahead_s += seconds

    monkeypatch.setattr(time, "clock_gettime", clock_gettime)
    return suspend
