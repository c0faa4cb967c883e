"""The routes that a logical listener knows: places of the segments of its topics.

Name servers are asked as a client is that knows logical queues. What brokers say in redirects
is newer than that, goes into the same chains, and is not taken back by an older view.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import trio

from lanemq.sdk import LanemqError, RemotingClient
from lanemq.wire import RemoteProtocolError, RequestCode, ResponseCode
from lanemq.wire.bodies import MASTER_ID, ClusterInfo, RouteData
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import GetRouteInfo
from lanemq.wire.logical import (
    LOGICAL_BROKERS_MEMBER,
    LOGICAL_QUEUE_BROKER,
    LOGICAL_QUEUE_FLAG,
    Chain,
    LogicalQueues,
    RecentRedirects,
    Redirect,
)

LOGGER = logging.getLogger("lanemq.proxy.logical.listener")

FRESH_S: Final = 10.0
"""Seconds after which routes are asked for again."""
RETRY_S: Final = 1.0
"""Seconds for which a question without an answer, or without use, is not repeated."""
ASK_S: Final = 3.0
TOPICS_MAX: Final = 100_000
"""Most topics remembered; beyond it all are forgotten. Only a broken peer asks for so many."""

_ANSWERS: Final = frozenset({ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST})


@final
@dataclass(frozen=True, slots=True)
class TopicView:
    """The known state of a topic with logical queues."""

    queues: LogicalQueues
    addresses: Mapping[str, str]
    """Broker name -> address of the master."""
    brokers: int = 1
    """Number of brokers at which older clients see the topic."""

    def chain(self, index: int) -> Chain | None:
        """Return the segments of a logical queue; None for one that does not exist."""
        return self.queues.get(index)

    def with_redirect(self, redirect: Redirect) -> "TopicView":
        """Return the view with what a redirect tells."""
        queues = self.queues.put_segments(redirect.current, redirect.following)
        return replace(self, queues=queues)

    def address(self, broker_name: str) -> str | None:
        """Return the address of a broker, from the name server or from the redirect that named
        it."""
        known = self.addresses.get(broker_name)
        if known is None:
            hints = (s.broker_address for s in self.queues.segments if s.broker_name == broker_name)
            known = next(filter(None, hints), None)
        return known


@dataclass(slots=True)
class _Known:
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


@final
class LogicalRoutes:
    """The views of all topics. ``get`` never waits; ``find`` and ``refresh`` may."""

    def __init__(self, client: RemotingClient, name_servers: Sequence[str]) -> None:
        self._client = client
        self._name_servers = list(name_servers)
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, trio.Event] = {}

    def get(self, topic: str) -> TopicView | None:
        """Return the known view; None for a topic that has no logical queues, or is unknown."""
        known = self._known.get(topic)
        return None if known is None else known.view

    def chain(self, topic: str, index: int) -> Chain | None:
        """Return the known segments of a logical queue; None for one that does not exist, or is
        unknown."""
        view = self.get(topic)
        return None if view is None else view.chain(index)

    def is_fresh(self, topic: str, *, now_s: float) -> bool:
        """Return whether ``get`` can be relied on without asking."""
        known = self._known.get(topic)
        return known is not None and now_s - known.asked_s < FRESH_S

    async def find(self, topic: str) -> TopicView | None:
        """Return the view, asked for if it is not fresh."""
        if not self.is_fresh(topic, now_s=trio.current_time()):
            await self.refresh(topic)
        return self.get(topic)

    async def refresh(self, topic: str) -> TopicView | None:
        """Ask now, unless that has just failed. Without an answer, nothing changes."""
        under_way = self._asking.get(topic)
        if under_way is not None:
            await under_way.wait()
            return self.get(topic)
        known = self._known.get(topic)
        now_s = trio.current_time()
        if known is not None and not known.had_use and now_s - known.asked_s < RETRY_S:
            await trio.lowlevel.checkpoint()
            return known.view
        done = self._asking[topic] = trio.Event()
        brokers = known.brokers if known is not None else 1
        try:
            view, is_answered = await self._ask(topic, brokers)
            if len(self._known) >= TOPICS_MAX:
                self._known.clear()
            before = known.view if known is not None else None
            redirects = known.redirects if known is not None else RecentRedirects()
            redirected, now_s = set[int](), trio.current_time()
            if not is_answered:
                view = before
            elif view is not None:
                for redirect in redirects.unheard(view.queues, now_s):
                    view = view.with_redirect(redirect)
                    redirected.add(redirect.current.logical_index)
            self._known[topic] = _Known(
                view,
                now_s,
                had_use=view != before,
                is_told=is_answered,
                redirected=redirected,
                redirects=redirects,
                brokers=view.brokers if view is not None else brokers,
            )
        finally:
            del self._asking[topic]
            done.set()
        return self.get(topic)

    async def confirm(self, topic: str, index: int) -> bool:
        """Return whether a logical queue is as a name server told it a moment ago; ask if it is
        not.

        Redirects tell of two segments, and there may be others between them. A name server
        shows none behind offsets that may be somewhere.
        """
        now_s = trio.current_time()
        if not self._is_told(topic, index) or now_s - self._known[topic].asked_s >= RETRY_S:
            await self.refresh(topic)
        return self._is_told(topic, index)

    def _is_told(self, topic: str, index: int) -> bool:
        known = self._known.get(topic)
        return known is not None and known.is_told and index not in known.redirected

    async def brokers(self) -> Mapping[str, str]:
        """Ask a name server for all brokers; return name -> address of the master."""
        frame = request(RequestCode.GET_BROKER_CLUSTER_INFO)
        for server in tuple(self._name_servers):
            try:
                answer = await self._client.call(server, frame, ASK_S)
                table = ClusterInfo.decode(answer.body).broker_addr_table
            except (LanemqError, RemoteProtocolError) as error:
                LOGGER.info("name server %s does not tell the brokers: %s", server, error)
                continue
            return {
                name: broker.broker_addrs[MASTER_ID]
                for name, broker in table.items()
                if MASTER_ID in broker.broker_addrs
            }
        return {}

    async def _ask(self, topic: str, brokers: int) -> tuple[TopicView | None, bool]:
        header = GetRouteInfo(topic=topic, sys_flag=LOGICAL_QUEUE_FLAG)
        frame = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.to_fields())
        for at, server in enumerate(self._name_servers):
            try:
                answer = await self._client.call(server, frame, ASK_S, accept=_ANSWERS)
                view = read_view(answer, brokers=brokers)
            except (LanemqError, RemoteProtocolError) as error:
                LOGGER.info(
                    "name server %s does not tell the route of %s: %s", server, topic, error
                )
                continue
            if at:  # the one that answers is asked first from now on
                self._name_servers.insert(0, self._name_servers.pop(at))
            return view, True
        return None, False

    async def redirected(self, topic: str, redirect: Redirect | None) -> None:
        """Learn from a redirect; if it names no target, ask a name server, whose word counts."""
        known = self._known.get(topic)
        if redirect is None:
            if known is not None and known.redirects:
                # What they have changed in the view may be wrong, however new it is.
                known.redirects, known.had_use = RecentRedirects(), True
            await self.refresh(topic)
        elif known is not None and known.view is not None:
            known.redirects.note(redirect, trio.current_time())
            view = known.view.with_redirect(redirect)
            if view != known.view:
                known.view, known.had_use = view, True
                known.redirected.add(redirect.current.logical_index)


def read_view(answer: Frame, *, brokers: int = 1) -> TopicView | None:
    """Read the view in a name server's answer; None for a topic without logical queues.

    ``brokers`` is their number where the name server does not know it, as after its start.
    """
    if answer.code != ResponseCode.SUCCESS:
        return None
    route = RouteData.decode(answer.body)
    queues = LogicalQueues.of_route(route.extra)
    if queues is None:
        return None
    addresses = {
        broker.broker_name: broker.broker_addrs[MASTER_ID]
        for broker in route.broker_datas
        if MASTER_ID in broker.broker_addrs and broker.broker_name != LOGICAL_QUEUE_BROKER
    }
    told = route.extra.get(LOGICAL_BROKERS_MEMBER)
    return TopicView(queues, addresses, told if isinstance(told, int) and told > 0 else brokers)
