"""Registration at name servers: at start, every 30 s, on every change, and the farewell.

A change is a new or another topic, or a connection that was lost: a name server forgets a
broker whose connection ends.
Each name server has a task of its own, so one that is down delays none of the others.
Source: RocketMQ 4.9.8, BrokerController.registerBrokerAll, BrokerOuterAPI.
"""

import math
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.sdk import LanemqError, RemotingClient
from lanemq.storage import Supervisor
from lanemq.wire import ProtocolError, RequestCode
from lanemq.wire.bodies import (
    DataVersion,
    KVTable,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigWrapper,
)
from lanemq.wire.frame import Frame, request
from lanemq.wire.headers import (
    QueryDataVersion,
    QueryDataVersionResponse,
    RegisterBroker,
    RegisterBrokerResponse,
    UnregisterBroker,
)
from lanemq.wire.logical import LogicalListenerReport, LogicalQueues

from ...net._turns import LONG_PARTS
from ..settings._config import BrokerConfig
from ._told_topics import ToldTopics

LOGGER = get_logger("lanemq.proxy.broker.registration")

RETRY_S: Final = 2.0
"""Seconds until a failed attempt is repeated, or a lost connection noticed."""

TOLD_S: Final = 3.0
"""Seconds that ``Registrar.told`` waits for name servers that do not answer.

As long as 5.3.3 waits for one that is told of a topic (BrokerController.registerSingleTopicAll);
Apache's tools wait 5 s for the broker.
"""

UNREGISTER_S: Final = 2.0
"""Seconds that a shutdown waits for name servers to take the farewell."""


