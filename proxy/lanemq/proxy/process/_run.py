"""The parts of a broker's process, run together: store, broker, logical listener, registration.

Source: RocketMQ 4.9.8, BrokerController.
"""

import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, final

import trio

from lanemq.sdk import Dial, RemotingClient, dial_tcp, open_remoting_client
from lanemq.storage import Files, Store, open_store, system_clock_ms
from lanemq.wire import HostAddress
from lanemq.wire.bodies import TopicConfigWrapper
from lanemq.wire.logical import LogicalListenerReport

from .._settings import ConfigError
from ..acl import AccessControl, AccountControl, AccountFiles
from ..acl.users import UserControl
from ..broker import Broker, BrokerConfig, BrokerContext
from ..broker.cluster._registration import Registrar
from ..broker.state._topics import Topics
from ..logical.listener import LogicalListener
from ..net.limits._budget import Budget
from ..tls import ProcessTls
from ._own_broker import listener_host, own_broker

FIRST_REGISTRATION_S: Final = 3.0
"""Seconds that the start waits for name servers; one that is down is told when it is up."""

_HA_ABOVE: Final = 1  # the port a slave would replicate from; name servers insist on one


class LogicalPorts(NamedTuple):
    """The sockets of a logical listener (none in a simulation), and its addresses for clients."""

    listeners: Sequence[socket.socket]
    address: HostAddress
    numbered: "Sequence[LogicalPorts]" = ()
    """The ports of each of the brokers that older clients see, where there are several."""


@final
@dataclass(frozen=True, slots=True)
class Parts:
    """The servers of a process."""

    broker: Broker
    listener: LogicalListener | None
    """The logical listener, for clients that do not know logical queues; None without such
    ports."""


@asynccontextmanager
async def run_broker(
    config: BrokerConfig,
    *,
    address: HostAddress,
    listeners: Sequence[socket.socket] = (),
    logical: LogicalPorts | None = None,
    files: Files | None = None,
    clock_ms: Callable[[], int] = system_clock_ms,
    dial: Dial = dial_tcp,
    budget: Budget | None = None,
    is_alone: Callable[[], bool] | None = None,
    tls: ProcessTls | None = None,
) -> AsyncIterator[Parts]:
    """Run a broker as ``open_broker``, at sockets that are open already.

    A simulation passes none of them and serves streams (``Server.serve_stream``), with its own
    disk, its own time of day and its own network. ``tls`` is made of the configuration where it is
    None.
    """
    ports = () if logical is None else (logical, *logical.numbered)
    addresses = frozenset(map(str, (address, *(port.address for port in ports))))
    access_control: AccessControl | None = accounts_of(config, addresses)
    if tls is None:
        tls = ProcessTls(config, name=f"broker {config.broker_name}")
    async with (
        open_store(config.store_config(), files=files, clock_ms=clock_ms) as store,
        open_remoting_client(credentials=config.inner_credentials, dial=tls.dial(dial)) as client,
    ):
        access_control = access_control or users_of(config, addresses)
        report = None if logical is None else _report(logical, clock_ms())
        registrar, context = _context(
            config, store, client, address, report, clock_ms, budget, access_control
        )
        broker = Broker(context, is_alone=is_alone, tls=tls.server)
        listener = None if logical is None else _listener(broker, client, logical)
        await broker.check_start()
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.server.serve, listeners)
            if listener is not None:
                for server, port in zip(listener.servers, ports, strict=True):
                    await nursery.start(server.serve, port.listeners)
                nursery.start_soon(listener.run)
            nursery.start_soon(broker.run)
            supervisor = broker.context.supervisor
            nursery.start_soon(supervisor.run, "looking for new certificates", tls.watch)
            nursery.start_soon(registrar.run, supervisor)
            await registrar.registered(FIRST_REGISTRATION_S)
            await broker.check_registered()
            try:
                yield Parts(broker, listener)
            finally:
                with trio.CancelScope(shield=True):  # both calls are bounded
                    await registrar.unregister()
                    await broker.stop()
                    if listener is not None:
                        await listener.stop()
                nursery.cancel_scope.cancel()


