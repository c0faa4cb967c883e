"""The logs of a proxy by its settings, and what it knows of them: in files beside its ports."""

from typing import Final

from lanemq.sdk import RemotingClient
from lanemq.sdk.admin import AdminClient
from lanemq.wire import HostAddress

from ._config import GatewayConfig
from .kv import FILE, KEY_LOGS, KnownLog, KnownLogs, make_upstream_keys
from .order import LOG_PREFIX, NAMESPACE, QueueOrders

MASTERS_S: Final = 40.0
"""Seconds after which all masters are listed, where name servers have just been started: brokers
register every 30 s."""


def known_log(config: GatewayConfig, address: HostAddress) -> KnownLog:
    """Return what a proxy knows of the log of orders. Raises ``ConfigError``."""
    path = None if config.state_path is None else config.state_path.with_name(FILE)
    settle_s = min(MASTERS_S, config.settle_seconds)
    topic = LOG_PREFIX + NAMESPACE
    others = _others(config, address)
    return KnownLog(path, topic, settle_s=settle_s, saves=not config.worker, peers=others)


def orders_over(
    config: GatewayConfig, client: RemotingClient, admin: AdminClient, known: KnownLog
) -> QueueOrders:
    """Return the orders of queues over their log."""
    log = make_upstream_keys(
        client,
        admin,
        namespace=NAMESPACE,
        prefix=LOG_PREFIX,
        known=known,
    )
    return QueueOrders(log, settle_s=config.settle_seconds)


def known_key_logs(config: GatewayConfig, address: HostAddress) -> KnownLogs:
    """Return what a proxy knows of the logs of keys. Raises ``ConfigError``."""
    folder = None if config.state_path is None else config.state_path.with_name(KEY_LOGS)
    return KnownLogs(folder, saves=not config.worker, peers=_others(config, address))


def _others(config: GatewayConfig, address: HostAddress) -> set[str]:
    return {*config.other_proxies} - {str(address)}
