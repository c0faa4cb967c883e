"""The servers of a cluster: requests of one name server or broker, and where the brokers are."""

from collections.abc import Sequence

from lanemq.wire.bodies import MASTER_ID

from ..._errors import LanemqError
from ._broker import BrokerRequests
from ._logical import LogicalQueueRequests
from ._name_server import NameServerRequests


class UnknownCluster(LanemqError):  # noqa: N818 - says what is wrong
    """No name server knows a cluster of that name."""

    def __init__(self, cluster: str, known: Sequence[str]) -> None:
        names = ", ".join(sorted(known)) or "none"
        super().__init__(f"cluster {cluster!r} is unknown; the name server knows: {names}")
        self.cluster = cluster


class ServerRequests(BrokerRequests, LogicalQueueRequests, NameServerRequests):
    """Requests of single servers, and the addresses of a cluster's."""

    async def masters(self, cluster: str) -> list[str]:
        """Return the addresses of the masters of ``cluster``. Raises ``UnknownCluster``."""
        return list((await masters_by_name(self, cluster)).values())

    async def broker_addresses(self, cluster: str) -> list[str]:
        """Return the addresses of all brokers of ``cluster``. Raises ``UnknownCluster``."""
        return [
            addresses[broker_id]
            for addresses in (await brokers_by_name(self, cluster)).values()
            for broker_id in sorted(addresses)
        ]


async def brokers_by_name(admin: ServerRequests, cluster: str | None) -> dict[str, dict[int, str]]:
    """Return the brokers of a cluster, or of all: name -> broker id -> address.

    Raises ``UnknownCluster``.
    """
    info = await admin.cluster()
    clusters = info.cluster_addr_table
    if cluster is not None and cluster not in clusters:
        raise UnknownCluster(cluster, list(clusters))
    chosen = clusters.values() if cluster is None else [clusters[cluster]]
    return {
        name: dict(info.broker_addr_table[name].broker_addrs)
        for name in sorted({name for members in chosen for name in members})
        if name in info.broker_addr_table
    }


async def masters_by_name(admin: ServerRequests, cluster: str | None) -> dict[str, str]:
    """Return the masters of a cluster, or of all: name -> address. Raises ``UnknownCluster``."""
    brokers = await brokers_by_name(admin, cluster)
    return {
        name: addresses[MASTER_ID] for name, addresses in brokers.items() if MASTER_ID in addresses
    }
