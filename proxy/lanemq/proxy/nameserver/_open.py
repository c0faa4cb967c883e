"""A running name server.

Source: RocketMQ 4.9.8, NamesrvController.
"""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.storage import Supervisor
from lanemq.wire.requests import Port

from .._settings import parse_properties, read_file
from ..net._dispatch import Handlers
from ..net._server import Server
from ..net.limits._budget import Budget
from ..net.transport._listen import listen, warn_of_strangers
from ..tls import ProcessTls
from ._config import NameServerConfig
from ._handlers import NameServerHandlers
from ._known import KnownBrokers
from ._kv import KVConfig
from .routes._table import RouteTable

KNOWN_BROKERS: Final = "knownBrokers.json"
"""File beside the key-value configuration."""
LOGGER = get_logger("lanemq.proxy.nameserver", by_peers=True)

BROKER_SILENCE_S = 120.0
"""Seconds of silence after which a broker, which registers every 30 s, counts as gone."""


@final
@dataclass(frozen=True, slots=True)
class NameServer:
    """A name server that is listening."""

    host: str
    port: int
    routes: RouteTable
    known: KnownBrokers
    """The brokers that it has ever known, as far back as its files go."""
    budget: Budget

    @property
    def address(self) -> str:
        """The address as ``host:port``, for the configuration of clients."""
        return f"{self.host}:{self.port}"


@asynccontextmanager
async def open_nameserver(
    config: NameServerConfig, *, budget: Budget | None = None
) -> AsyncIterator[NameServer]:
    """Run a name server for the length of the block; it listens when the block begins.

    ``budget`` is what the whole process keeps for its peers, where the name server is not alone
    in it; otherwise the configuration says how much that is.

    Settings that an admin tool changed before are in force again. Raises ``AddressUnavailable``
    if the port is taken, ``ConfigError`` for kept settings that cannot be used.
    """
    config = _with_kept_changes(config)
    tls = ProcessTls(config, name="the name server")
    listener = listen(config.bind_address, config.listen_port)
    warn_of_strangers("the name server", [listener], tls.server, has_accounts=None)
    tls.say()
    kept = config.kv_config_path
    known = KnownBrokers(kept.with_name(KNOWN_BROKERS) if kept is not None else None)
    budget = budget if budget is not None else Budget(config.peer_memory_bytes)
    running = run_nameserver(config, listeners=[listener], budget=budget, known=known, tls=tls)
    async with running as (_, routes):
        yield NameServer(config.bind_address, listener.getsockname()[1], routes, known, budget)


@asynccontextmanager
async def run_nameserver(
    config: NameServerConfig,
    *,
    listeners: Sequence[socket.socket] = (),
    budget: Budget | None = None,
    known: KnownBrokers | None = None,
    tls: ProcessTls | None = None,
) -> AsyncIterator[tuple[Server, RouteTable]]:
    """Run a name server as ``open_nameserver``, at sockets that are open already.

    A simulation passes none of them and serves streams (``Server.serve_stream``). ``tls`` is made
    of the configuration where it is None.
    """
    routes, handlers = RouteTable(), Handlers(Port.NAME_SERVER)
    kv = KVConfig(config.kv_config_path)
    NameServerHandlers(config, routes, kv, now_s=trio.current_time, known=known).add_to(handlers)
    budget = budget if budget is not None else Budget(config.peer_memory_bytes)
    tls = tls if tls is not None else ProcessTls(config, name="the name server")
    server = Server(
        handlers, name="name server", limits=config.limits(), budget=budget, tls=tls.server
    )
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listeners)
        supervisor = Supervisor()
        nursery.start_soon(supervisor.run, "looking for new certificates", tls.watch)
        nursery.start_soon(
            supervisor.run, "expiring brokers", partial(_expire_brokers, config, routes)
        )
        try:
            yield server, routes
        finally:
            with trio.CancelScope(shield=True):  # bounded by Limits.drain_s
                await server.stop()
            nursery.cancel_scope.cancel()


def _with_kept_changes(config: NameServerConfig) -> NameServerConfig:
    """Return a copy of the configuration with the changes kept by UPDATE_NAMESRV_CONFIG."""
    config, path = replace(config), config.config_store_path
    if path is not None and path.exists():
        kept = parse_properties(read_file(path), source=str(path))
        changeable = config.changeable_keys()
        config.update({key: value for key, value in kept.items() if key in changeable})
    return config


async def _expire_brokers(config: NameServerConfig, routes: RouteTable) -> None:
    while True:
        await trio.sleep(config.scan_not_active_broker_interval / 1000)
        for gone in routes.expire(now_s=trio.current_time(), timeout_s=BROKER_SILENCE_S):
            for address in gone:
                LOGGER.warning("broker %s is gone: silent for %g s", address, BROKER_SILENCE_S)
            await trio.lowlevel.checkpoint()
