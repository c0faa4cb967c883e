"""Logical queues at a name server: their registrations, and routes for each kind of client.

Pure: it reads no clock; times come in as ``now_s``. The ``RouteTable`` has the physical queues.
Source: RocketMQ 5.0.0-PREVIEW, RouteInfoManager, DefaultRequestProcessor.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial
from typing import Final, final

from lanemq.wire.bodies import MASTER_ID, RouteData
from lanemq.wire.logical import ClientView, serves_java

from ...net._turns import LOOKS_OF_A_STEP, Steps, all_steps
from ..routes._registration import is_changed
from ..routes._table import RouteTable
from ._chains import segments_of
from ._heard import HeardMasters
from ._known_topics import SEGMENTS_OF_A_STEP, KnownTopics
from ._listeners import ListenerAddress, Listeners
from ._registration import LogicalRegistration
from ._room import KEPT_MAX_BYTES, Held
from ._route_maker import Asker, RouteMaker, flagged
from ._topic import LogicalTopic
from ._view import ShownTopic, Status

TOPICS_OF_A_STEP: Final = 32
"""Topics whose logical queues are looked at in one step, if they have few segments."""


@final
class LogicalTopics:
    """The logical queues of all topics.

    Call ``register`` after ``RouteTable.register`` with the same registration.
    """

    def __init__(self, routes: RouteTable, *, wait_s: float) -> None:
        """Start empty; for ``wait_s`` a topic that brokers come with may be known in part only."""
        self.wait_s = wait_s
        self._routes = routes
        self._topics = KnownTopics(routes)
        self.taking_over = self._topics.taking_over
        self._heard = HeardMasters(routes.is_registered, self._topics.room)
        self._listeners = Listeners(routes.is_registered)
        self._makers: dict[str, RouteMaker] = {}
        self._unserved: set[str] = set()

    def register(
        self, said: LogicalRegistration, *, now_s: float, connection: Hashable, was_known: bool
    ) -> None:
        """Do ``register_in_steps`` at once."""
        steps = self.register_in_steps(
            said, now_s=now_s, connection=connection, was_known=was_known
        )
        all_steps(steps)

    def takes_turns(self, said: LogicalRegistration) -> bool:
        """Return whether ``register`` has more to look at than fits into one turn.

        A whole one concerns all that are known: a broker without logical queues may have had some.
        """
        if said.broker_id != MASTER_ID:
            return False
        scope, queues = self._scope(said), said.queues or {}
        return len(scope) > TOPICS_OF_A_STEP or any(
            self._topics.takes_turns(name, segments_of(queues.get(name))) for name in scope
        )

    def register_in_steps(
        self, said: LogicalRegistration, *, now_s: float, connection: Hashable, was_known: bool
    ) -> Steps[None]:
        """Take over a broker's registration; ``was_known`` if its address was registered before.

        Only a master's segments count, and only with another data version than before. A
        registration that was overtaken by a later one over the same connection is passed over.
        """
        listener = None if said.report is None else said.report.listener
        name, address, host = said.broker_name, said.address, said.host
        if not self._listeners.report(name, said.broker_id, said.cluster, address, listener, host):
            self._topics.news.append(f"there is no room for the listener of broker {name}")
        if said.broker_id != MASTER_ID or not self._is_news(said, connection, was_known=was_known):
            return
        is_newcomer = said.broker_name not in self._heard
        if said.is_compressed:
            if (yield from self._topics.has_segments_of(said.broker_name)):
                self._topics.news.append(
                    f"broker {said.broker_name} registers in the compressed form, which loses its"
                    " logical queues: set compressedRegister=false"
                )
            return
        if said.queues and not self._topics.room.has_room(said, KEPT_MAX_BYTES):
            self._topics.news.append(
                f"the logical queues of broker {said.broker_name} are left out: those that are"
                f" known take {self._topics.room.taken_bytes >> 20} MiB; forget brokers that will"
                " not come back (forgetBroker)"
            )
            return
        wait_until_s = now_s + self.wait_s if is_newcomer else None
        queues = said.queues or {}
        room, known = SEGMENTS_OF_A_STEP, self._topics.by_name
        for number, name in enumerate(self._scope(said)):
            if number and number % LOOKS_OF_A_STEP == 0:  # most may be others' topics
                yield None
                room = SEGMENTS_OF_A_STEP
            topic = known.get(name)
            is_told_of = name in queues or name in said.topics
            if not is_told_of and (topic is None or said.broker_name not in topic):
                continue
            more = segments_of(queues.get(name))
            room -= more + (0 if topic is None else topic.segments)
            if room < 0 or (number and number % TOPICS_OF_A_STEP == 0):
                yield None
                room = SEGMENTS_OF_A_STEP
            if name in queues:
                report = partial(
                    LogicalTopic.report,
                    broker_name=said.broker_name,
                    cluster=said.cluster,
                    queues=queues[name],
                    held=Held(said.host, said.sizes.get(name, 0)),
                    report=None if said.report is None else said.report.topics.get(name),
                    wait_until_s=wait_until_s,
                )
                yield from self._change(name, report, now_s, more)
            elif topic is not None:
                withdraw = partial(LogicalTopic.withdraw, broker_name=said.broker_name)
                yield from self._change(name, withdraw, now_s)
        self._heard.put(said, connection)

    def forget_broker(self, broker_name: str, *, now_s: float) -> None:
        """Do ``forget_broker_in_steps`` at once."""
        all_steps(self.forget_broker_in_steps(broker_name, now_s=now_s))

    def forget_broker_in_steps(self, broker_name: str, *, now_s: float) -> Steps[None]:
        """Forget the segments and the listener of a broker that will not come back."""
        self._listeners.forget(broker_name)
        self._heard.forget(broker_name)
        forget = partial(LogicalTopic.forget, broker_name=broker_name)
        for name in list(self._topics):
            yield None
            yield from self._change(name, forget, now_s)

    def is_wide(self, name: str) -> bool:
        """Return whether a topic has too many segments for one turn."""
        return self._topics.is_wide(name)

    def delete_topic(self, name: str, *, cluster: str | None, now_s: float) -> Steps[None]:
        """Delete a topic, in one cluster only if it is given."""
        if name in self._topics:
            withdraw = partial(LogicalTopic.withdraw_cluster, cluster=cluster)
            yield from self._change(name, withdraw, now_s)

    def view(self, name: str, *, now_s: float) -> ShownTopic:
        """Return the part of a topic's logical queues that may be shown."""
        return self._topics.view(name, now_s)

    def is_long(self, name: str, asker: Asker, *, now_s: float) -> bool:
        """Return whether the view of a topic has to be made, and takes more than a turn."""
        if not self._topics.is_wide(name):
            return False
        view = self._topics.viewed(name, now_s)
        return view is None or not self._has_made(name, asker, view)

    def _has_made(self, name: str, asker: Asker, view: ShownTopic) -> bool:
        """Return whether a route for a client is made of what is there."""
        is_plain = view.status is not Status.LOGICAL
        return is_plain or self._maker(name).has_made(asker, view.queues, self._seen_at(name))

    def _seen_at(self, name: str) -> int:
        """Return the number of brokers at which older clients see a topic."""
        topic = self._topics.get(name)
        return 1 if topic is None else topic.brokers or 1  # somewhere, whoever knows where

    def view_in_steps(self, name: str, asker: Asker, *, now_s: float) -> Steps[ShownTopic]:
        """Do ``view`` where it ``is_long``; what changes a topic must not run meanwhile."""
        view = yield from self._topics.view_in_steps(name, now_s)
        if not self._has_made(name, asker, view):
            yield partial(self._maker(name).make, asker, view.queues, self._seen_at(name), now_s)
        return view

    def _maker(self, name: str) -> RouteMaker:
        return self._makers.setdefault(name, RouteMaker())

    def route(
        self,
        name: str,
        physical: RouteData,
        asker: Asker,
        *,
        now_s: float,
        serve_to_java: str,
        indices: Collection[int] | None = None,
        view: ShownTopic | None = None,
    ) -> RouteData | None:
        """Return the route of a topic for a client, or None if it should rather keep the one it
        has.

        ``physical`` is the one of old, which it gets where the topic has no logical queues or
        they are not for it. ``indices`` leaves out other logical queues. ``view`` is given where
        it ``is_long``.
        """
        view = view or self.view(name, now_s=now_s)
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
        maker = self._maker(name)
        if asker is Asker.OLD:
            if listener is None or not view.queues:
                return physical
            brokers = self._seen_at(name)

            def listener_of(number: int) -> ListenerAddress | None:
                return self._listeners.numbered(number, brokers, clusters, is_there)

            made = maker.make(asker, view.queues, brokers, now_s)
            route = maker.translated(physical, made, listener_of, now_s, self.wait_s)
            self._note_served(name, brokers, is_served=route is not None)
            return route
        made = maker.make(asker, view.queues, self._seen_at(name), now_s)
        seen_at = 0 if asker is Asker.FLAGGED_JAVA else topic.brokers
        return flagged(physical, made, listener, indices, seen_at=seen_at)

    def problems(self) -> Mapping[str, tuple[str, ...]]:
        """Return, by topic, the reasons why the last report is not shown as it is."""
        return dict(self._topics.problems)

    def take_news(self) -> list[str]:
        """Return the news for an operator since the last call."""
        news, self._topics.news = self._topics.news, []
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
        known, queues = self._topics, said.queues or {}
        names = dict.fromkeys([name for name in said.topics if name in queues or name in known])
        names |= dict.fromkeys(queues)
        if said.is_whole:
            names |= dict.fromkeys(known)
        return list(names)

    def _change(
        self, name: str, change: Callable[[LogicalTopic], None], now_s: float, more: int = 0
    ) -> Steps[None]:
        yield from self._topics.change_in_steps(name, change, now_s, more=more)
        if name not in self._topics:
            self._makers.pop(name, None)
            self._unserved.discard(name)
        elif name in self._makers:
            self._makers[name].forget_made()

    def _note_served(self, name: str, brokers: int, *, is_served: bool) -> None:
        if is_served:
            self._unserved.discard(name)
        elif name not in self._unserved:
            self._unserved.add(name)
            self._topics.news.append(
                f"topic {name}: clients see it at {brokers} brokers, and no listener stands "
                f"for all of these: set logicalQueueBrokers to {brokers} or more"
            )
