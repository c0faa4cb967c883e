"""Generated from lanemq.sdk.admin.requests._servers by sdk/tools/generate_faces.py."""

from ...admin._client import AdminClient
from .._bridge import Bridge
from ._broker import BrokerRequests
from ._logical import LogicalQueueRequests
from ._name_server import NameServerRequests


class ServerRequests(BrokerRequests, LogicalQueueRequests, NameServerRequests):
    """Requests of single servers, and the addresses of a cluster's."""

    _core: AdminClient
    _bridge: Bridge

    def masters(self, cluster: str) -> list[str]:
        """Return the addresses of the masters of ``cluster``. Raises ``UnknownCluster``."""
        return self._bridge.call(self._core.masters, cluster)

    def broker_addresses(self, cluster: str) -> list[str]:
        """Return the addresses of all brokers of ``cluster``. Raises ``UnknownCluster``."""
        return self._bridge.call(self._core.broker_addresses, cluster)
