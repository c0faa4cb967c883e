"""A running broker: its ports, its store, its registration.

Source: RocketMQ 4.9.8, BrokerStartup, BrokerController.
"""

import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, final

import trio

from lanemq.sdk import Dial, dial_tcp, open_remoting_client
from lanemq.storage import Files, open_store
from lanemq.wire import HostAddress, TopicConfigWrapper
from lanemq.wire.logical import LogicalListenerReport

from .._listen import listen_with_vip
from ..listener import LogicalListener
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
    logical_address: HostAddress | None = None
    """Where clients that do not know logical queues find them; None where nobody listens."""

    @property
    def logical_text(self) -> str | None:
        """``logical_address`` as text."""
        return None if self.logical_address is None else str(self.logical_address)


class LogicalPorts(NamedTuple):
    """The sockets of a logical listener (none in a simulation), and where clients reach it."""

    listeners: Sequence[socket.socket]
    address: HostAddress


@asynccontextmanager
async def open_broker(config: BrokerConfig) -> AsyncIterator[RunningBroker]:
    """Run a broker for the length of the block.

    At its end the broker unregisters, lets answers leave, closes its ports and flushes its
    store. Raises ``AddressUnavailable``, ``ConfigError`` and what ``open_store`` raises.
    """
    with ExitStack() as sockets:

        def listen_at(port: int) -> tuple[list[socket.socket], HostAddress]:
            opened = listen_with_vip(config.bind_address, port)
            for one in opened:
                sockets.enter_context(one)
            return list(opened), HostAddress(config.advertised_host, opened[0].getsockname()[1])

        listeners, address = listen_at(config.listen_port)
        logical: LogicalPorts | None = None
        if config.logical_port is not None:
            logical = LogicalPorts(*listen_at(config.logical_port))
        async with run_broker(
            config, address=address, listeners=listeners, logical=logical
        ) as broker:
            yield RunningBroker(
                config.broker_name,
                address,
                address.port,
                listeners[1].getsockname()[1],
                broker,
                None if logical is None else logical.address,
            )


@asynccontextmanager
async def run_broker(
    config: BrokerConfig,
    *,
    address: HostAddress,
    listeners: Sequence[socket.socket] = (),
    logical: LogicalPorts | None = None,
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
            logical_queues=lambda: broker.context.logical.known_queues(),
            on_java_setting=lambda server, setting: broker.context.logical.java_settings.update(
                {server: setting}
            ),
            on_order_topics=lambda table: _mark_ordered(broker, table),
            logical_listener=(
                None
                if logical is None
                else LogicalListenerReport(str(logical.address), since_ms=clock_ms())
            ),
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
            if logical is not None:
                listener = LogicalListener(broker, client, address=logical.address)
                broker.logical_listener = listener
                await nursery.start(listener.server.serve, logical.listeners)
                nursery.start_soon(listener.run)
            nursery.start_soon(broker.run)
            nursery.start_soon(registrar.run)
            await registrar.registered(FIRST_REGISTRATION_S)
            try:
                yield broker
            finally:
                with trio.CancelScope(shield=True):  # both calls are bounded
                    await registrar.unregister()
                    await broker.stop()
                    if broker.logical_listener is not None:
                        await broker.logical_listener.server.stop()
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
