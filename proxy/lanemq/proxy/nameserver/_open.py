"""A running name server.

Source: RocketMQ 4.9.8, NamesrvController.
"""

import logging
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import final

import trio

from .._dispatch import Handlers
from .._listen import listen
from .._server import Server
from .._settings import parse_properties, read_file
from ._config import NameServerConfig
from ._handlers import NameServerHandlers
from ._kv import KVConfig
from ._routes import RouteTable

LOGGER = logging.getLogger("lanemq.proxy.nameserver")

BROKER_SILENCE_S = 120.0
"""A broker that registers every 30 s and was not heard from for this long is gone."""


@final
@dataclass(frozen=True, slots=True)
class NameServer:
    """A name server that is listening."""

    host: str
    port: int
    routes: RouteTable

    @property
    def address(self) -> str:
        """``host:port``, as clients are configured with it."""
        return f"{self.host}:{self.port}"


@asynccontextmanager
async def open_nameserver(config: NameServerConfig) -> AsyncIterator[NameServer]:
    """Run a name server for the length of the block; it listens when the block begins.

    Settings that an admin tool changed before are in force again. Raises ``AddressUnavailable``
    if the port is taken, ``ConfigError`` for kept settings that cannot be used.
    """
    config = _with_kept_changes(config)
    listener = listen(config.bind_address, config.listen_port)
    async with run_nameserver(config, listeners=[listener]) as (_, routes):
        yield NameServer(config.bind_address, listener.getsockname()[1], routes)


@asynccontextmanager
async def run_nameserver(
    config: NameServerConfig, *, listeners: Sequence[socket.socket] = ()
) -> AsyncIterator[tuple[Server, RouteTable]]:
    """As ``open_nameserver``, at sockets that are open already.

    A simulation passes none of them and serves streams (``Server.serve_stream``).
    """
    routes, handlers = RouteTable(), Handlers()
    kv = KVConfig(config.kv_config_path)
    NameServerHandlers(config, routes, kv, now_s=trio.current_time).add_to(handlers)
    server = Server(handlers, name="name server", limits=config.limits())
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listeners)
        nursery.start_soon(_expire_brokers, config, routes)
        try:
            yield server, routes
        finally:
            with trio.CancelScope(shield=True):  # bounded by Limits.drain_s
                await server.stop()
            nursery.cancel_scope.cancel()


def _with_kept_changes(config: NameServerConfig) -> NameServerConfig:
    """A copy of the configuration with what UPDATE_NAMESRV_CONFIG has kept of it."""
    config, path = replace(config), config.config_store_path
    if path is not None and path.exists():
        kept = parse_properties(read_file(path), source=str(path))
        changeable = config.changeable_keys()
        config.update({key: value for key, value in kept.items() if key in changeable})
    return config


async def _expire_brokers(config: NameServerConfig, routes: RouteTable) -> None:
    while True:
        await trio.sleep(config.scan_not_active_broker_interval / 1000)
        for address in routes.expire(now_s=trio.current_time(), timeout_s=BROKER_SILENCE_S):
            LOGGER.warning("broker %s is gone: silent for %g s", address, BROKER_SILENCE_S)
