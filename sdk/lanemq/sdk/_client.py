"""A client instance: connections, routes, heartbeats and identity of one producer or consumer.

Source: RocketMQ 4.9.8, MQClientInstance.
"""

import importlib
import ipaddress
import itertools
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import final

import trio

from lanemq.wire import (
    MASTER_ID,
    ConsumerData,
    Frame,
    HeartbeatData,
    ProducerData,
    RequestCode,
    UniqueKeys,
    UnregisterClient,
    request,
)

from ._discovery import Endpoint, NameServersLike, fetch_name_servers, find_name_servers
from ._errors import LanemqError, WrongUse
from ._link import Dial
from ._local_ip import local_ip
from ._log import get_logger
from ._options import ClientOptions
from ._remoting import RemotingClient, dial_tcp, open_remoting_client, split_address
from ._routes import Discover, NameServers, Routes
from ._tasks import open_quiet_nursery

LOGGER = get_logger("lanemq.sdk.client")

_NUMBERS = itertools.count(1)  # tells the clients of one process apart
# A topic without a route is looked for more often than every 30 s while a client is young: the
# retry topic of a new group appears with the first heartbeat, and shows a moment later.
_EARLY_LOOKS_S = (1.0, 2.0, 4.0, 8.0)


def now_ms() -> int:
    """The time of day in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@final
class Client:
    """What a producer or a consumer stands on. Made by `open_client`."""

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
        number = next(_NUMBERS)
        ip = local_ip(towards)
        self.client_id = f"{ipaddress.ip_address(ip)}@{os.getpid()}#{number}"
        self.unique_keys = UniqueKeys(ip, os.getpid(), number)
        self._producer_groups: dict[str, None] = {}
        self._consumers: dict[str, Callable[[], ConsumerData]] = {}
        self._introduced: dict[str, int | None] = {}  # address -> connection that knows us

    def add_producer(self, group: str) -> None:
        """Announce ``group`` in heartbeats to masters."""
        self._producer_groups[group] = None

    def add_consumer(self, group: str, describe: Callable[[], ConsumerData]) -> None:
        """Announce what ``describe`` gives in heartbeats to all brokers."""
        self._consumers[group] = describe

    # Heartbeats

    def _heartbeat_frame(self) -> Frame:
        body = HeartbeatData(
            client_id=self.client_id,
            producer_data_set=tuple(map(ProducerData, self._producer_groups)),
            consumer_data_set=tuple(describe() for describe in self._consumers.values()),
        )
        return request(RequestCode.HEART_BEAT, body=body.encode())

    def _heartbeat_addresses(self) -> list[str]:
        return [
            address
            for addresses in self.routes.brokers().values()
            for broker_id, address in addresses.items()
            if broker_id == MASTER_ID or self._consumers
        ]

    async def heartbeat(self, addresses: Iterable[str] | None = None) -> None:
        """Tell all brokers of the known routes (or ``addresses``) who we are; wait for them.

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
        strangers = [
            address
            for address in self._heartbeat_addresses()
            if (number := self.remoting.connection_number(address)) is None
            or self._introduced.get(address) != number
        ]
        if strangers:
            await self.heartbeat(strangers)

    async def _beat(self, address: str, frame: Frame) -> None:
        if await self._tell(address, frame):
            self._introduced[address] = self.remoting.connection_number(address)

    async def _tell(self, address: str, frame: Frame) -> bool:
        try:
            await self.remoting.call(address, frame, self.options.call_timeout_s)
        except LanemqError as error:
            LOGGER.warning("%s: request %d failed: %s", self.client_id, frame.code, error)
            return False
        return True

    async def _heartbeats(self) -> None:
        while True:
            await trio.sleep(self.options.heartbeat_interval_s)
            await self.heartbeat()

    async def _early_looks(self) -> None:
        for delay_s in _EARLY_LOOKS_S:
            await trio.sleep(delay_s)
            for topic in self.routes.watched:
                if self.routes.get(topic) is None:
                    await self.refresh_quietly(topic)

    async def _refreshes(self) -> None:
        while True:
            await trio.sleep(self.options.route_refresh_s)
            await self.routes.refresh_all()

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
        nursery.start_soon(self._refreshes)
        if self.routes.name_servers.discovers:
            nursery.start_soon(self._discoveries)

    async def unregister(self) -> None:
        """Take leave of every broker, so that the rest of a group shares our queues at once."""
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


def check_telemetry() -> None:
    """Raise ``WrongUse`` where OpenTelemetry is not installed."""
    try:
        importlib.import_module("opentelemetry.metrics")
    except ImportError as error:
        raise WrongUse("telemetry needs OpenTelemetry: pip install 'lanemq[otel]'") from error


# Seconds for taking leave; it is shielded from cancellation, so it must end.
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