def accounts_of(config: BrokerConfig, addresses: Collection[str] = ()) -> AccountControl | None:
    """Read the accounts of a broker with ACL of 4.x. Raises ``ConfigError``."""
    if not config.acl_enable:
        return None
    assert config.rocketmq_home is not None, "the settings have been checked"
    return AccountControl(AccountFiles(config.rocketmq_home), addresses=addresses)


def users_of(config: BrokerConfig, addresses: Collection[str] = ()) -> UserControl | None:
    """Read the users of a broker with authentication, whose store is open.

    Raises ``ConfigError``.
    """
    if not config.authentication_enabled:
        return None
    return UserControl(
        config.store_path_root_dir / "config" / "users.json",
        cluster=config.broker_cluster_name,
        super_users=[one for one in (config.first_user, config.inner_credentials) if one],
        checks_policies=config.authorization_enabled,
        open_to_all=config.codes_open_to_all,
        open_to_users=config.codes_open_to_users,
        addresses=addresses,
    )


def _context(
    config: BrokerConfig,
    store: Store,
    client: RemotingClient,
    address: HostAddress,
    report: LogicalListenerReport | None,
    clock_ms: Callable[[], int],
    budget: Budget | None,
    access_control: AccessControl | None,
) -> tuple[Registrar, BrokerContext]:
    """Build a broker's context, and its other end at the name servers; each tells the other of
    changes."""
    tables = store.tables.topics
    registrar = Registrar(
        config=config,
        client=client,
        address=str(address),
        ha_address=str(HostAddress(address.host, address.port + _HA_ABOVE)),
        topics=lambda: TopicConfigWrapper(tables.configs, tables.data_version),
        logical_queues=lambda: context.logical.known_queues(),
        on_java_setting=lambda server, setting: context.logical.java_settings.update(
            {server: setting}
        ),
        on_order_topics=lambda table: _mark_ordered(context.topics, table),
        logical_listener=report,
        logical_brokers=lambda topic: context.logical.brokers.get(topic, 1),
    )
    context = BrokerContext(
        config,
        store,
        address=address,
        announce=registrar.announce,
        announce_all=registrar.announce_all,
        announced=registrar.told,
        client=client,
        now_ms=clock_ms,
        budget=budget,
        access_control=access_control,
    )
    return registrar, context


def _report(logical: LogicalPorts, since_ms: int) -> LogicalListenerReport:
    numbered = tuple(str(one.address) for one in logical.numbered)
    return LogicalListenerReport(str(logical.address), since_ms=since_ms, addresses=numbered)


def _listener(broker: Broker, client: RemotingClient, logical: LogicalPorts) -> LogicalListener:
    """Build the listener; refuse to serve fewer brokers to older clients than a topic has."""
    count = len(logical.numbered) or 1
    for topic, brokers in sorted(broker.context.logical.brokers.items()):
        if brokers > count:
            raise ConfigError(
                f"logicalQueueBrokers is {count}, but clients see the logical queues of topic "
                f"{topic} at {brokers} brokers: set it to {brokers} or more"
            )
    numbered = [one.address for one in logical.numbered]
    return LogicalListener(
        listener_host(broker),
        client,
        address=logical.address,
        own=own_broker(broker),
        numbered=numbered,
    )


def _mark_ordered(topics: Topics, table: Mapping[str, str]) -> None:
    """Take over the topics that the name server's operator has declared ordered.

    (4.9.8 also takes the mark from topics that are not listed; but there a broker forgets the
    mark that updateTopic asks for, and here it does not.)
    """
    for name in table:
        topic = topics.get(name)
        if topic is not None and not topic.order:
            topics.put(replace(topic, order=True))
