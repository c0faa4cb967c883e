"""The administrator's client: requests of one server, and what takes several.

Source: RocketMQ 4.9.8, DefaultMQAdminExtImpl.
"""

import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import final

from lanemq.wire import ORDER_TOPIC_NAMESPACE, Permission, RemoteProtocolError, retry_topic
from lanemq.wire.bodies import (
    BrokerData,
    ConsumerConnection,
    ConsumeStats,
    MessageQueue,
    OffsetWrapper,
    RouteData,
    TopicOffset,
    TopicStatsTable,
)
from lanemq.wire.logical import logical_broker_number
from lanemq.wire.message import StoredMessage, decode_offset_id

from .._errors import LanemqError, NoRoute
from .._options import ClientOptions
from ..net._acl import Credentials
from ..net._discovery import NameServersLike, ask_name_servers
from ..net._link import Dial
from ..net._remoting import RemotingClient, dial_tcp, open_remoting_client
from ..opening._unopened import opener
from ..opening._url import connect_without_group
from .logical._operations import LogicalQueueOperations
from .requests._caller import Caller
from .requests._consumers import ConsumerRequests
from .requests._messages import MessageRequests


@final
class AdminClient(LogicalQueueOperations, ConsumerRequests, MessageRequests):
    """Administers a cluster, of lanemq or of Apache RocketMQ. Made by ``open_admin``."""

    def __init__(
        self,
        client: RemotingClient,
        name_servers: Sequence[str],
        *,
        timeout_s: float,
        options: ClientOptions | None = None,
    ) -> None:
        self.name_servers: tuple[str, ...] = tuple(name_servers)
        """The addresses of the name servers. One that answers is asked until it fails."""
        self.client_options: ClientOptions = options or ClientOptions()
        """Options for producers and consumers of the same cluster: the same credentials and TLS."""
        self._caller = Caller(client, self.name_servers, timeout_s=timeout_s)

    async def broker_name(self, address: str) -> str:
        """Return the name under which ``address`` is registered. Raises ``LanemqError``."""
        info = await self.cluster()
        for name, broker in info.broker_addr_table.items():
            if address in broker.broker_addrs.values():
                return name
        raise LanemqError(f"broker {address} is registered at none of {self.name_servers}")

    async def address_of(self, broker_name: str) -> str:
        """Return an address of the broker ``broker_name``. Raises ``LanemqError``."""
        info = await self.cluster()
        broker = info.broker_addr_table.get(broker_name)
        address = chosen_address(broker) if broker is not None else None
        if address is None:
            known = ", ".join(sorted(info.broker_addr_table)) or "none"
            raise LanemqError(f"broker {broker_name!r} is unknown; the name server knows: {known}")
        return address

    async def add_order_config(self, topic: str, value: str, *, replace: bool) -> str:
        """Store which brokers keep the order of ``topic``, as ``broker:queues;broker:queues``.

        Without ``replace`` the brokers of ``value`` join those that are stored already.
        Returns what is stored now.
        """
        if not replace:
            stored = await self.value(ORDER_TOPIC_NAMESPACE, topic) or ""
            pairs = dict(
                pair.split(":", 1) for pair in f"{stored};{value}".split(";") if ":" in pair
            )
            value = ";".join(f"{name}:{count}" for name, count in pairs.items())
        await self.put_value(ORDER_TOPIC_NAMESPACE, topic, value)
        return value

    async def topic_status(self, topic: str) -> TopicStatsTable:
        """Return bounds and last write of every queue of ``topic``, on all its brokers."""
        table: dict[MessageQueue, TopicOffset] = {}
        for address in addresses_of(await self.route(topic)):
            table.update((await self.topic_offsets(address, topic)).offset_table)
        return TopicStatsTable(offset_table=table)

    async def progress(self, group: str, *, topic: str | None = None) -> ConsumeStats:
        """Return the progress of ``group``, on all brokers of its retry topic.

        Of logical queues, those of ``topic``, or of all topics that the group has read.
        Raises ``NoRoute`` for a group that no broker has ever seen.
        """
        table: dict[MessageQueue, OffsetWrapper] = {}
        tps = 0.0
        read = {topic} if topic is not None else set[str]()
        for address in addresses_of(await self.route(retry_topic(group))):
            stats = await self.consume_stats(address, group, topic=topic)
            table.update(stats.offset_table)
            tps += stats.consume_tps
            if topic is None and (members := await self.consumer_connections(address, group)):
                read |= set(members.subscription_table)
        for name in sorted(read - {retry_topic(group)}):
            if logical := await self._logical_progress(group, name):
                # Asked for one topic, brokers list its queues whether the group reads them or not.
                table = {q: o for q, o in table.items() if q.topic != name or o.consumer_offset}
                table |= logical
        return ConsumeStats(offset_table=table, consume_tps=tps)

    async def _logical_progress(self, group: str, topic: str) -> dict[MessageQueue, OffsetWrapper]:
        """Ask the servers that stand for a topic's logical queues, if any do."""
        try:
            route = await self.route(topic)
        except NoRoute:
            return {}
        table: dict[MessageQueue, OffsetWrapper] = {}
        for broker in route.broker_datas:
            address = chosen_address(broker)
            if logical_broker_number(broker.broker_name) is not None and address is not None:
                table |= (await self.consume_stats(address, group, topic=topic)).offset_table
        return table

    async def connections(self, group: str) -> ConsumerConnection | None:
        """Return the connected members of ``group``, None without any."""
        for address in addresses_of(await self.route(retry_topic(group))):
            connections = await self.consumer_connections(address, group)
            if connections is not None:
                return connections
        return None

    async def message(self, message_id: str, *, topic: str | None = None) -> StoredMessage | None:
        """Find a message by its offset id or, where ``topic`` is known, by its unique key."""
        try:
            host, log_position = decode_offset_id(message_id)
        except RemoteProtocolError:
            raise LanemqError(
                f"{message_id!r} is not a message id: 32 hexadecimal digits, 56 with IPv6"
            ) from None
        known = {
            address
            for broker in (await self.cluster()).broker_addr_table.values()
            for address in broker.broker_addrs.values()
        }
        # The two kinds of id look alike: one that names no broker of ours is not dialled.
        found = None
        if str(host) in known:
            found = await self.message_at(str(host), log_position, topic=topic or "")
        elif topic is None:
            raise LanemqError(
                f"message id {message_id} names no broker of this cluster (it names {host}); "
                "an id that a producer gave out is found by queryMsgByUniqueKey, with its topic"
            )
        if found is None and topic is not None:
            found = next(iter(await self.messages_by_unique_key(topic, message_id)), None)
        return found

    async def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        max_count: int = 64,
        begin_ms: int = 0,
        end_ms: int = (1 << 63) - 1,
    ) -> list[StoredMessage]:
        """Return the messages of ``topic`` that carry ``key``, from all its brokers."""
        found: list[StoredMessage] = []
        for address in addresses_of(await self.route(topic)):
            found += await self.query(
                address, topic, key, max_count=max_count, begin_ms=begin_ms, end_ms=end_ms
            )
        return found

    async def messages_by_unique_key(self, topic: str, key: str) -> list[StoredMessage]:
        """Return the messages with one unique key, the first stored first.

        There are several where a producer sent again after a time-out, or a consumer gave the
        message back.
        """
        found: list[StoredMessage] = []
        for address in addresses_of(await self.route(topic)):
            found += await self.query(address, topic, key, unique=True, max_count=32)
        return sorted(found, key=lambda message: message.store_timestamp_ms)


