"""The port where clients and tools ask for routes: the cluster's name servers, seen by the proxy.

Addresses of brokers become those at which clients see them; all else passes through. A route that
no name server answers is the last one that was known.
"""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple, final

import trio
from msgspec.structs import replace

from lanemq.local import get_logger
from lanemq.wire import (
    Refused,
    RemoteProtocolError,
    RequestCode,
    ResponseCode,
    Version,
    fastjson,
)
from lanemq.wire.bodies import BrokerData, ClusterInfo, RouteData
from lanemq.wire.frame import Frame
from lanemq.wire.headers import GetKVListByNamespace
from lanemq.wire.requests import Port

from ..net._dispatch import Handlers, Outcome, typed
from ..net._session import Session
from ..net._turns import read_answer
from ._brokers import UpstreamBrokers
from ._changes import OF_BROKERS, TO_ALL
from ._counts import Seen
from ._name_servers import LOOK_FIELD, NameServers
from ._numbers import BrokerKey
from ._peers import OWN_FIELD, Peers
from ._seen_addresses import SeenAddresses
from .kv import KeyNamespaces, claims_answer
from .order import (
    QueueOrder,
    QueueOrders,
    added_number,
    queues_told,
    seen_route,
    unserved,
    with_gone,
)
from .rewrites import with_addresses

LOGGER = get_logger("lanemq.proxy.gateway", by_peers=True)

Code = RequestCode
LOOK_S: Final = 2.0
"""Seconds between looks at the brokers of the cluster."""
KEPT_MAX: Final = 20_000
"""Most routes that are kept for the time without a name server."""
KEPT_BYTES_MAX: Final = 32 << 20
ROUTE_FIELDS: Final = ("topic", "acceptStandardJsonOnly", "__ZONE_NAME", "__ZONE_MODE")
"""The fields on which a route depends. Others, of which a client can send any number, would take
room from other clients' routes."""
ROUTE_FIELD_MAX: Final = 256
STANDARD_JSON: Final = Version.V4_9_4
"""The first version of clients that name servers may answer in another form of JSON."""


class _Key(NamedTuple):
    """The part of a question on which the form and content of a route depend."""

    is_standard: bool
    fields: tuple[str, ...]


