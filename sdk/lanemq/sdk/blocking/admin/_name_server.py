"""Generated from lanemq.sdk.admin.requests._name_server by sdk/tools/generate_faces.py."""

from lanemq.wire.bodies import ClusterInfo, RouteData

from ...admin._client import AdminClient
from .._bridge import Bridge


class NameServerRequests:
    """Requests, one method each. Reads ask the first name server that answers; writes ask all."""

    _core: AdminClient
    _bridge: Bridge

    def topics(self) -> list[str]:
        """Return the names of all topics that have a route (206)."""
        return self._bridge.call(self._core.topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Return the names of the topics with a queue in ``cluster`` (224)."""
        return self._bridge.call(self._core.topics_of_cluster, cluster)

    def route(self, topic: str) -> RouteData:
        """Return the brokers and queues of ``topic`` (105). Raises ``NoRoute``."""
        return self._bridge.call(self._core.route, topic)

    def cluster(self) -> ClusterInfo:
        """Return the clusters and the addresses of their brokers (106)."""
        return self._bridge.call(self._core.cluster)

    def delete_route(self, topic: str, *, cluster: str | None = None) -> None:
        """Make every name server forget the route of ``topic`` (216)."""
        self._bridge.call(self._core.delete_route, topic, cluster=cluster)

    def listed_at(self, broker_name: str) -> str | None:
        """Return the address of a name server that lists a broker; None where none does that
        answers."""
        return self._bridge.call(self._core.listed_at, broker_name)

    def forget_broker(self, broker_name: str) -> None:
        """Make every name server forget a broker's part of logical queues (104).

        For one that will not come back. Name servers of Apache forget nothing by it.
        """
        self._bridge.call(self._core.forget_broker, broker_name)

    def put_value(self, namespace: str, key: str, value: str) -> None:
        """Store a value at every name server (100)."""
        self._bridge.call(self._core.put_value, namespace, key, value)

    def value(self, namespace: str, key: str) -> str | None:
        """Return a stored value, None where there is none (101)."""
        return self._bridge.call(self._core.value, namespace, key)

    def values(self, namespace: str) -> dict[str, str]:
        """Return all values of a namespace (219)."""
        return self._bridge.call(self._core.values, namespace)

    def delete_value(self, namespace: str, key: str) -> None:
        """Remove a value from every name server (102)."""
        self._bridge.call(self._core.delete_value, namespace, key)

    def wipe_write_permission(self, broker_name: str) -> dict[str, int]:
        """Make the topics of a broker unwritable (205): name server -> number of topics."""
        return self._bridge.call(self._core.wipe_write_permission, broker_name)

    def add_write_permission(self, broker_name: str) -> dict[str, int]:
        """Make the topics of a broker writable again (327): name server -> number of topics."""
        return self._bridge.call(self._core.add_write_permission, broker_name)
