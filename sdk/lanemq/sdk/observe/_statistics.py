"""Statistics of a consumer, as an application gets them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import final

from lanemq.wire.bodies import MessageQueue


@final
@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """The distance of a consumer from the end of one queue."""

    queue: MessageQueue
    position: int
    """The offset of the first message that is not finished; of a lite pull consumer, not returned.
    """
    lag: int | None
    """Messages from the position to the end of the queue. None if its broker did not say where
    that is."""
    oldest_age_s: float | None
    """Seconds since the broker stored the first message that is not finished; 0 if there is none.
    None if there are some and none of them was pulled yet, and if nobody knows."""


@final
@dataclass(frozen=True, slots=True)
class TopicStatistics:
    """Rates of one topic over the last minute."""

    topic: str
    pulled_per_s: float
    """Messages that came from brokers."""
    pull_ms: float
    """Mean time of a pull that found messages."""
    consumed_per_s: float
    """Messages whose listener succeeded; a lite pull consumer has none."""
    failed_per_s: float
    """Messages whose listener failed."""
    consume_ms: float
    """Mean time of a listener, for each message."""
    failed_total: int
    """Messages whose listener failed, since the consumer was opened."""


@final
@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """The state of a consumer at one moment."""

    group: str
    queues: tuple[QueueStatistics, ...]
    """The queues that it reads, sorted."""
    topics: tuple[TopicStatistics, ...]
    """The topics that it has read, sorted."""


StatisticsListener = Callable[[ConsumerStatistics], Awaitable[None] | None]
"""An application's function, plain or async, that is given statistics."""
