"""The topics with logical queues at a name server, with their views, and what an operator is told.

A view is made for a topic as a whole, and takes some 20 microseconds for each segment. So a topic
with many segments is changed and viewed beside the event loop, as a copy, which takes its place
afterwards. Whoever does that runs its steps one at a time.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final, final

from ...net._turns import Steps
from ..routes._table import RouteTable
from ._topic import LogicalTopic
from ._view import PLAIN, Facts, ShownTopic, Status

SEGMENTS_OF_A_STEP: Final = 256
"""Segments of a topic, about, up to which it is changed and viewed in one turn."""
NEWS_OF_A_TOPIC_MAX: Final = 20
"""Problems of one topic that become news at once."""


@final
class KnownTopics:
    """The topics by name."""

    def __init__(self, routes: RouteTable) -> None:
        self._routes = routes
        self._topics: dict[str, LogicalTopic] = {}
        self._views: dict[str, tuple[int, ShownTopic]] = {}
        self._coming: Collection[str] = ()
        self.problems: dict[str, tuple[str, ...]] = {}
        """Topic -> the reasons why the last report is not shown as it is."""
        self.news: list[str] = []
        """News for an operator, which the caller takes."""

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def get(self, name: str) -> LogicalTopic | None:
        """Return a topic; None without any logical queue."""
        return self._topics.get(name)

    def brokers_with_segments(self) -> set[str]:
        """Return the names of all brokers that have logical queues."""
        return set().union(*(topic.broker_names for topic in self._topics.values()))

    def is_wide(self, name: str) -> bool:
        """Return whether a topic has too many segments for one turn; a new one that is
        ``taking_over`` may have."""
        topic = self._topics.get(name)
        return name in self._coming if topic is None else topic.segments > SEGMENTS_OF_A_STEP

    def takes_turns(self, name: str, more: int) -> bool:
        """Return whether a change of a topic, to which so many segments come, needs more than one
        turn, or has to come behind another one."""
        return name in self._coming or more > SEGMENTS_OF_A_STEP or self.is_wide(name)

    @contextmanager
    def taking_over(self, names: Collection[str] | None) -> Iterator[None]:
        """Keep others from topics that a registration brings, while it is taken over in turns: what
        they say of these would be lost, and new ones would look plain to those who ask."""
        self._coming = names or ()
        try:
            yield
        finally:
            self._coming = ()

    def viewed(self, name: str, now_s: float) -> ShownTopic | None:
        """Return the view of a topic if it still holds."""
        topic = self._topics.get(name)
        if topic is None:
            return None if name in self._coming else PLAIN
        changes, view = self._views.get(name, (-1, PLAIN))
        is_of_now = view.status is not Status.NOT_YET or topic.is_waiting(now_s)
        return view if changes == self._routes.changes and is_of_now else None

    def view(self, name: str, now_s: float) -> ShownTopic:
        """Return the part of a topic's logical queues that may be shown."""
        view, topic = self.viewed(name, now_s), self._topics.get(name)
        if view is None and topic is not None:
            changes = self._routes.changes
            view = self._keep(name, topic, changes, topic.view(self._facts(name), now_s))
        return view or PLAIN

    def view_in_steps(self, name: str, now_s: float) -> Steps[ShownTopic]:
        """Do ``view``, beside the event loop if the topic is wide."""
        if self.viewed(name, now_s) is None and self.is_wide(name):
            yield from self.change_in_steps(name, _nothing, now_s)
            _, view = self._views.get(name, (-1, PLAIN))
            return view  # others may have registered meanwhile: it is as of the call
        return self.view(name, now_s)

    def change_in_steps(
        self, name: str, change: Callable[[LogicalTopic], None], now_s: float, *, more: int = 0
    ) -> Steps[None]:
        """Change a topic, which may be new or become empty, and keep its view while it is
        complete: it may be incomplete when a client asks. ``more`` is how many segments come."""
        topic = self._topics.get(name) or LogicalTopic(name)
        changes, facts = self._routes.changes, self._facts(name)
        if topic.segments + more > SEGMENTS_OF_A_STEP:
            topic = topic.copy()

            def changed() -> ShownTopic:
                change(topic)
                return topic.view(facts, now_s)

            view: ShownTopic = yield changed
        else:
            change(topic)
            view = topic.view(facts, now_s)
        self._keep(name, topic, changes, view)

    def _facts(self, name: str) -> Facts:
        return Facts(self._routes.queue_datas(name), self._routes.master_address)

    def _keep(self, name: str, topic: LogicalTopic, changes: int, view: ShownTopic) -> ShownTopic:
        self._note(name, view.problems if topic.has_segments else ())
        if topic.is_empty:
            self._topics.pop(name, None)
            self._views.pop(name, None)
        else:
            self._topics[name] = topic
            self._views[name] = changes, view
        return view

    def _note(self, name: str, problems: tuple[str, ...]) -> None:
        before = self.problems.get(name, ())
        if problems == before:
            return
        if problems:
            self.problems[name] = problems
            known = set(before)
            new = [problem for problem in problems if problem not in known]
            self.news += [f"topic {name}: {problem}" for problem in new[:NEWS_OF_A_TOPIC_MAX]]
            if len(new) > NEWS_OF_A_TOPIC_MAX:
                self.news.append(f"topic {name}: {len(new) - NEWS_OF_A_TOPIC_MAX} more of these")
        else:
            del self.problems[name]
            self.news.append(f"topic {name}: its logical queues are as they should be again")


def _nothing(_: LogicalTopic) -> None:
    """Change nothing."""
