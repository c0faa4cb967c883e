"""The settings of a proxy in front of a cluster."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

from .._addresses import addresses_in, advertised, check_address
from .._settings import ConfigError, setting
from ..acl._addresses import WhiteList, parse_patterns
from ..net.limits._budget import LIMIT_MIN_BYTES, PEER_MEMORY_MOST, limit_bytes_of
from ..net.limits._limits import Limits
from ..tls import TlsSettings

OWN_ADDRESSES: Final = ("127.*.*.*", "0:0:0:0:0:0:0:1")
PORT_STEP: Final = 10
"""Distance of the ports of two brokers: two below each is the port of clients of 4.0 to 4.4."""
WORKERS_MOST: Final = 64


@final
@dataclasses.dataclass(kw_only=True, slots=True)
class GatewayConfig(TlsSettings):
    """The settings of one proxy. Raises ``ConfigError`` for what cannot work."""

    upstream: str = setting("")
    """The name servers of the cluster, ``host:port;host:port``."""
    bind_address: str = setting("0.0.0.0")
    """The address to listen on."""
    advertised_address: str = setting("")
    """The address that clients are told. Default: ``bind_address``, or the machine's own where that
    is every address."""
    listen_port: int = setting(9876, most=65535)
    """The port where clients ask for routes; 0 takes any free one."""
    broker_port: int = setting(11911, most=65535)
    """The port of the first broker; the next ones are ten apart. 0 takes any free ones."""
    peers: str = setting("")
    """The route ports of the other proxies of the cluster, ``host:port;host:port``."""
    state_path: Path | None = setting(None)
    """The file in which the ports of brokers are kept. Default: they are as brokers are found."""
    keys: bool = setting(False)
    """Serve keys and values over topics of the cluster: see docs/proxy.md."""
    logical: bool = setting(False)
    """Let queues that a topic gets be seen at the end of its list only: see docs/proxy.md."""
    moves: bool = setting(False)
    """Let queues move between brokers of the cluster, with ``logical``: see docs/proxy.md."""
    settle_seconds: int = setting(60, most=86_400)
    """Seconds for which a topic's queues have to be the same before their order is kept; as long,
    and 40 at most, masters have to be before the log of orders begins."""
    leave_seconds: int = setting(35, most=600)
    """Seconds for which a proxy that stops serves on while its clients go to others: they ask for
    routes every 30 s. Without other proxies there is nothing to wait for."""
    changes_from: str = setting("")
    """Addresses whose tools may change things at the cluster's name servers and move queues through
    this proxy, besides this machine's own: patterns of Apache's white lists, as
    ``10.0.0.5,10.1.*.*``."""
    workers: int = setting(1, least=1, most=WORKERS_MOST)
    """Processes that share the ports; this is one of them."""
    worker: int = setting(0, most=WORKERS_MOST - 1)
    """The number of this one, from 0 on."""
    server_channel_max_idle_time_seconds: int = setting(120, least=1)
    peer_memory_max: int = setting(0, most=PEER_MEMORY_MOST)
    """Bytes that the proxy may keep for its peers together; 0 is an eighth of the machine's
    memory, from 64 to 256 MiB. Each worker has its share of them, and 32 MiB at least."""

    def check(self) -> None:
        """Check the addresses."""
        TlsSettings.check(self)
        if not self.name_servers:
            raise ConfigError(
                "upstream is empty: name the name servers of the cluster, as 10.0.0.5:9876"
            )
        try:
            parse_patterns(self.changes_from)
        except ValueError as error:
            raise ConfigError(f"changesFrom {self.changes_from[:80]!a}: {error}") from error
        if self.moves and not self.logical:
            raise ConfigError("queues can move only where their order is kept: add --logical")
        if not self.is_shared:
            return
        if self.broker_port == 0 or self.listen_port == 0:
            raise ConfigError(
                f"{self.workers} workers cannot share ports that are free: name the port for "
                "routes, and that of the first broker"
            )
        if self.state_path is None:
            raise ConfigError(
                f"{self.workers} workers share the ports of brokers, and need a directory for them"
            )

    @property
    def admits_changes(self) -> Callable[[str], bool]:
        """A function of a host: may its tools change the cluster through this proxy?"""
        own = (self.bind_address, self.advertised_host)
        named = ",".join(filter(None, (self.changes_from, *OWN_ADDRESSES)))
        listed = WhiteList(parse_patterns(named))
        return lambda host: host in own or listed.admits(host)

    @property
    def is_shared(self) -> bool:
        """True if other processes have the same ports."""
        return self.workers > 1

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses in ``upstream``."""
        return _checked(self.upstream, "upstream")

    @property
    def other_proxies(self) -> tuple[str, ...]:
        """The addresses in ``peers``."""
        return _checked(self.peers, "peers")

    @property
    def advertised_host(self) -> str:
        """The host that clients are told, as a literal address.

        Raises ``ConfigError`` for a name that has no IPv4 address.
        """
        return advertised(self.advertised_address, self.bind_address)

    @property
    def peer_memory_bytes(self) -> int:
        """The bytes that this process may keep for its peers."""
        return max(limit_bytes_of(self.peer_memory_max) // self.workers, LIMIT_MIN_BYTES)

    def limits(self) -> Limits:
        """Return the bounds that the proxy puts on its clients."""
        return Limits(idle_s=float(self.server_channel_max_idle_time_seconds))


def _checked(text: str, key: str) -> tuple[str, ...]:
    found = addresses_in(text.replace(",", ";"))
    for one in found:
        if check_address(key, one).port == 0:
            raise ConfigError(f"{key}: {one!r} has no port to connect to")
    return found
