"""A counter with rates over a minute, an hour and a day.

Source: RocketMQ 4.9.8, StatsItem.
"""

from collections import deque
from typing import Final, NamedTuple, final

# Seconds between two samples of a window, and how many samples span it.
_MINUTE: Final = (10, 7)
_HOUR: Final = (600, 7)
_DAY: Final = (3600, 25)


SAMPLE_S: Final = _MINUTE[0]
"""Seconds between calls of ``Counter.sample``; more frequent calls do no harm."""


class Rate(NamedTuple):
    """The rate of one counter in one window."""

    sum: int
    """Sum within the window."""
    tps: float
    """Average per second."""
    average: float
    """Average per call: messages or bytes of one batch."""


class _Sample(NamedTuple):
    at_s: float
    calls: int
    messages: int
    size_bytes: int


@final
class Counter:
    """Calls, messages and bytes under one key, with samples for a minute, an hour and a day."""

    __slots__ = ("_windows", "calls", "messages", "size_bytes")

    def __init__(self, now_s: float) -> None:
        self.calls = self.messages = self.size_bytes = 0
        born = _Sample(now_s, 0, 0, 0)
        self._windows = tuple(
            (step_s, deque([born], maxlen=length)) for step_s, length in (_MINUTE, _HOUR, _DAY)
        )

    def sample(self, now_s: float) -> None:
        for step_s, samples in self._windows:
            if now_s - samples[-1].at_s >= step_s:
                samples.append(_Sample(now_s, self.calls, self.messages, self.size_bytes))

    def rates(self, now_s: float, *, of_bytes: bool) -> tuple[Rate, Rate, Rate]:
        """Return the minute, the hour and the day that end now, in messages or in bytes.

        The reference ends its windows at the last sample, so a count is up to ten seconds
        late in the minute and an hour late in the day; here it is there at once.
        """
        minute, hour, day = (
            self._rate(samples[0], now_s, of_bytes=of_bytes) for _, samples in self._windows
        )
        return minute, hour, day

    def _rate(self, first: _Sample, now_s: float, *, of_bytes: bool) -> Rate:
        calls = self.calls - first.calls
        if of_bytes:
            total = self.size_bytes - first.size_bytes
        else:
            total = self.messages - first.messages
        elapsed_s = now_s - first.at_s
        return Rate(
            total, total / elapsed_s if elapsed_s > 0 else 0.0, total / calls if calls else 0.0
        )
