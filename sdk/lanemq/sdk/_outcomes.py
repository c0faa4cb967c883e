"""Verdicts of listeners on their messages."""

from enum import Enum
from typing import Final, final

import msgspec


class Outcome(Enum):
    """A listener's verdict on its messages. Returning None means ``SUCCESS``."""

    SUCCESS = "success"
    RETRY = "retry"
    """Deliver them again later; raising an exception means the same."""
    SUSPEND_CURRENT_QUEUE = "suspend current queue"
    """Orderly and staged listeners: try again in place after a pause, and let later messages wait.
    There ``RETRY`` and an exception mean the same."""


def is_success(result: object) -> bool:
    """Return whether a listener's result settles its messages."""
    return result is None or result is Outcome.SUCCESS


DELAY_LEVEL_MAX: Final = 18


@final
class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """A listener's ``Outcome.RETRY`` with details.

    Raises ``ValueError`` for values that make no sense.

    Source: RocketMQ 4.9.8, ConsumeConcurrentlyContext (delayLevelWhenNextConsume, ackIndex),
    ConsumeOrderlyContext (suspendCurrentQueueTimeMillis).
    """

    settled: int = 0
    """Number of messages, counted from the first, that are done with all the same."""
    delay_level: int = 0
    """Delay of the next delivery to a ``ConcurrentListener``, as a level of the broker's table, 1
    to 18; 0 is as for ``Outcome.RETRY``, later each time."""
    suspend_s: float | None = None
    """Seconds until an orderly or staged listener is handed the messages again; None is the
    listener's own ``suspend_s``."""

    def __post_init__(self) -> None:
        if self.settled < 0:
            raise ValueError(f"Retry.settled must not be negative: {self.settled}")
        if not 0 <= self.delay_level <= DELAY_LEVEL_MAX:
            raise ValueError(
                f"Retry.delay_level must be from 0 to {DELAY_LEVEL_MAX}, not {self.delay_level}"
            )
        if self.suspend_s is not None and not 0 <= self.suspend_s < float("inf"):
            raise ValueError(f"Retry.suspend_s must be seconds from 0 on, not {self.suspend_s}")