@final
@define(eq=False, kw_only=True, repr=False)
class Registrar:
    """The registrar of one broker. ``run`` does the work; the rest never waits."""

    _config: BrokerConfig
    _client: RemotingClient
    _address: str
    _ha_address: str
    _topics: Callable[[], TopicConfigWrapper]
    """Returns all topics, which may change, with their data version of now."""
    _logical_queues: Callable[[], Mapping[str, LogicalQueues]] = dict
    """Returns what the broker knows of logical queues, topic by topic: of others' segments only
    what is missing between them and its own is registered."""
    _on_java_setting: Callable[[str, str], None] = lambda server, setting: None
    """Hears, with its name, which topics' logical queues a name server tells Java clients of."""
    _on_order_topics: Callable[[Mapping[str, str]], None] = lambda table: None
    """Hears which topics the name server's operator has declared ordered."""
    _logical_listener: LogicalListenerReport | None = None
    _logical_brokers: Callable[[str], int] = lambda topic: 1
    """Returns at how many brokers older clients see a topic."""
    _servers: "list[_NameServer]" = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._servers = [_NameServer(name) for name in self._config.name_servers]

    def announce(self, topic: TopicConfig) -> None:
        """Tell every name server at once of a topic that was created or changed."""
        for server in self._servers:
            server.changed[topic.topic_name] = topic
            server.wake.set()

    def announce_all(self) -> None:
        """Tell every name server of a change that concerns every topic (see ``announce``)."""
        for server in self._servers:
            server.is_stale = True
            server.wake.set()

    async def run(self, supervisor: Supervisor) -> None:
        """Keep the broker registered until cancelled."""
        async with trio.open_nursery() as nursery:
            for server in self._servers:
                name = f"registration at {server.name}"
                nursery.start_soon(supervisor.run, name, partial(self._attend, server))

    async def registered(self, timeout_s: float) -> bool:
        """Wait until every name server was tried once; returns whether all of them know the
        broker."""
        with trio.move_on_after(timeout_s):
            for server in self._servers:
                await server.tried.wait()
        return all(server.is_registered for server in self._servers)

    async def told(self) -> None:
        """Wait until the name servers that can be reached know of every change up to now.

        That is what an operator expects who asks them next. Not longer than ``TOLD_S``.
        """
        with trio.move_on_after(TOLD_S):
            for server in self._servers:
                while (server.is_behind or server.is_telling) and not server.is_failing:
                    await server.done.wait()

    async def unregister(self) -> None:
        """Unregister at every name server that can be reached within ``UNREGISTER_S``."""
        with trio.move_on_after(UNREGISTER_S, shield=True):
            async with trio.open_nursery() as nursery:
                for server in self._servers:
                    nursery.start_soon(self._unregister, server)

    async def _attend(self, server: "_NameServer") -> None:
        period_s = self._config.register_name_server_period / 1000
        due_s = -math.inf
        while True:
            # Others ask over the same client, and may have connected again already.
            connection = self._client.connection_number(server.name)
            if connection is None or connection != server.connection:
                server.is_registered = False
            now_s = trio.current_time()
            if now_s >= due_s or server.is_behind:
                is_whole = now_s >= due_s or not server.is_registered or server.is_stale
                if await self._register(server, is_whole=is_whole) and is_whole:
                    due_s = now_s + period_s
            with trio.move_on_after(RETRY_S):
                await server.wake.wait()
            server.wake = trio.Event()

    async def _register(self, server: "_NameServer", *, is_whole: bool) -> bool:
        """Tell a name server everything, or the latest changes; returns whether it worked."""
        told = self._told(None if is_whole else server.changed)
        is_routine = server.is_registered and not server.is_stale and not server.changed
        server.changed, server.is_stale, server.is_telling = {}, False, True
        connection = self._client.connection_number(server.name)
        try:
            asks_first = is_routine and not self._config.force_register
            if asks_first and not await self._is_news(server, told.version):
                return True
            answer = await self._call(server, await self._registration(told))
            setting = RegisterBrokerResponse.from_fields(answer.fields)
            if setting.serve_logical_queue_to_java is not None:
                self._on_java_setting(server.name, setting.serve_logical_queue_to_java)
            if answer.body:
                self._on_order_topics(KVTable.decode(answer.body).table)
        except (LanemqError, ProtocolError) as error:
            if not server.is_failing:
                LOGGER.warning("cannot register at name server %s: %s", server.name, error)
            server.is_failing, server.is_registered = True, False
            return False
        finally:
            server.tried.set()
            server.is_telling = False
            server.done.set()
            server.done = trio.Event()
        if not server.is_registered:
            LOGGER.info(
                "broker %s %s is registered at name server %s",
                self._config.broker_name,
                self._address,
                server.name,
            )
        if connection is None:  # the registration has opened it
            connection = self._client.connection_number(server.name)
        server.connection, server.is_registered, server.is_failing = connection, True, False
        return True

    def _told(self, changed: Mapping[str, TopicConfig] | None) -> ToldTopics:
        """Return all topics, or those that changed, as they are now.

        A name server takes a version it has seen for one it knows all topics of. So a part
        may go only to one that has the rest: over the connection that brought it there.
        """
        everything = self._topics()
        table: Mapping[str, TopicConfig] = everything.topic_config_table
        known = self._logical_queues()
        if changed is None:
            table, known = dict(table), dict(known)
        else:
            table = {name: table[name] for name in changed if name in table}
            known = {name: known[name] for name in changed if name in known}
        return ToldTopics(
            config=self._config,
            listener=self._logical_listener,
            table=table,
            known=known,
            brokers={name: self._logical_brokers(name) for name in known},
            version=everything.data_version,
            is_whole=changed is None,
        )

    async def _registration(self, told: ToldTopics) -> Frame:
        """Make the request; the body of one with many topics or segments is written beside the
        loop."""
        config = self._config
        # The compressed form has no room for logical queues.
        compressed = config.compressed_register and not self._logical_queues()

        def encode() -> bytes:
            content = RegisterBrokerBody(told.wrapper())
            return content.encode_compressed() if compressed else content.encode()

        is_long = told.parts >= LONG_PARTS
        body = await trio.to_thread.run_sync(encode) if is_long else encode()
        header = RegisterBroker(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            ha_server_addr=self._ha_address,
            broker_id=config.broker_id,
            compressed=compressed,
            body_crc32=zlib.crc32(body) & 0x7FFF_FFFF,
        )
        return request(RequestCode.REGISTER_BROKER, header.to_fields(), body)

    async def _is_news(self, server: "_NameServer", version: DataVersion) -> bool:
        header = QueryDataVersion(
            broker_name=self._config.broker_name,
            broker_addr=self._address,
            cluster_name=self._config.broker_cluster_name,
            broker_id=self._config.broker_id,
        )
        asked = request(RequestCode.QUERY_DATA_VERSION, header.to_fields(), version.encode())
        answer = await self._call(server, asked)
        return QueryDataVersionResponse.from_fields(answer.fields).changed

    async def _unregister(self, server: "_NameServer") -> None:
        header = UnregisterBroker(
            broker_name=self._config.broker_name,
            broker_addr=self._address,
            cluster_name=self._config.broker_cluster_name,
            broker_id=self._config.broker_id,
        )
        try:
            await self._call(server, request(RequestCode.UNREGISTER_BROKER, header.to_fields()))
        except LanemqError as error:
            LOGGER.warning("cannot unregister at name server %s: %s", server.name, error)

    async def _call(self, server: "_NameServer", frame: Frame) -> Frame:
        timeout_s = self._config.register_broker_timeout_mills / 1000
        return await self._client.call(server.name, frame, timeout_s)


@define(eq=False, repr=False)
class _NameServer:
    """One name server: what it knows, and what it has to be told."""

    name: str
    changed: dict[str, TopicConfig] = field(factory=dict)
    is_stale: bool = False
    """True if everything has to be told again."""
    is_registered: bool = False
    """True if it has been told everything but the above, over ``connection``."""
    connection: int | None = None
    """The number of the connection over which it was told; see ``RemotingClient``."""
    is_failing: bool = False
    """True if the last attempt failed, and that was logged."""
    is_telling: bool = False
    """True while an attempt is under way."""
    wake: trio.Event = field(factory=trio.Event)
    done: trio.Event = field(factory=trio.Event)
    """Event that is set after the next attempt."""
    tried: trio.Event = field(factory=trio.Event)

    @property
    def is_behind(self) -> bool:
        return bool(self.changed) or self.is_stale or not self.is_registered
