"""What a logical listener knows of where the segments of its topics are.

Name servers are asked as a client is that knows logical queues. What brokers say in redirects
is newer than that and goes into the same chains.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

import trio

from lanemq.sdk import LanemqError, RemotingClient
from lanemq.wire import (
    MASTER_ID,
    ClusterInfo,
    Frame,
    GetRouteInfo,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
    RouteData,
    request,
)
from lanemq.wire.logical import (
    LOGICAL_QUEUE_BROKER,
    LOGICAL_QUEUE_FLAG,
    Chain,
    LogicalQueues,
    Redirect,
    Segment,
)

LOGGER = logging.getLogger("lanemq.proxy.listener")

FRESH_S: Final = 10.0
"""Routes are asked for again when they are older."""
RETRY_S: Final = 1.0
"""So long after a question that nobody answered, or that had no use, it is not put again."""
ASK_S: Final = 3.0
TOPICS_MAX: Final = 100_000
"""Names that were asked for; past it all are forgotten. Only a peer gone wrong asks for so many."""

_ANSWERS: Final = frozenset({ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST})


@final
@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic with logical queues, as far as is known."""

    queues: LogicalQueues
    addresses: Mapping[str, str]
    """Broker name -> address of the master."""

    def chain(self, index: int) -> Chain | None:
        """The segments of a logical queue; None for one that is not there."""
        return self.queues.get(index)

    def address(self, broker_name: str) -> str | None:
        """Where a broker is: as the name server says, or the redirect that it is known from."""
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
    """Whether the last question brought anything that was not known."""


@final
class LogicalRoutes:
    """The views of topics. ``get`` never waits; ``find`` and ``refresh`` may."""

    def __init__(self, client: RemotingClient, name_servers: Sequence[str]) -> None:
        self._client = client
        self._name_servers = list(name_servers)
        self._known: dict[str, _Known] = {}
        self._asking: dict[str, trio.Event] = {}

    def get(self, topic: str) -> TopicView | None:
        """What is known; None for a topic that has no logical queues, or is not known."""
        known = self._known.get(topic)
        return None if known is None else known.view

    def chain(self, topic: str, index: int) -> Chain | None:
        """What is known of a logical queue; None for one that is not there, or not known."""
        view = self.get(topic)
        return None if view is None else view.chain(index)

    def is_fresh(self, topic: str, *, now_s: float) -> bool:
        """Whether ``get`` can be relied on without asking."""
        known = self._known.get(topic)
        return known is not None and now_s - known.asked_s < FRESH_S

    async def find(self, topic: str) -> TopicView | None:
        """The view, asked for if it is not fresh."""
        if not self.is_fresh(topic, now_s=trio.current_time()):
            await self.refresh(topic)
        return self.get(topic)

    async def refresh(self, topic: str) -> TopicView | None:
        """Ask now, unless that was just done in vain. Where nobody answers, all stays as it was."""
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
        try:
            view, is_answered = await self._ask(topic)
            if len(self._known) >= TOPICS_MAX:
                self._known.clear()
            before = known.view if known is not None else None
            if not is_answered:
                view = before
            self._known[topic] = _Known(view, trio.current_time(), view != before)
        finally:
            del self._asking[topic]
            done.set()
        return self.get(topic)

    async def brokers(self) -> Mapping[str, str]:
        """Name -> address of the master of every broker, as a name server knows them now."""
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

    async def _ask(self, topic: str) -> tuple[TopicView | None, bool]:
        header = GetRouteInfo(topic=topic, sys_flag=LOGICAL_QUEUE_FLAG)
        frame = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header.to_fields())
        for at, server in enumerate(self._name_servers):
            try:
                answer = await self._client.call(server, frame, ASK_S, accept=_ANSWERS)
                view = read_view(answer)
            except (LanemqError, RemoteProtocolError) as error:
                LOGGER.info(
                    "name server %s does not tell the route of %s: %s", server, topic, error
                )
                continue
            if at:  # the one that answers is asked first from now on
                self._name_servers.insert(0, self._name_servers.pop(at))
            return view, True
        return None, False

    def put(self, topic: str, *segments: Segment) -> None:
        """Learn how segments are by now."""
        known = self._known.get(topic)
        if known is not None and known.view is not None:
            queues = known.view.queues
            for segment in segments:
                queues = queues.put_segment(segment)
            known.view = replace(known.view, queues=queues)

    async def redirected(self, topic: str, answer: Frame) -> None:
        """Learn from an answer that says "ask elsewhere"; if it does not say where, ask."""
        try:
            redirect = Redirect.decode(answer.body)
        except RemoteProtocolError as error:
            LOGGER.warning("a broker redirects for %s to nowhere: %s", topic, error)
            redirect = None
        if redirect is None:
            await self.refresh(topic)
        else:
            self.put(topic, redirect.current, redirect.following)


def read_view(answer: Frame) -> TopicView | None:
    """The view in a name server's answer; None for a topic without logical queues."""
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
    return TopicView(queues, addresses)
