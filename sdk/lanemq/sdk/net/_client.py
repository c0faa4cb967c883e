"""A client instance: connections, routes, heartbeats and identity of one producer or consumer.

Source: RocketMQ 4.9.8, MQClientInstance.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import final

import trio

from lanemq.wire import TIMERS_FIELD, RemoteProtocolError, RequestCode
from lanemq.wire.bodies import MASTER_ID, ClusterInfo, ConsumerData, HeartbeatData, ProducerData
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import UnregisterClient
from lanemq.wire.logical import READER_FIELD

from .._errors import BadAnswer, LanemqError, check_in_trio
from .._options import ClientOptions
from .._tasks import open_quiet_nursery, read_body
from ..observe._installed import check_telemetry
from ..observe._log import get_logger
from ._discovery import Endpoint, NameServersLike, fetch_name_servers, find_name_servers
from ._identity import new_client_id, new_unique_keys
from ._link import Dial
from ._local_ip import local_ip
from ._look_ups import look_up_routes
from ._missing_routes import MissingRoutes
from ._name_servers import Discover, NameServers
from ._remoting import RemotingClient, dial_tcp, open_remoting_client, split_address
from ._routes import Routes

LOGGER = get_logger("lanemq.sdk.client")

# Pauses between a young client's look-ups of a cluster's brokers, as long as it has none.
_EARLY_LOOKS_S = (1.0, 2.0, 4.0, 8.0)


def now_ms() -> int:
    """Return the time of day in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@final
class Client:
    """The client instance under a producer or a consumer. Made by `open_client`."""

    def __init__(
        self,
        remoting: RemotingClient,
        routes: Routes,
        options: ClientOptions,
        clock_ms: Callable[[], int],
        towards: str,
    ) -> None:
        self.remoting = remoting
        self.routes = routes
        self.options = options
        self.clock_ms = clock_ms
        self.clock_s = trio.lowlevel.current_clock().current_time
        """``trio.current_time``, for any thread."""
        ip = local_ip(towards)
        self.client_id = new_client_id(ip, options.instance)
        self.unique_keys = new_unique_keys(ip)
        self._producer_groups: dict[str, None] = {}
        self._consumers: dict[str, Callable[[], ConsumerData]] = {}
        self._introduced: dict[str, int | None] = {}  # address -> connection that knows us
        self._answers: dict[str, Frame] = {}  # address -> the last answer to a heartbeat
        self._introducing = trio.Lock()
        self._route_changed = trio.Event()
        self._follows_cluster = False
        self._cluster_masters: tuple[str, ...] = ()
        self._missing = MissingRoutes(
            routes, self.refresh_quietly, interval_s=options.route_refresh_s
        )
        routes.on_change(self._note_route)

    def add_producer(self, group: str) -> None:
        """Announce ``group`` in heartbeats to masters."""
        self._producer_groups[group] = None

    def add_consumer(self, group: str, describe: Callable[[], ConsumerData]) -> None:
        """Announce what ``describe`` returns in heartbeats to all brokers."""
        self._consumers[group] = describe

    # Heartbeats

    def _heartbeat_frame(self) -> Frame:
        body = HeartbeatData(
            client_id=self.client_id,
            producer_data_set=tuple(map(ProducerData, self._producer_groups)),
            consumer_data_set=tuple(describe() for describe in self._consumers.values()),
        )
        asked = (TIMERS_FIELD, READER_FIELD)[: 1 + self.options.logical_queues]
        return request(RequestCode.HEART_BEAT, dict.fromkeys(asked, "true"), body.encode())

    def _heartbeat_addresses(self) -> list[str]:
        routed = [
            address
            for addresses in self.routes.brokers().values()
            for broker_id, address in addresses.items()
            if broker_id == MASTER_ID or self._consumers
        ]
        return list(dict.fromkeys((*routed, *self._cluster_masters)))

    async def heartbeat(self, addresses: Iterable[str] | None = None) -> None:
        """Send a heartbeat to all brokers of the known routes (or ``addresses``); wait for them.

        A broker that cannot be reached is logged: the next heartbeat comes soon enough.
        """
        frame = self._heartbeat_frame()
        async with trio.open_nursery() as nursery:
            for address in self._heartbeat_addresses() if addresses is None else addresses:
                nursery.start_soon(self._beat, address, frame)

    async def introduce(self) -> None:
        """Send a heartbeat to the brokers that have not had one on their present connection.

        For what makes a broker turn to this client: it finds clients by connection.
        """
        async with self._introducing:
            strangers = [
                address
                for address in self._heartbeat_addresses()
                if (number := self.remoting.connection_number(address)) is None
                or self._introduced.get(address) != number
            ]
            if strangers:
                await self.heartbeat(strangers)

    async def connect(self, topics: Iterable[str]) -> None:
        """Make this client known at the brokers of ``topics``, now and from now on.

        A broker that cannot be reached is logged and tried again.
        """
        names = tuple(topics)
        for topic in names:
            self.routes.watch(topic)
        await look_up_routes(self.routes, names, required=self.options.require_route)
        await self.introduce()

    async def connect_to_cluster(self) -> None:
        """Make this client known at every master that the name servers list, as ``connect``."""
        self._follows_cluster = True
        await self._refresh_cluster()
        await self.introduce()

    async def _refresh_cluster(self) -> None:
        try:
            frame = request(RequestCode.GET_BROKER_CLUSTER_INFO)
            answer = await self.routes.name_servers.call(frame)
            try:
                cluster = await read_body(answer.body, ClusterInfo.decode)
            except RemoteProtocolError as error:
                raise BadAnswer("name server", "the cluster's brokers", str(error)) from error
        except LanemqError as error:
            LOGGER.warning("cannot find the brokers of the cluster, trying again: %s", error)
            return
        masters = (one.broker_addrs.get(MASTER_ID) for one in cluster.broker_addr_table.values())
        self._cluster_masters = tuple(filter(None, masters))

    def _note_route(self, topic: str) -> None:
        self._route_changed.set()

    async def _introductions(self) -> None:
        """Introduce the producers to new brokers at once, and not with the next heartbeat."""
        while True:
            await self._route_changed.wait()
            self._route_changed = trio.Event()
            if self._producer_groups:
                await self.introduce()

    async def _beat(self, address: str, frame: Frame) -> None:
        answer = await self._tell(address, frame)
        if answer is not None:
            self._answers[address] = answer
            self._introduced[address] = self.remoting.connection_number(address)

    async def heartbeat_answer(self, address: str) -> Frame:
        """Return a broker's last answer to a heartbeat, which tells its version and abilities.

        Raises as any request where the broker has not answered one yet.
        """
        if address not in self._answers:
            frame = self._heartbeat_frame()
            answer = await self.remoting.call(address, frame, self.options.call_timeout_s)
            self._answers[address] = answer
        return self._answers[address]

    async def _tell(self, address: str, frame: Frame) -> Frame | None:
        try:
            return await self.remoting.call(address, frame, self.options.call_timeout_s)
        except LanemqError as error:
            LOGGER.warning("%s: request %d failed: %s", self.client_id, frame.code, error)
            return None

    async def _heartbeats(self) -> None:
        while True:
            await trio.sleep(self.options.heartbeat_interval_s)
            await self.heartbeat()

    async def _early_looks(self) -> None:
        for delay_s in _EARLY_LOOKS_S:
            await trio.sleep(delay_s)
            if self._follows_cluster and not self._cluster_masters:
                await self.connect_to_cluster()

    async def _refreshes(self) -> None:
        while True:
            await trio.sleep(self.options.route_refresh_s)
            await self.routes.refresh_all()
            if self._follows_cluster:
                await self.connect_to_cluster()

    async def _discoveries(self) -> None:
        while True:
            await trio.sleep(self.options.name_server_refresh_s)
            try:
                await self.routes.name_servers.refresh()
            except LanemqError as error:
                LOGGER.warning("cannot look for the name servers: %s", error)

    async def refresh_quietly(self, topic: str) -> None:
        """Look for a route now; a failure is logged."""
        try:
            await self.routes.refresh(topic)
        except LanemqError as error:
            LOGGER.warning("cannot refresh the route of %s: %s", topic, error)

    # Life

    def start(self, nursery: trio.Nursery) -> None:
        """Begin the periodic work."""
        nursery.start_soon(self._heartbeats)
        nursery.start_soon(self._early_looks)
        nursery.start_soon(self._missing.run)
        nursery.start_soon(self._introductions)
        nursery.start_soon(self._refreshes)
        if self.routes.name_servers.discovers:
            nursery.start_soon(self._discoveries)

    async def unregister(self) -> None:
        """Unregister at every broker, so that the rest of a group shares our queues at once."""
        addresses = self._heartbeat_addresses()
        connected = set(self.remoting.connected_addresses)
        groups = [(group, None) for group in self._producer_groups]
        async with trio.open_nursery() as nursery:
            for producer, consumer in [*groups, *((None, group) for group in self._consumers)]:
                header = UnregisterClient(
                    client_id=self.client_id, producer_group=producer, consumer_group=consumer
                )
                frame = request(RequestCode.UNREGISTER_CLIENT, header.to_fields())
                for address in addresses:
                    if address in connected:
                        nursery.start_soon(self._tell, address, frame)


