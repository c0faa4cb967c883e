"""The topics with logical queues at a name server, with their views, and what an operator is told.

A view is made for a topic as a whole, and takes some 20 microseconds for each segment. So a topic
with many segments is changed and viewed beside the event loop, as a copy, which takes its place
afterwards. Whoever does that runs its steps one at a time.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, final

from ...net._turns import LOOKS_OF_A_STEP, Steps
from ..routes._table import RouteTable
from ._room import Room
from ._topic import LogicalTopic
from ._view import PLAIN, Facts, ShownTopic, Status

SEGMENTS_OF_A_STEP: Final = 256
"""Segments of a topic, about, up to which it is changed and viewed in one turn."""
NEWS_OF_A_TOPIC_MAX: Final = 20
"""Problems of one topic that become news at once."""


@final
class _Seen:
    """The facts by which one view of a topic was made: it holds while they are the same."""

    __slots__ = ("_masters", "_name", "_routes", "queue_datas")

    def __init__(self, routes: RouteTable, name: str) -> None:
        self._routes = routes
        self._name = name
        self.queue_datas = routes.queue_datas(name)
        self._masters: dict[str, str | None] = {}

    def master_address(self, broker_name: str) -> str | None:
        """Return an address, the same for the whole view."""
        if broker_name not in self._masters:
            self._masters[broker_name] = self._routes.master_address(broker_name)
        return self._masters[broker_name]

    def are_so_still(self) -> bool:
        """Return whether a view made now would see the same."""
        routes = self._routes
        return routes.queue_datas(self._name) == self.queue_datas and all(
            routes.master_address(name) == address for name, address in self._masters.items()
        )


@dataclass(slots=True)
class _Kept:
    """A view, with the number of the table's changes after which it was made or looked at last."""

    view: ShownTopic
    seen: _Seen
    changes: int


@final
class KnownTopics:
    """The topics by name."""

    def __init__(self, routes: RouteTable) -> None:
        self._routes = routes
        self._topics: dict[str, LogicalTopic] = {}
        self.by_name: Mapping[str, LogicalTopic] = self._topics
        self._views: dict[str, _Kept] = {}
        self._coming: Collection[str] = ()
        self.room = Room()
        """The memory that they take."""
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

    def has_segments_of(self, broker_name: str) -> Steps[bool]:
        """Find out whether a broker has logical queues, of any topic."""
        for number, topic in enumerate(tuple(self._topics.values())):
            if number and number % LOOKS_OF_A_STEP == 0:
                yield None
            if broker_name in topic and broker_name in topic.broker_names:
                return True
        return False

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
        """Return the view of a topic if it still holds: whatever changes for other topics leaves
        it."""
        topic = self._topics.get(name)
        if topic is None:
            return None if name in self._coming else PLAIN
        kept = self._views.get(name)
        if kept is None or (kept.view.status is Status.NOT_YET and not topic.is_waiting(now_s)):
            return None
        changes = self._routes.changes
        if kept.changes != changes:
            if not kept.seen.are_so_still():
                return None
            kept.changes = changes
        return kept.view

    def view(self, name: str, now_s: float) -> ShownTopic:
        """Return the part of a topic's logical queues that may be shown."""
        view, topic = self.viewed(name, now_s), self._topics.get(name)
        if view is None and topic is not None:
            changes, seen = self._routes.changes, _Seen(self._routes, name)
            view = self._keep(name, topic, _Kept(topic.view(_facts(seen), now_s), seen, changes))
        return view or PLAIN

    def view_in_steps(self, name: str, now_s: float) -> Steps[ShownTopic]:
        """Do ``view``, beside the event loop if the topic is wide."""
        if self.viewed(name, now_s) is None and self.is_wide(name):
            yield from self.change_in_steps(name, _nothing, now_s)
            kept = self._views.get(name)
            return (
                PLAIN if kept is None else kept.view
            )  # others may have registered meanwhile: it is as of the call
        return self.view(name, now_s)

    def change_in_steps(
        self, name: str, change: Callable[[LogicalTopic], None], now_s: float, *, more: int = 0
    ) -> Steps[None]:
        """Change a topic, which may be new or become empty, and keep its view while it is
        complete: it may be incomplete when a client asks. ``more`` is how many segments come."""
        topic = self._topics.get(name) or LogicalTopic(name)
        changes, seen = self._routes.changes, _Seen(self._routes, name)
        facts = _facts(seen)
        if topic.segments + more > SEGMENTS_OF_A_STEP:
            topic = topic.copy()

            def changed() -> ShownTopic:
                change(topic)
                return topic.view(facts, now_s)

            view: ShownTopic = yield changed
        else:
            change(topic)
            view = topic.view(facts, now_s)
        self._keep(name, topic, _Kept(view, seen, changes))

    def _keep(self, name: str, topic: LogicalTopic, kept: _Kept) -> ShownTopic:
        view = kept.view
        self.room.keep(name, {} if topic.is_empty else dict(topic.held))
        self._note(name, view.problems if topic.has_segments else ())
        if topic.is_empty:
            self._topics.pop(name, None)
            self._views.pop(name, None)
        else:
            self._topics[name] = topic
            self._views[name] = kept
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


def _facts(seen: _Seen) -> Facts:
    return Facts(seen.queue_datas, seen.master_address)


def _nothing(_: LogicalTopic) -> None:
    """Change nothing."""
