"""Topics without an order, until their queues have stayed the same for a while. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, final

SETTLING_MAX: Final = 10_000
"""Most topics that settle at the same time; others wait until these have an order."""
FORGOTTEN_S: Final = 120.0
"""Seconds after which a topic that nobody asks for leaves its place: clients ask every 30 s."""


class _Settling(NamedTuple):
    """A topic without an order."""

    told: Mapping[str, int]
    since_s: float
    """The time since which its queues are these."""
    asked_s: float


@final
class SettlingTopics:
    """The topics, the one first that was asked for the longest ago."""

    def __init__(self, settle_s: float, now_s: Callable[[], float]) -> None:
        self._settle_s = settle_s
        self._now_s = now_s
        self._topics: OrderedDict[str, _Settling] = OrderedDict()

    def forget(self, topic: str) -> None:
        """Forget a topic, which has an order."""
        self._topics.pop(topic, None)

    def has_settled(self, topic: str, told: Mapping[str, int]) -> bool:
        """Return whether the queues of a topic have been these for a while."""
        now_s, topics = self._now_s(), self._topics
        before = topics.pop(topic, None)
        if len(topics) >= SETTLING_MAX:
            oldest = next(iter(topics))
            if now_s - topics[oldest].asked_s < FORGOTTEN_S:
                return False
            del topics[oldest]
        since_s = before.since_s if before is not None and before.told == told else now_s
        topics[topic] = _Settling(told, since_s, now_s)
        return now_s - since_s >= self._settle_s
