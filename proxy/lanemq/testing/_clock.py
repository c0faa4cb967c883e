"""The time of day of a test's server."""

import time
from typing import final


@final
class MovableClock:
    """The real time of day, later by the time it was moved."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> int:
        """Return milliseconds since 1970."""
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def now_s(self) -> float:
        """Return seconds since 1970."""
        return self.now_ms() / 1000

    def advance(self, seconds: float) -> None:
        """Move the clock forward. Raises ``ValueError`` for a negative time: stores do not go
        back."""
        if not seconds >= 0:
            raise ValueError(f"the clock moves forward only, not by {seconds} s")
        self._ahead_ms += round(seconds * 1000)
