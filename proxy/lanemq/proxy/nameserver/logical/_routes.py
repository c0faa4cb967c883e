"""Logical queues at a name server: their registrations, and routes for each kind of client.

Pure: it reads no clock; times come in as ``now_s``. The ``RouteTable`` has the physical queues.
Source: RocketMQ 5.0.0-PREVIEW, RouteInfoManager, DefaultRequestProcessor.
"""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, final

from lanemq.wire.bodies import MASTER_ID, DataVersion, RouteData
from lanemq.wire.logical import ClientView, LogicalQueueReport, LogicalQueues, serves_java

from ..routes._registration import is_changed
from ..routes._table import RouteTable
from ._listeners import ListenerAddress, Listeners
from ._route_maker import RouteMaker
from ._topic import LogicalTopic
from ._view import PLAIN, Facts, Status, TopicView

KEPT_MAX_BYTES: Final = 64 << 20
"""The most that all brokers' logical queues take; those of further brokers are left out.

They outlive their broker's connection, so no peer's account limits them."""


@final
class Asker(Enum):
    """The kind of client that asks for a route."""

    OLD = "old"
    """A client that knows nothing of logical queues."""
    FLAGGED = "flagged"
    """A client that asks for them."""
    FLAGGED_JAVA = "flagged Java"
    """A Java client that asks for them; ``serveLogicalQueueToJava`` decides whether it gets
    them."""


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LogicalRegistration:
    """The part of a registration about logical queues."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    data_version: DataVersion
    topics: Collection[str] = ()
    """The names of the broker's topics."""
    queues: Mapping[str, LogicalQueues] | None = None
    """The broker's logical queues; None if it knows nothing of them."""
    report: LogicalQueueReport | None = None
    """The report of lanemq's brokers; None from others."""
    size_bytes: int = 0
    """The size of the logical queues in memory, about."""
    is_compressed: bool = False
    """True if it came in the compressed form, which has no room for logical queues."""


@dataclass(slots=True)
class _Heard:
    """The last registration of a master that was accepted."""

    address: str
    connection: Hashable
    data_version: DataVersion
    size_bytes: int