# Seconds for unregistering; it is shielded from cancellation, so it must end.
LEAVE_TIMEOUT_S = 3.0


@asynccontextmanager
async def open_client(
    name_servers: NameServersLike,
    options: ClientOptions,
    *,
    default_topic: str = "",
    default_topic_queues: int = 4,
    dial: Dial = dial_tcp,
    clock_ms: Callable[[], int] = now_ms,
) -> AsyncIterator[Client]:
    """Open a client instance; nothing is sent before it is used.

    Leaving the block, in whatever way, unregisters at the brokers within ``LEAVE_TIMEOUT_S``.
    """
    check_in_trio()
    if options.telemetry:
        check_telemetry()
    found = find_name_servers(name_servers, unit_name=options.unit_name)
    addresses: tuple[str, ...] = ()
    discover: Discover | None = None
    if isinstance(found, Endpoint):
        towards, discover = found.host, partial(fetch_name_servers, found, dial)
    else:
        towards, addresses = split_address(found[0])[0], found
    async with (
        open_remoting_client(
            options=options.remoting, credentials=options.credentials, tls=options.tls, dial=dial
        ) as remoting,
        open_quiet_nursery() as nursery,
    ):
        servers = NameServers(
            remoting, addresses, timeout_s=options.call_timeout_s, discover=discover
        )
        routes = Routes(
            servers,
            default_topic=default_topic,
            default_topic_queues=default_topic_queues,
            logical_queues=options.logical_queues,
        )
        client = Client(remoting, routes, options, clock_ms, towards)
        client.start(nursery)
        try:
            yield client
        finally:
            nursery.cancel_scope.cancel()
            with trio.move_on_after(LEAVE_TIMEOUT_S, shield=True):
                await client.unregister()
