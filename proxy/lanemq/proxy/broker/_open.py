"""Opening a broker: its ports, its store, its registration, in the order that is safe.

Source: RocketMQ 4.9.8, BrokerStartup, BrokerController.start and shutdown.
"""

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import trio

from lanemq.sdk import open_remoting_client
from lanemq.storage import open_store
from lanemq.wire import HostAddress, TopicConfigWrapper

from .._listen import listen_with_vip
from .._settings import ConfigError
from ._broker import Broker
from ._config import BrokerConfig
from ._registration import Registrar

HA_ABOVE = 1
"""Where a reference broker's replication port would be; told to name servers, not opened."""

REGISTERED_WITHIN_S = 6.0
"""How long opening waits for name servers to have been tried once."""


@asynccontextmanager
async def open_broker(config: BrokerConfig) -> AsyncIterator[Broker]:
    """Run a broker for the length of the block; when it begins, clients can be served.

    Name servers were told by then, those that could be reached; the others will be. At the end
    they are told that the broker goes, then the ports close, then the store, durable.

    Raises ``AddressUnavailable`` for a taken port, ``ConfigError`` for an advertised address
    that cannot be resolved, and what ``open_store`` raises.
    """
    main, vip = listen_with_vip(config.bind_address, config.listen_port)
    async with AsyncExitStack() as stack:
        stack.callback(main.close)
        stack.callback(vip.close)
        address = await _advertised(config.advertised_host, main.getsockname()[1])
        store = await stack.enter_async_context(open_store(config.store_config()))
        client = await stack.enter_async_context(open_remoting_client())
        registrar = Registrar(
            config,
            client,
            address=str(address),
            ha_address=str(HostAddress(address.host, address.port + HA_ABOVE)),
            topics=lambda: TopicConfigWrapper(
                store.tables.topics.configs, store.tables.topics.data_version
            ),
        )
        broker = Broker(config, store, address=address, announce=registrar.announce)
        async with trio.open_nursery() as nursery:
            await nursery.start(broker.server.serve, [main, vip])
            nursery.start_soon(broker.run)
            nursery.start_soon(registrar.run)
            await registrar.registered(REGISTERED_WITHIN_S)
            try:
                yield broker
            finally:
                with trio.CancelScope(shield=True):  # both steps have a limit of their own
                    await registrar.unregister()
                    await broker.server.stop()
                nursery.cancel_scope.cancel()


async def _advertised(host: str, port: int) -> HostAddress:
    """The address given to clients, as a literal: it becomes part of message ids."""
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"brokerIP1 {host!r} cannot be resolved: {error}") from error
    return HostAddress.of_peer(found[0][4])
