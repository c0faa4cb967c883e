"""Generated from lanemq.sdk.admin._client by sdk/tools/generate_faces.py."""

from typing import final

from lanemq.wire.bodies import ConsumerConnection, ConsumeStats, TopicStatsTable
from lanemq.wire.message import StoredMessage

from ..._options import ClientOptions
from ...admin import _client as _core
from .._bridge import Bridge
from ._consumers import ConsumerRequests
from ._messages import MessageRequests
from ._operations import LogicalQueueOperations


@final
class AdminClient(LogicalQueueOperations, ConsumerRequests, MessageRequests):
    """Administers a cluster, of lanemq or of Apache RocketMQ. Made by ``open_admin``."""

    def __init__(self, core: _core.AdminClient, bridge: Bridge) -> None:
        self._core = core
        self._bridge = bridge
        self.name_servers: tuple[str, ...] = core.name_servers
        """The addresses of the name servers, in the order in which they are asked."""
        self.client_options: ClientOptions = core.client_options
        """Options for producers and consumers of the same cluster: the same credentials and TLS."""

    def close(self) -> None:
        """Close this client as the end of its `with` block does; again and again does no harm."""
        self._bridge.close()

    def broker_name(self, address: str) -> str:
        """Return the name under which ``address`` is registered. Raises ``LanemqError``."""
        return self._bridge.call(self._core.broker_name, address)

    def address_of(self, broker_name: str) -> str:
        """Return an address of the broker ``broker_name``. Raises ``LanemqError``."""
        return self._bridge.call(self._core.address_of, broker_name)

    def add_order_config(self, topic: str, value: str, *, replace: bool) -> str:
        """Store which brokers keep the order of ``topic``, as ``broker:queues;broker:queues``.

        Without ``replace`` the brokers of ``value`` join those that are stored already.
        Returns what is stored now.
        """
        return self._bridge.call(self._core.add_order_config, topic, value, replace=replace)

    def topic_status(self, topic: str) -> TopicStatsTable:
        """Return bounds and last write of every queue of ``topic``, on all its brokers."""
        return self._bridge.call(self._core.topic_status, topic)

    def progress(self, group: str, *, topic: str | None = None) -> ConsumeStats:
        """Return the progress of ``group``, on all brokers of its retry topic.

        Of logical queues, those of ``topic``, or of all topics that the group has read.
        Raises ``NoRoute`` for a group that no broker has ever seen.
        """
        return self._bridge.call(self._core.progress, group, topic=topic)

    def connections(self, group: str) -> ConsumerConnection | None:
        """Return the connected members of ``group``, None where nobody is."""
        return self._bridge.call(self._core.connections, group)

    def message(self, message_id: str, *, topic: str | None = None) -> StoredMessage | None:
        """Find a message by its offset id or, where ``topic`` is known, by its unique key."""
        return self._bridge.call(self._core.message, message_id, topic=topic)

    def messages_by_key(
        self,
        topic: str,
        key: str,
        *,
        max_count: int = 64,
        begin_ms: int = 0,
        end_ms: int = (1 << 63) - 1,
    ) -> list[StoredMessage]:
        """Return the messages of ``topic`` that carry ``key``, from all its brokers."""
        return self._bridge.call(
            self._core.messages_by_key,
            topic,
            key,
            max_count=max_count,
            begin_ms=begin_ms,
            end_ms=end_ms,
        )

    def messages_by_unique_key(self, topic: str, key: str) -> list[StoredMessage]:
        """Return the messages with one unique key, the first stored first.

        There are several where a producer sent again after a time-out, or a consumer gave the
        message back.
        """
        return self._bridge.call(self._core.messages_by_unique_key, topic, key)
