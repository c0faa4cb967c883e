"""The time of an upstream log, by which entries expire, as one proxy knows it.

Records tell the log's time (property ``kv_time``). A proxy that writes one adds the time that has
passed on its monotonic clock since the record that was furthest ahead. So neither the clock of a
broker that is set nor the clock of a proxy moves the log's time, and proxies agree on it: the one
that is furthest ahead counts, and all clocks that count time are equally fast.

What has passed before a proxy's start only the upstream broker's clock tells. A record without a
time does not move the log's time; the first one that a proxy writes is such a record, and the time
of its storing shows how long ago the last record with a time was stored.
"""

import math
from typing import Final, final

STEP_MS: Final = 200
"""Milliseconds by which a log may be behind the clock of its broker."""


@final
class LogTime:
    """The time of one log. Pure; ``now_s`` is a monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._base_ms = -math.inf
        """The log's time less the monotonic clock's."""
        self.is_known = False
        """True once the time that passed before the start is known."""
        self.told_ms = 0
        """The time that the latest record with a time tells."""
        self.told_stored_ms = 0
        """The time of that record's storing."""

    def told(self, time_ms: int, stored_ms: int, now_s: float) -> None:
        """Take the time of a record that was applied now."""
        self._base_ms = max(self._base_ms, time_ms - now_s * 1000)
        if time_ms >= self.told_ms:
            self.told_ms, self.told_stored_ms = time_ms, stored_ms

    def probed(self, stored_ms: int, now_s: float, *, may_leap: bool) -> None:
        """Take the time of the storing of our own record that tells none.

        ``may_leap``: no entry can expire, so a log that is behind may leap to its broker's clock.
        """
        time_ms = stored_ms
        if self.told_ms:
            time_ms = self.told_ms + max(0, stored_ms - self.told_stored_ms)
            if may_leap and stored_ms - time_ms > STEP_MS:
                time_ms = stored_ms
        self._base_ms = max(self._base_ms, time_ms - now_s * 1000)
        self.is_known = True

    def now_ms(self, now_s: float) -> int:
        """Return the log's time for a record that is written now."""
        assert self.is_known, "a probe comes first"
        return max(self.told_ms, round(self._base_ms + now_s * 1000))
