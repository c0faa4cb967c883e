"""The topics of a listener that were asked for, with and without logical queues."""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from lanemq.wire.logical import RecentRedirects

from ._views import TopicView

TOPICS_MAX: Final = 100_000
"""Most topics with logical queues that are remembered; beyond it the oldest is forgotten."""
UNKNOWN_MAX: Final = 10_000
"""Most others that are remembered: peers may name any, which takes no place of a topic that is."""


@final
@dataclass(slots=True)
class Known:
    """The state of one topic."""

    view: TopicView | None
    asked_s: float
    had_use: bool
    """True if the last question brought anything new, or redirects have since."""
    is_told: bool
    """True if a name server told the view, but for the queues in ``redirected``."""
    redirected: set[int]
    """Logical queues that redirects have changed in the view."""
    redirects: RecentRedirects
    brokers: int
    """The view's, or those of the last one where name servers do not know the topic now."""
    is_answered: bool
    """True if a name server answered the last question."""


@final
class KnownTopics:
    """The topics by name, and bounds on how many are kept."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()
        self.get: Callable[[str], Known | None] = self._known.get
        """Returns the state of a topic; None for one that was not asked for, or is forgotten."""
        self._others = deque[str]()
        """Topics in the order in which they were found to have no logical queues."""

    def __contains__(self, topic: str) -> bool:
        return topic in self._known

    def __getitem__(self, topic: str) -> Known:
        return self._known[topic]

    def __len__(self) -> int:
        return len(self._known)

    def put(self, topic: str, known: Known) -> None:
        """Remember a topic."""
        before = self._known.get(topic)
        self._known[topic] = known
        if known.view is None and (before is None or before.view is not None):
            self._others.append(topic)
        while len(self._others) > UNKNOWN_MAX:
            other = self._others.popleft()
            if other in self._known and self._known[other].view is None:
                del self._known[other]
        if len(self._known) > TOPICS_MAX + UNKNOWN_MAX:
            self._known.popitem(last=False)
