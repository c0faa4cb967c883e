"""A fleet of broker processes on one machine.

One loop uses one core. Logical queues hide from clients how many brokers there are, so that a
machine's cores are so many brokers of one cluster.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from lanemq.local import get_logger
from lanemq.sdk import dial_tcp

from .._settings import ConfigError
from ..net.transport._listen import VIP_BELOW
from ..tls import ProcessTls
from ._fleet_topics import keep_logical
from ._processes import ServerProcess, run_processes
from ._run import Ready
from ._store_kinds import fleet_store

if TYPE_CHECKING:
    from ..broker import BrokerConfig

LOGGER = get_logger("lanemq.proxy.fleet")

PORTS_APART: Final = 20
"""Distance of brokers' ports: each has its main port, those of its logical listener, and VIP
ports."""


def _ports_apart(config: "BrokerConfig") -> int:
    """Return a distance of ports at which the highest of a broker is below the lowest of the
    next."""
    highest = max((*config.numbered_ports, config.logical_port or 0))
    needed = highest + VIP_BELOW + 1 - config.listen_port
    return PORTS_APART * max(1, -(-needed // PORTS_APART))


@asynccontextmanager
async def serve_fleet(
    config: "BrokerConfig",
    count: int,
    name_server: str,
    config_file: Path | None,
    log_level: str,
) -> AsyncIterator[Ready]:
    """Run ``count`` brokers with the settings of ``config``, each on ports and in a store of its
    own, and look after their topics. Raises ``ConfigError`` and ``ProcessesFailed``."""
    if config.checks_requests and config.inner_credentials is None:
        LOGGER.warning(
            "requests are checked, but innerClientAuthenticationCredentials names no account: "
            "brokers refuse each other, unless their addresses are in globalWhiteRemoteAddresses"
        )
    if config.logical_listen_port:
        raise ConfigError(
            f"logicalListenPort is {config.logical_listen_port}, which {count} brokers cannot "
            "share: leave it out, and each takes the one ten above its main port"
        )
    if config.store_path_commit_log is not None:
        raise ConfigError(
            f"storePathCommitLog is {config.store_path_commit_log}, which {count} brokers cannot "
            "share: leave it out, and each has its log in its own store"
        )
    tls = ProcessTls(config, name="the fleet")
    brokers = []
    for number in range(count):
        name = f"{config.broker_name}-{number + 1}"
        port = config.listen_port and config.listen_port + _ports_apart(config) * number
        options = [
            *("-n", config.namesrv_addr, "--name", name, "--host", config.bind_address),
            *("--port", str(port), "--log-level", log_level),
            *("--data", str(fleet_store(config.store_path_root_dir, number + 1))),
        ]
        if config_file is not None:
            options += ["-c", str(config_file)]
        if config.tls_config_file is not None:
            options += ["--tls-config", str(config.tls_config_file)]
        brokers.append(ServerProcess(f"broker {name}", ["broker", *options]))
    async with run_processes(brokers), trio.open_nursery() as nursery:
        nursery.start_soon(tls.watch)
        nursery.start_soon(
            keep_logical,
            config.name_servers[0],
            count,
            config.inner_credentials,
            tls.dial(dial_tcp),
        )
        yield Ready(
            (
                f"name server {name_server}",
                *(f"{broker.name} {broker.facts['broker']}" for broker in brokers),
            ),
            {
                "namesrv": name_server,
                "broker": brokers[0].facts["broker"],
                "brokers": [dict(broker.facts) for broker in brokers],
                "data": str(config.store_path_root_dir),
            },
        )
        nursery.cancel_scope.cancel()