@final
class LogicalRoutes:
    """The logical queues of all topics.

    Call ``register`` after ``RouteTable.register`` with the same registration.
    """

    def __init__(self, routes: RouteTable, *, wait_s: float) -> None:
        """Start empty; for ``wait_s`` a topic that brokers come with may be known in part only."""
        self.wait_s = wait_s
        self._routes = routes
        self._topics: dict[str, LogicalTopic] = {}
        self._heard: dict[str, _Heard] = {}
        self._listeners = Listeners()
        self._makers: dict[str, RouteMaker] = {}
        self._views: dict[str, tuple[int, TopicView]] = {}
        self._problems: dict[str, tuple[str, ...]] = {}
        self._news: list[str] = []
        self._unserved: set[str] = set()

    def register(
        self, said: LogicalRegistration, *, now_s: float, connection: Hashable, was_known: bool
    ) -> None:
        """Take over a broker's registration; ``was_known`` if its address was registered before.

        Only a master's segments count, and only with another data version than before. A
        registration that was overtaken by a later one over the same connection is passed over.
        """
        listener = None if said.report is None else said.report.listener
        self._listeners.report(
            said.broker_name,
            said.broker_id,
            cluster=said.cluster,
            broker_address=said.address,
            listener=listener,
        )
        if said.broker_id != MASTER_ID or not self._is_news(said, connection, was_known=was_known):
            return
        is_newcomer = said.broker_name not in self._heard
        if said.is_compressed:
            if said.broker_name in self._brokers_with_segments():
                self._news.append(
                    f"broker {said.broker_name} registers in the compressed form, which loses its"
                    " logical queues: set compressedRegister=false"
                )
            return
        if is_newcomer and said.queues and self._kept_bytes() + said.size_bytes > KEPT_MAX_BYTES:
            self._news.append(
                f"the logical queues of broker {said.broker_name} are left out: those of other"
                f" brokers take {self._kept_bytes() >> 20} MiB; forget brokers that will not come"
                " back (lanemq admin forgetBroker)"
            )
            return
        self._heard[said.broker_name] = _Heard(
            said.address, connection, said.data_version, said.size_bytes
        )
        wait_until_s = now_s + self.wait_s if is_newcomer else None
        queues = said.queues or {}
        for name in self._scope(said):
            if name in queues:
                topic = self._topics.setdefault(name, LogicalTopic(name))
                topic.report(
                    said.broker_name,
                    said.cluster,
                    queues[name],
                    None if said.report is None else said.report.topics.get(name),
                    wait_until_s=wait_until_s,
                )
            elif name in self._topics:
                self._topics[name].withdraw(said.broker_name)
            self._review(name, now_s)

    def _kept_bytes(self) -> int:
        return sum(heard.size_bytes for heard in self._heard.values())

    def forget_broker(self, broker_name: str, *, now_s: float) -> None:
        """Forget the segments and the listener of a broker that will not come back."""
        self._listeners.forget(broker_name)
        self._heard.pop(broker_name, None)
        for name, topic in list(self._topics.items()):
            topic.forget(broker_name)
            self._review(name, now_s)

    def delete_topic(self, name: str, *, cluster: str | None, now_s: float) -> None:
        """Delete a topic, in one cluster only if it is given."""
        if name in self._topics:
            self._topics[name].withdraw_cluster(cluster)
            self._review(name, now_s)

    def view(self, name: str, *, now_s: float) -> TopicView:
        """Return the part of a topic's logical queues that may be shown."""
        topic = self._topics.get(name)
        if topic is None:
            return PLAIN
        changes, view = self._views.get(name, (-1, PLAIN))
        if changes == self._routes.changes and view.status is not Status.NOT_YET:
            return view  # nothing else depends on the time
        facts = Facts(self._routes.queue_datas(name), self._routes.master_address)
        view = topic.view(facts, now_s)
        self._views[name] = self._routes.changes, view
        self._note(name, view.problems if topic.has_segments else ())
        return view

    def route(
        self,
        name: str,
        physical: RouteData,
        asker: Asker,
        *,
        now_s: float,
        serve_to_java: str,
        indices: Collection[int] | None = None,
    ) -> RouteData | None:
        """Return the route of a topic for a client, or None if it should rather keep the one it
        has.

        ``physical`` is the one of old, which it gets where the topic has no logical queues or
        they are not for it. ``indices`` leaves out other logical queues.
        """
        view = self.view(name, now_s=now_s)
        topic = self._topics.get(name)
        if topic is None or view.status is Status.PLAIN:
            return physical
        if asker is Asker.FLAGGED_JAVA and not (
            topic.serves_java and serves_java(serve_to_java, name)
        ):
            return physical
        clusters = {data.cluster for data in physical.broker_datas}
        is_there = self._routes.is_registered
        listener = self._listeners.whole(clusters, is_there)
        if asker is Asker.OLD:
            may_be_translated = listener is not None or topic.is_of_lanemq
            if topic.client_view is ClientView.PHYSICAL or not may_be_translated:
                return physical
        if view.status is Status.NOT_YET:
            return None
        maker = self._makers.setdefault(name, RouteMaker())
        if asker is Asker.OLD:
            if listener is None or not view.queues:
                return physical
            brokers = topic.brokers or 1  # it has to be seen somewhere, whoever knows where

            def listener_of(number: int) -> ListenerAddress | None:
                return self._listeners.numbered(number, brokers, clusters, is_there)

            route = maker.translated(
                physical, view.queues, brokers, listener_of, now_s, self.wait_s
            )
            self._note_served(name, brokers, is_served=route is not None)
            return route
        if asker is Asker.FLAGGED_JAVA:
            return maker.flagged(physical, view.queues, listener, indices, with_numbers=False)
        return maker.flagged(physical, view.queues, listener, indices, seen_at=topic.brokers)

    def problems(self) -> Mapping[str, tuple[str, ...]]:
        """Return, by topic, the reasons why the last report is not shown as it is."""
        return dict(self._problems)

    def take_news(self) -> list[str]:
        """Return the news for an operator since the last call."""
        news, self._news = self._news, []
        return news

    def _is_news(self, said: LogicalRegistration, connection: Hashable, *, was_known: bool) -> bool:
        heard = self._heard.get(said.broker_name)
        if heard is None or not was_known or heard.address != said.address:
            return True
        counter = heard.data_version.counter
        if heard.connection == connection and said.data_version.counter < counter:
            return False
        return is_changed(heard.data_version, said.data_version)

    def _scope(self, said: LogicalRegistration) -> list[str]:
        """Return the topics that a registration concerns, those that it lacks included."""
        names = dict.fromkeys((*said.topics, *(said.queues or ())))
        # Those of 5.0.0-PREVIEW do not say whether they are whole. One that is has the
        # system's topics too; one about a change has a single topic.
        is_whole = len(said.topics) > 1 if said.report is None else said.report.is_whole
        if is_whole:
            names |= dict.fromkeys(self._topics)
        return list(names)

    def _brokers_with_segments(self) -> set[str]:
        return set().union(*(topic.broker_names for topic in self._topics.values()))

    def _review(self, name: str, now_s: float) -> None:
        """Keep a view while it is complete; it may be incomplete when a client asks."""
        self._views.pop(name, None)
        topic = self._topics.get(name)
        if topic is None:
            return
        self.view(name, now_s=now_s)
        if topic.is_empty:
            del self._topics[name]
            self._makers.pop(name, None)

    def _note_served(self, name: str, brokers: int, *, is_served: bool) -> None:
        if is_served:
            self._unserved.discard(name)
        elif name not in self._unserved:
            self._unserved.add(name)
            self._news.append(
                f"topic {name}: clients see it at {brokers} brokers, and no listener stands "
                f"for all of these: set logicalQueueBrokers to {brokers} or more"
            )

    def _note(self, name: str, problems: tuple[str, ...]) -> None:
        before = self._problems.get(name, ())
        if problems == before:
            return
        if problems:
            self._problems[name] = problems
            new = [problem for problem in problems if problem not in before]
            self._news += [f"topic {name}: {problem}" for problem in new]
        else:
            del self._problems[name]
            self._news.append(f"topic {name}: its logical queues are as they should be again")