@final
class Routes:
    """The handlers of the port."""

    def __init__(
        self,
        name_servers: NameServers,
        brokers: UpstreamBrokers,
        peers: Peers,
        namespaces: KeyNamespaces | None = None,
        orders: QueueOrders | None = None,
    ) -> None:
        self._namespaces = namespaces
        self._orders = orders
        self._name_servers = name_servers
        self._brokers = brokers
        self._peers = peers
        self._seen_addresses = SeenAddresses(peers, brokers, orders)
        self._kept: OrderedDict[_Key, Frame] = OrderedDict()
        self._kept_bytes = 0
        self.seen = Seen()
        self._looking = trio.Lock()
        self.looked = trio.Event()
        """Set after the first look at the cluster, whatever came of it."""
        self.handlers = Handlers(Port.NAME_SERVER, Port.PROXY)
        self.handlers.add(Code.GET_ROUTEINFO_BY_TOPIC, self.route)
        self.handlers.add(Code.GET_BROKER_CLUSTER_INFO, self.cluster)
        if namespaces is not None:
            self.handlers.add(Code.GET_KVLIST_BY_NAMESPACE, typed(GetKVListByNamespace, self.table))

    @property
    def why_unanswered(self) -> str:
        """The reason why no name server answers; empty while one does."""
        return self._name_servers.why_unanswered

    @property
    def why_not_ready(self) -> str:
        """The reason why no routes are told that are not kept; empty if they are."""
        return self.why_unanswered or ("" if self._orders is None else self._orders.why_unknown)

    async def run(self) -> None:
        """Look at the brokers of the cluster again and again, until cancelled."""
        before = ""
        while True:
            why = await self.look()
            if why and why != before:
                LOGGER.warning("the brokers of the cluster are not known: %s", why)
            before = why
            self.looked.set()
            await trio.sleep(LOOK_S)

    async def look(self) -> str:
        """Look at the brokers of the cluster; returns the reason why that did not work, if so."""
        async with self._looking:  # an earlier answer may not replace a later one
            try:
                answer = await self._name_servers.look()
                told = await _read_brokers(answer.body)
            except Refused as error:
                return error.remark
            except RemoteProtocolError as error:
                return str(error)
            self._brokers.note_all(*told)
        return ""

    # Handlers

    async def route(self, frame: Frame, session: Session) -> Frame:
        """Return the route of a topic."""
        self.seen.routes += 1
        topic = frame.fields.get("topic", "")
        self._check_order_known()
        key = _Key(
            frame.version >= STANDARD_JSON,
            tuple(frame.fields.get(name, "")[:ROUTE_FIELD_MAX] for name in ROUTE_FIELDS),
        )
        kept = self._kept.get(key)
        try:
            if kept is not None and self.why_unanswered:
                # The client would give up before the name servers are waited for.
                raise Refused(ResponseCode.SYSTEM_ERROR, self.why_unanswered)
            answer = await self._name_servers.ask(frame)
        except Refused:
            if kept is None:
                raise
            self.seen.kept += 1
            # Brokers may have moved since: only what is told now says where they are.
            known = await _read_route(kept.body)
            order = self._order_of(topic, known)
            return _reply(frame, kept, await self._seen_route(kept.body, known, order))
        if answer.code != ResponseCode.SUCCESS:
            return _reply(frame, answer, answer.body)
        route = await _read_route(answer.body)
        self._keep(key, answer)
        if self._orders is not None:
            await self._note_queues(topic, route, self._orders)
        order = self._order_of(topic, route)
        self._brokers.note(*route.broker_datas)
        return _reply(frame, answer, await self._seen_route(answer.body, route, order))

    def _check_order_known(self) -> None:
        """Raise ``Refused`` while orders are not known. That may change in any wait."""
        if self._orders is not None and self._orders.why_unknown:
            # The cluster's order may be another one; clients go on with the route that they have.
            raise Refused(ResponseCode.SYSTEM_ERROR, self._orders.why_unknown)

    def _order_of(self, topic: str, route: RouteData) -> QueueOrder | None:
        """Return the order of a topic's queues; None where the cluster's counts.

        Raises ``Refused`` while orders are not known.
        """
        self._check_order_known()
        order = None if self._orders is None else self._orders.of_route(topic, route)
        if order is not None and order.moved and not self._peers.moves:
            raise unserved(topic)
        return order

    async def _note_queues(self, topic: str, route: RouteData, orders: QueueOrders) -> None:
        """Give all queues that are told a place in the order. Raises ``Refused``."""
        self._check_order_known()
        for one in route.broker_datas:
            if added_number(one.broker_name) is not None:
                remark = (
                    f"upstream names broker {one.broker_name}, so it is a proxy with --logical: "
                    "only one of two proxies behind each other may have that"
                )
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        await orders.noted(topic, route)

    async def _seen_route(self, body: bytes, told: RouteData, order: QueueOrder | None) -> bytes:
        """Return a route as clients see it; without an order the queues are the cluster's."""
        queues = queues_told(told)
        if order is not None and (not order.is_the_clusters or order.lacks(queues)):
            at = self._seen_addresses
            route = with_gone(told, order, at.gone(order, told))
            route = seen_route(route, order, at.added(told))
            # The name server knows which form of JSON the client reads.
            body = route.encode(standard=fastjson.is_quick(body))
        return await self._with_addresses(body, told.broker_datas)

    def _keep(self, key: _Key, answer: Frame) -> None:
        before = self._kept.pop(key, None)
        self._kept_bytes += len(answer.body) - (len(before.body) if before is not None else 0)
        self._kept[key] = answer
        while len(self._kept) > KEPT_MAX or self._kept_bytes > KEPT_BYTES_MAX:
            _, oldest = self._kept.popitem(last=False)
            self._kept_bytes -= len(oldest.body)

    async def cluster(self, frame: Frame, session: Session) -> Frame:
        """Return all brokers of the cluster; to another proxy, with the addresses here."""
        if OWN_FIELD in frame.fields:
            return self._own(frame)
        ids = frame.fields.get(LOOK_FIELD)
        if ids is None:
            answer = await self._name_servers.ask(frame)
        else:
            answer = await self._name_servers.pass_look(frame, ids)
        if answer.code != ResponseCode.SUCCESS:
            return _reply(frame, answer, answer.body)
        told = await _read_brokers(answer.body)
        self._brokers.note(*told)
        return _reply(frame, answer, await self._with_addresses(answer.body, told))

    def _own(self, frame: Frame) -> Frame:
        """Return the addresses here, whether a name server answers or not."""
        addresses: dict[str, dict[int, str]] = {}
        for key, address in self._peers.own_addresses().items():
            addresses.setdefault(key.name, {})[key.broker_id] = address
        table = {name: BrokerData("", name, at) for name, at in addresses.items()}
        return frame.reply(fields=self._peers.told(), body=ClusterInfo(table).encode())

    def table(self, header: GetKVListByNamespace, frame: Frame, session: Session) -> Outcome:
        """Return a table of the name servers; that of the places of keys is the proxy's."""
        assert self._namespaces is not None, "the handler of a proxy with keys"
        name = self._brokers.first_name
        answer = claims_answer(self._namespaces, name, header, frame) if name else None
        return self._pass_on(frame) if answer is None else answer

    def other(self, frame: Frame, session: Session) -> Outcome:
        """Pass any other request on to a name server, or to all of them."""
        if frame.code in OF_BROKERS:
            self.seen.refused += 1
            remark = (
                f"request {frame.code} is of brokers, and this is a proxy before a cluster: brokers"
                " register at the cluster's own name servers"
            )
            raise Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        return self._pass_on(frame)

    async def _pass_on(self, frame: Frame) -> Frame:
        if frame.code not in TO_ALL:
            answer = await self._name_servers.ask(frame)
            body, table = answer.body, self._seen_at()
            body = await read_answer(len(body), partial(with_addresses, body, table))
            return _reply(frame, answer, body)
        found = await self._name_servers.ask_all(frame)
        return _reply(frame, found, found.body)

    # Addresses

    async def _with_addresses(self, body: bytes, told: Sequence[BrokerData]) -> bytes:
        table = _table(told, self._peers.addresses())
        return await read_answer(len(body), partial(with_addresses, body, table))

    def _seen_at(self) -> dict[str, str]:
        seen = self._peers.addresses()
        ports = self._brokers.ports.items()
        own = [(key, port) for key, port in ports if added_number(key.name) is None]
        return {port.upstream: seen[key] for key, port in own if port.upstream}


async def _read_route(body: bytes) -> RouteData:
    return await read_answer(len(body), partial(RouteData.decode, body))


async def _read_brokers(body: bytes) -> Sequence[BrokerData]:
    info = await read_answer(len(body), partial(ClusterInfo.decode, body))
    return tuple(info.broker_addr_table.values())


def _reply(frame: Frame, answer: Frame, body: bytes) -> Frame:
    """Return a name server's answer as that to a client's request."""
    return replace(answer, opaque=frame.opaque, serialize=frame.serialize, body=body)


def _table(told: Sequence[BrokerData], seen: dict[BrokerKey, str]) -> dict[str, str]:
    """Return the address of each broker -> the one at which clients see it."""
    return {
        address: seen[key]
        for broker in told
        for broker_id, address in broker.broker_addrs.items()
        if (key := BrokerKey(broker.broker_name, broker_id)) in seen
    }