def chosen_address(broker: BrokerData) -> str | None:
    """Return the address of the master, or of any slave where there is no master."""
    addresses = broker.broker_addrs
    if not addresses:
        return None
    return addresses.get(0) or addresses[min(addresses)]


def addresses_of(route: RouteData) -> Iterator[str]:
    """Yield one address for each broker of a route."""
    for broker in route.broker_datas:
        address = chosen_address(broker)
        if address is not None:
            yield address


def queues_of(route: RouteData, topic: str) -> Iterator[tuple[str, MessageQueue]]:
    """Yield the address and the name of each readable queue of a route."""
    addresses = {broker.broker_name: chosen_address(broker) for broker in route.broker_datas}
    if static := route.static_queues():
        for queue_id, place in static.items():
            address = addresses.get(place.broker_name)
            if address is not None:
                yield address, MessageQueue(topic, place.broker_name, queue_id)
        return
    for queues in sorted(route.queue_datas, key=lambda queues: queues.broker_name):
        address = addresses.get(queues.broker_name)
        if address is None or not queues.perm & Permission.READ:
            continue
        for queue_id in queues.read_queues:
            yield (
                address,
                MessageQueue(topic=topic, broker_name=queues.broker_name, queue_id=queue_id),
            )


@opener
async def open_admin(
    *,
    name_servers: NameServersLike = None,
    timeout_s: float = 5.0,
    credentials: Credentials | None = None,
    tls: ssl.SSLContext | None = None,
    dial: Dial = dial_tcp,
) -> AsyncIterator[AdminClient]:
    """Open an administrator's client; leaving the block closes its connections.

    ``name_servers``, ``credentials`` and ``tls`` are as for producers and consumers; of a
    connection string hosts, account and TLS count.
    ``timeout_s`` bounds each request, ``dial`` is the seam to the network, for tests. Raises
    ``ValueError`` where there is no name server, and ``LanemqError`` from an HTTP endpoint that
    does not say where they are.
    """
    name_servers, credentials, tls = connect_without_group(name_servers, credentials, tls)
    found = await ask_name_servers(name_servers, dial)
    async with open_remoting_client(credentials=credentials, tls=tls, dial=dial) as client:
        options = ClientOptions(call_timeout_s=timeout_s, credentials=credentials, tls=tls)
        yield AdminClient(client, found, timeout_s=timeout_s, options=options)
