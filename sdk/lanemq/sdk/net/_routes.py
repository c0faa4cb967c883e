"""Routes of topics, from the name servers, kept fresh.

Known routes are kept while name servers are away. Source: RocketMQ 4.9.8, MQClientInstance.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import final

import trio

from lanemq.wire import RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.bodies import MASTER_ID, RouteData
from lanemq.wire.frame import request
from lanemq.wire.headers import GetRouteInfo
from lanemq.wire.logical import LOGICAL_QUEUE_FLAG, RecentRedirects, Redirect

from .._errors import (
    BadAnswer,
    BrokerUnreachable,
    LanemqError,
    NoRoute,
    RefusedByBroker,
    WrongUse,
)
from .._tasks import beside_if, read_body
from ..observe._log import get_logger
from ._name_servers import NameServers
from ._route_table import (
    Change,
    TopicRoute,
    beyond_bounds,
    change_of,
    is_wide,
    read_default_route,
    read_route,
    with_redirect,
)

LOGGER = get_logger("lanemq.sdk.routes")

RouteListener = Callable[[str], None]
"""Called with the name of a topic whose queues or brokers changed, or that is wanted."""


@final
class Routes:
    """The routes of the topics in use. Reading never blocks; finding and refreshing may."""

    def __init__(
        self,
        name_servers: NameServers,
        *,
        default_topic: str = "",
        default_topic_queues: int = 4,
        logical_queues: bool = True,
    ) -> None:
        self.name_servers = name_servers
        self._logical_queues = logical_queues
        self._default_topic = default_topic
        self._default_topic_queues = default_topic_queues
        self._routes: dict[str, TopicRoute] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._redirects: dict[str, RecentRedirects] = {}
        self._left_out: dict[str, str] = {}
        self._watched: dict[str, None] = {}  # a set that keeps its order
        self._locks: dict[str, trio.Lock] = {}
        self._listeners: list[RouteListener] = []
        self._watch_listeners: list[RouteListener] = []

    def on_change(self, listener: RouteListener) -> None:
        """Call ``listener`` whenever the route of a topic is new or another one.

        Not for what moves inside of logical queues: these stay the same queues.
        """
        self._listeners.append(listener)

    def on_watch(self, listener: RouteListener) -> None:
        """Call ``listener`` whenever a topic is watched that was not."""
        self._watch_listeners.append(listener)

    def watch(self, topic: str) -> None:
        """Include ``topic`` in ``refresh_all``, whether or not it exists yet."""
        if topic not in self._watched:
            self._watched[topic] = None
            for listener in self._watch_listeners:
                listener(topic)

    def unwatch(self, topic: str) -> None:
        """Leave ``topic`` out of ``refresh_all``; what is known of it stays."""
        self._watched.pop(topic, None)

    def is_watched(self, topic: str) -> bool:
        """Return whether ``topic`` is refreshed."""
        return topic in self._watched

    @property
    def watched(self) -> tuple[str, ...]:
        """Topics that are refreshed."""
        return tuple(self._watched)

    def get(self, topic: str) -> TopicRoute | None:
        """Return the route that is known now."""
        return self._routes.get(topic)

    def brokers(self) -> Mapping[str, dict[int, str]]:
        """Return every broker of a known route: name -> id (0 is the master) -> address.

        The addresses are those of the route that a name server has told last; a route that is no
        longer refreshed says nothing where another has the broker. Source: RocketMQ 4.9.8,
        MQClientInstance, brokerAddrTable.
        """
        return self._brokers

    def master(self, broker_name: str) -> str | None:
        """Return the address of a broker's master, or None if it has none at the moment."""
        return self._brokers.get(broker_name, {}).get(MASTER_ID)

    def known_master(self, broker_name: str) -> str:
        """Return the address of a broker's master. Raises ``BrokerUnreachable``."""
        address = self.master(broker_name)
        if address is None:
            raise BrokerUnreachable(broker_name, "its master is not in any known route")
        return address

    def reader(self, broker_name: str, broker_id: int = MASTER_ID) -> str:
        """Return the address to read from: broker ``broker_id`` of that name, or another of it.

        Raises ``BrokerUnreachable``.
        """
        addresses = self._brokers.get(broker_name)
        if not addresses:
            raise BrokerUnreachable(broker_name, "it is not in any known route")
        if broker_id in addresses:
            return addresses[broker_id]
        return addresses[min(addresses)]

    async def find_for_send(self, topic: str) -> TopicRoute:
        """Return the route to send by; for a topic that does not exist, that of the default topic.

        Raises ``NoRoute`` if nothing can be sent to, ``BrokerUnreachable`` or
        ``RequestTimedOut`` if no name server answers.
        """
        self.watch(topic)
        route = await self.refresh(topic)
        if route is None and self._default_topic:
            route = await self._find_default(topic)
        if route is None:
            raise NoRoute(
                topic,
                "it does not exist, and brokers make none by themselves"
                " (autoCreateTopicEnable=false): create it first, as with put_topic of an"
                " AdminClient",
            )
        if not route.publish_queues:
            raise NoRoute(topic, "none of its brokers is writable and has its master running")
        return route

    async def _find_default(self, topic: str) -> TopicRoute | None:
        data = await self._ask(self._default_topic)
        known = self._routes.get(topic)
        if data is None or (known is not None and not known.is_default):
            return known
        route = read_default_route(topic, data, queues_max=self._default_topic_queues)
        self._brokers.update(route.brokers)
        self._keep(route)
        return route

    async def refresh(self, topic: str) -> TopicRoute | None:
        """Ask for the route of ``topic`` and keep it; None if the topic does not exist.

        A route once known stays known when the name server has lost it: it may have been
        restarted, and its brokers will register again. Raises as ``find_for_send``.
        """
        await self._look_up(topic)
        return self._routes.get(topic)

    async def confirm(self, topic: str, index: int) -> bool:
        """Do ``refresh``; return whether a logical queue is as a name server told it just now.

        It is not where a name server has lost the topic or has not heard of a redirect, and not for
        sure where somebody else asked at the same time.
        """
        changed = await self._look_up(topic)
        return changed is not None and index not in changed

    async def _look_up(self, topic: str) -> set[int] | None:
        """Ask for a route and keep it; return the logical queues that redirects have changed in
        it, or None if nobody has told it to this task."""
        lock = self._locks.get(topic)
        if lock is None:
            lock = self._locks[topic] = trio.Lock()
        if lock.locked():  # another task asks already: its answer is as fresh
            async with lock:
                return None
        async with lock:
            data = await self._ask(topic)
            if data is None:
                return None
            self._note_bounds(topic, data)
            known = self._routes.get(topic)
            read = partial(_read, topic, data, known, logical_queues=self._logical_queues)
            try:
                route, change = await beside_if(is_wide(data), read)
            except RemoteProtocolError as error:
                raise _bad_route(topic, error) from error
        if self._routes.get(topic) is not known:  # redirects came meanwhile
            change = change_of(self._routes.get(topic), route)
        self._brokers.update(route.brokers)
        redirects, changed = self._redirects.get(topic), set[int]()
        if redirects is not None and route.chains is not None:
            for redirect in redirects.unheard(route.chains, trio.current_time()):
                route = with_redirect(route, redirect)
                changed.add(redirect.current.logical_index)
        self._keep(route, change_of(self._routes.get(topic), route) if changed else change)
        return changed

    async def redirected(self, topic: str, redirect: Redirect | None) -> None:
        """Learn the present segments of a logical queue from a broker.

        None makes everything to be asked for again; raises as ``find_for_send`` then.
        """
        if redirect is None:
            self._redirects.pop(topic, None)
            await self.refresh(topic)
            return
        route = self._routes.get(topic)
        if route is not None and route.chains is not None:
            redirects = self._redirects.setdefault(topic, RecentRedirects())
            redirects.note(redirect, trio.current_time())
            self._keep(with_redirect(route, redirect))

    async def refresh_all(self) -> None:
        """Refresh every watched topic; failures are logged."""
        for topic in self.watched:
            try:
                await self.refresh(topic)
            except LanemqError as error:
                LOGGER.warning("cannot refresh the route of %s: %s", topic, error)

    async def _ask(self, topic: str) -> RouteData | None:
        flag = LOGICAL_QUEUE_FLAG if self._logical_queues else None
        header = GetRouteInfo(topic, sys_flag=flag)
        frame = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.to_fields())
        try:
            answer = await self.name_servers.call(frame)
        except RefusedByBroker as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise WrongUse(
                    f"{error.address} answers, but is not a name server, probably a broker: give"
                    " the address of a name server, which listens on port 9876 as a rule"
                ) from error
            raise
        try:
            return await read_body(answer.body, RouteData.decode)
        except RemoteProtocolError as error:
            raise _bad_route(topic, error) from error

    def _keep(self, route: TopicRoute, change: Change | None = None) -> None:
        """Keep a route; ``change`` is how it differs from the one known, if that is known."""
        if change is None:
            change = change_of(self._routes.get(route.topic), route)
        if change is Change.NONE:
            return
        earlier = self._routes.get(route.topic)
        self._routes[route.topic] = route
        for name, addresses in route.brokers.items():
            self._brokers.setdefault(name, addresses)
        if earlier is not None and (gone := earlier.brokers.keys() - route.brokers.keys()):
            for name in gone.difference(*(one.brokers for one in self._routes.values())):
                self._brokers.pop(name, None)
        if change is Change.CHAINS:
            LOGGER.debug("logical queues of %s: %s", route.topic, route.chains)
            return
        LOGGER.info(
            "route of %s: %d queues at %s",
            route.topic,
            len(route.subscribe_queues) or len(route.publish_queues),
            ", ".join(sorted(route.brokers)),
        )
        for listener in self._listeners:
            listener(route.topic)

    def _note_bounds(self, topic: str, data: RouteData) -> None:
        """Log what is left out of a route, once until it is something else."""
        left_out = beyond_bounds(data)
        if left_out and self._left_out.get(topic) != left_out:
            LOGGER.warning("route of %s: %s", topic, left_out)
            self._left_out[topic] = left_out


def _bad_route(topic: str, error: RemoteProtocolError) -> BadAnswer:
    return BadAnswer("name server", f"the route of {topic}", str(error))


def _read(
    topic: str, data: RouteData, known: TopicRoute | None, *, logical_queues: bool
) -> tuple[TopicRoute, Change]:
    route = read_route(topic, data, logical_queues=logical_queues)
    return route, change_of(known, route)
