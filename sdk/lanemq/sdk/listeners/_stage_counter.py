"""The number of the next message of a queue, as an application may see and reset it."""

from typing import final

from lanemq.wire.message import STAGE_OFFSET_MAX


@final
class StageCounter:
    """The number of a queue's messages that were handed out since the counter was last reset."""

    __slots__ = ("_value", "strategy")

    def __init__(self, value: int, strategy: str | None = None) -> None:
        self._value = value
        self.strategy = strategy
        """The strategy whose messages it counts; None for a listener that has no strategies."""

    @property
    def value(self) -> int:
        """The number that the next message will get; stops at ``STAGE_OFFSET_MAX``."""
        return self._value

    def compare_and_set(self, expected: int, new: int) -> bool:
        """Set it to ``new`` if it is ``expected``; say whether it was.

        The next message begins anew with number ``new``, once everything handed out before is
        finished. Raises ``ValueError`` for a number that cannot be counted.
        """
        if not 0 <= new <= STAGE_OFFSET_MAX:
            raise ValueError(f"a stage offset is from 0 to {STAGE_OFFSET_MAX}, not {new}")
        if self._value != expected:
            return False
        self._value = new
        return True

    def __repr__(self) -> str:
        return f"StageCounter({self._value})"
