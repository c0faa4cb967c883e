"""The servers of a cluster: requests of one name server or broker, and where the brokers are."""

from collections.abc import Sequence

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
        return [addresses[0] for addresses in await self._brokers(cluster) if 0 in addresses]

    async def broker_addresses(self, cluster: str) -> list[str]:
        """Return the addresses of all brokers of ``cluster``. Raises ``UnknownCluster``."""
        return [
            addresses[broker_id]
            for addresses in await self._brokers(cluster)
            for broker_id in sorted(addresses)
        ]

    async def _brokers(self, cluster: str) -> list[dict[int, str]]:
        info = await self.cluster()
        names = info.cluster_addr_table.get(cluster)
        if names is None:
            raise UnknownCluster(cluster, list(info.cluster_addr_table))
        return [
            dict(info.broker_addr_table[name].broker_addrs)
            for name in sorted(names)
            if name in info.broker_addr_table
        ]
