"""The way back of the timers to a clock that was set back, a limited number of slots at a time."""

from typing import final

from ._layouts import NONE
from ._wheel import Wheel


@final
class StepBack:
    """Empties the delivered slots on the way, so that they can be used again."""

    def __init__(self, wheel: Wheel) -> None:
        self._wheel = wheel
        self._from_ms: int | None = None

    @property
    def is_under_way(self) -> bool:
        return self._from_ms is not None

    def end(self) -> None:
        self._from_ms = None

    def step(self, read_ms: int, target_ms: int, slots: int) -> int:
        """Empty up to ``slots`` slots from ``read_ms`` back to ``target_ms``; returns where the
        next step begins.

        All units of times before the first step's ``read_ms`` are delivered.
        """
        if self._from_ms is None:
            self._from_ms = read_ms
        wheel = self._wheel
        turn_ms = wheel.slots * wheel.precision_ms
        for _ in range(slots):
            if self._from_ms - read_ms >= turn_ms:
                return target_ms  # every slot has been looked at
            if read_ms <= target_ms:
                break
            read_ms -= wheel.precision_ms
            there = wheel.raw(read_ms)
            if there.last != NONE and 0 < there.time_ms < self._from_ms:
                wheel.empty(there.time_ms)
        return read_ms
