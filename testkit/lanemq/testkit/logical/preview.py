"""A reader of one logical queue that treats routes, redirects and answers as 5.0.0-PREVIEW's does.

It translates offsets by the segment that its own view has at an offset, drops what lies behind
that segment's end, and goes on where the answer says. It looks at its route only when it is told
to.

Source: RocketMQ 5.0.0-PREVIEW, PullAPIWrapper, LogicalQueueRouteData, DefaultMQPushConsumerImpl.
"""

from typing import Final, final

import trio

from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import RouteData
from lanemq.wire.frame import Frame
from lanemq.wire.headers import GetRouteInfo
from lanemq.wire.logical import (
    LOGICAL_QUEUE_FLAG,
    REDIRECT_FIELD,
    Chain,
    LogicalQueues,
    Redirect,
    Segment,
)

from ..proxy.brokers import Client
from ..proxy.peers import Peer
from .cluster import CLIENT_HOST, PREVIEW, TOPIC, LogicalCluster, messages_of

ASKS_MAX: Final = 3
"""Times that one pull is put to brokers, redirects included."""
PAUSE_S: Final = 3.0
"""Seconds after which a pull that failed is repeated."""
SUSPEND: Final = 6
"""The ``sys_flag`` of a pull that brings its subscription and may be parked."""


@final
class PreviewReader:
    """One client, with a route and with connections of its own."""

    def __init__(self, cluster: LogicalCluster, index: int = 0, offset: int = 0) -> None:
        self._cluster = cluster
        self._connections: dict[str, Client] = {}
        self.chain = Chain(index)
        """The client's view of the queue."""
        self.offset = offset
        self.seen: list[bytes] = []
        self.asks = 0
        """Requests sent to brokers."""

    async def refresh(self) -> None:
        """Look at the route, as the client does every 30 s."""
        dial = self._cluster.network.dialer(CLIENT_HOST)
        stream = await dial(self._cluster.name_server.host, 9876)
        asked = GetRouteInfo(topic=TOPIC, sys_flag=LOGICAL_QUEUE_FLAG).to_fields()
        client = Client(Peer(stream), version=PREVIEW)
        answer = await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, asked)
        queues = LogicalQueues.of_route(RouteData.decode(answer.body).extra)
        assert queues is not None
        self.chain = queues.get(self.chain.index) or Chain(self.chain.index)

    async def read(self, **changes: object) -> None:
        """Pull until a pull brings nothing new."""
        while await self.pull(**changes):
            pass

    async def pull(self, **changes: object) -> bool:
        """Pull once, at ``offset``; return whether that went on."""
        before = self.offset
        for _ in range(ASKS_MAX):
            segment = self._segment()
            if segment is None:
                return self.offset != before
            answer = await self._ask(segment, **changes)
            if REDIRECT_FIELD not in answer.fields:
                self._take(answer, segment)
                return self.offset != before
            redirect = Redirect.decode(answer.body)
            if redirect is None:
                await self.refresh()
            else:
                self.chain = self.chain.put(redirect.current, redirect.following)
        await trio.sleep(PAUSE_S)
        return True

    def _segment(self) -> Segment | None:
        """Return the segment that the client's view has at its offset; in a gap, the one behind."""
        readable = self.chain.readable
        begun = [segment for segment in readable if segment.delta <= self.offset]
        later = [segment for segment in readable if segment.delta > self.offset]
        if begun:
            end = begun[-1].end_offset
            ended = end is not None and end <= self.offset
            return later[0] if ended and later else begun[-1]
        if not later:
            return None
        self.offset = later[0].delta  # it takes its offset for an illegal one
        return None

    async def _ask(self, segment: Segment, **changes: object) -> Frame:
        name = segment.broker_name
        offset = segment.to_physical(self.offset)
        terms = {"sys_flag": SUSPEND, "suspend_timeout_millis": 1000} | changes
        self.asks += 1
        while True:
            if name not in self._connections:
                self._connections[name] = await self._cluster.connect(name)
            try:
                return await self._connections[name].pull(TOPIC, segment.queue_id, offset, **terms)
            except (trio.BrokenResourceError, EOFError):  # a broker closes those that are idle
                del self._connections[name]

    def _take(self, answer: Frame, segment: Segment) -> None:
        assert answer.code in (0, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)
        for message in messages_of(answer):
            if not segment.keeps(message.queue_offset):
                break
            self.seen.append(message.body)
        self.offset = segment.to_logical(int(answer.fields["nextBeginOffset"]))
