"""A running broker: its ports, its store, its registration.

Source: RocketMQ 4.9.8, BrokerStartup, BrokerController.
"""

import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, final

import trio

from lanemq.sdk import Dial, dial_tcp, open_remoting_client
from lanemq.storage import Files, open_store
from lanemq.wire import HostAddress, TopicConfigWrapper

from .._listen import listen_with_vip
from ._broker import Broker
from ._config import BrokerConfig
from ._context import wall_clock_ms
from ._registration import Registrar

FIRST_REGISTRATION_S: Final = 3.0
"""How long the start waits for name servers; one that is down later hears of it when it is up."""

_HA_ABOVE: Final = 1  # the port a slave would replicate from; name servers insist on one


@final
@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that is listening and registered."""

    name: str
    address: HostAddress
    """What clients are told."""
    port: int
    """The main port."""
    vip_port: int
    """The port two below, where clients of 4.0 to 4.4 send."""
    broker: Broker


@asynccontextmanager
async def open_broker(config: BrokerConfig) -> AsyncIterator[RunningBroker]:
    """Run a broker for the length of the block.

    At its end the broker unregisters, lets answers leave, closes its ports and flushes its
    store. Raises ``AddressUnavailable``, ``ConfigError`` and what ``open_store`` raises.
    """
    main, vip = listen_with_vip(config.bind_address, config.listen_port)
    with main, vip:
        port, vip_port = main.getsockname()[1], vip.getsockname()[1]
        address = HostAddress(config.advertised_host, port)
        async with run_broker(config, address=address, listeners=[main, vip]) as broker:
            yield RunningBroker(config.broker_name, address, port, vip_port, broker)


@asynccontextmanager
async def run_broker(
    config: BrokerConfig,
    *,
    address: HostAddress,
    listeners: Sequence[socket.socket] = (),
    files: Files | None = None,
    clock_ms: Callable[[], int] = wall_clock_ms,
    dial: Dial = dial_tcp,
) -> AsyncIterator[Broker]:
    """As ``open_broker``, at sockets that are open already.

    A simulation passes none of them and serves streams (``Broker.server.serve_stream``), with
    its own disk, its own time of day and its own network.
    """
    async with (
        open_store(config.store_config(), files=files, clock_ms=clock_ms) as store,
        open_remoting_client(dial=dial) as client,
    ):
        tables = store.tables.topics
        registrar = Registrar(
            config,
            client,
            address=str(address),
            ha_address=str(HostAddress(address.host, address.port + _HA_ABOVE)),
            topics=lambda: TopicConfigWrapper(dict(tables.configs), tables.data_version),
            logical_queues=lambda: broker.context.logical.own_queues(),
            on_java_setting=lambda server, setting: broker.context.logical.java_settings.update(
                {server: setting}
            ),
            on_order_topics=lambda table: _mark_ordered(broker, table),
        )
        broker = Broker(
            config,
            store,
            address=address,
            announce=registrar.announce,
            announce_all=registrar.announce_all,
            announced=registrar.told,
            client=client,
            now_ms=clock_ms,
        )
        await broker.check_start()
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.server.serve, listeners)
            nursery.start_soon(broker.run)
            nursery.start_soon(registrar.run)
            await registrar.registered(FIRST_REGISTRATION_S)
            try:
                yield broker
            finally:
                with trio.CancelScope(shield=True):  # both calls are bounded
                    await registrar.unregister()
                    await broker.stop()
                nursery.cancel_scope.cancel()


def _mark_ordered(broker: Broker, table: Mapping[str, str]) -> None:
    """Take over which topics the name server's operator has declared ordered.

    (4.9.8 also takes the mark from topics that are not listed; but there a broker forgets the
    mark that updateTopic asks for, and here it does not.)
    """
    topics = broker.context.topics
    for name in table:
        topic = topics.get(name)
        if topic is not None and not topic.order:
            topics.put(replace(topic, order=True))
