"""Generated from lanemq.sdk.admin by sdk/tools/generate_faces.py."""

from collections.abc import Iterable, Mapping

from lanemq.wire.bodies import (
    BrokerDrain,
    BrokerStatsData,
    CheckRocksdbCqWriteResult,
    ClusterInfo,
    LostMessages,
    ProducerTable,
    ProxiedQueues,
    ProxyStatus,
    QueueMove,
    RouteData,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigWrapper,
    TopicStatsTable,
)
from lanemq.wire.kv import NamespaceStatus

from ...admin._client import AdminClient
from ...admin.logical._migration_steps import Migrated
from .._bridge import Bridge
from ._logical import LogicalQueueRequests


class BrokerRequests:
    """Requests, one method each."""

    _core: AdminClient
    _bridge: Bridge

    async def put_topic(
        self, address: str, config: TopicConfig, *, attributes: str | None = None
    ) -> None:
        """Create a topic, or change it (17).

        ``attributes`` are changes of those that 5.x has, such as
        ``+message.type=FIFO,-reserve.time``; all others stay as they are, whatever ``config`` says.
        """
        await self._bridge.call(self._core.put_topic, address, config, attributes=attributes)

    async def delete_topic(self, address: str, topic: str) -> None:
        """Delete a topic with its messages (215)."""
        await self._bridge.call(self._core.delete_topic, address, topic)

    async def topic_configs(self, address: str) -> TopicConfigWrapper:
        """Return the configuration of all topics (21)."""
        return await self._bridge.call(self._core.topic_configs, address)

    async def topic_config(self, address: str, topic: str) -> TopicConfig:
        """Return the configuration of one topic (351, not known to brokers before 5.0)."""
        return await self._bridge.call(self._core.topic_config, address, topic)

    async def system_topics(self, address: str) -> list[str]:
        """Return the topics that the broker keeps for itself (305)."""
        return await self._bridge.call(self._core.system_topics, address)

    async def topic_offsets(self, address: str, topic: str) -> TopicStatsTable:
        """Return the bounds of each queue of a topic and when it was last written (202)."""
        return await self._bridge.call(self._core.topic_offsets, address, topic)

    async def groups_of_topic(self, address: str, topic: str) -> list[str]:
        """Return the consumer groups that read a topic or once did (300)."""
        return await self._bridge.call(self._core.groups_of_topic, address, topic)

    async def put_group(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Create a consumer group, or change it (200)."""
        await self._bridge.call(self._core.put_group, address, config)

    async def groups(self, address: str) -> SubscriptionGroupWrapper:
        """Return the configuration of all consumer groups (201)."""
        return await self._bridge.call(self._core.groups, address)

    async def delete_group(self, address: str, group: str, *, remove_offsets: bool = False) -> None:
        """Delete the configuration of a consumer group (207), and its offsets if asked to."""
        await self._bridge.call(
            self._core.delete_group, address, group, remove_offsets=remove_offsets
        )

    async def kv_status(self, address: str) -> list[NamespaceStatus]:
        """Return the broker's partitions of key-value namespaces (310426); [] where it has none."""
        return await self._bridge.call(self._core.kv_status, address)

    async def runtime(self, address: str) -> dict[str, str]:
        """Return what the broker reports about itself (28)."""
        return await self._bridge.call(self._core.runtime, address)

    async def config(self, address: str) -> dict[str, str]:
        """Return the broker's configuration (26)."""
        return await self._bridge.call(self._core.config, address)

    async def update_config(self, address: str, values: Mapping[str, str]) -> None:
        """Change the configuration of a running broker (25)."""
        await self._bridge.call(self._core.update_config, address, values)

    async def producers(self, address: str) -> ProducerTable:
        """Return all connected producers by group (328)."""
        return await self._bridge.call(self._core.producers, address)

    async def statistics(self, address: str, name: str, key: str) -> BrokerStatsData:
        """Return one counter (315), such as TOPIC_PUT_NUMS of a topic."""
        return await self._bridge.call(self._core.statistics, address, name, key)

    async def clean_expired_queues(self, address: str) -> None:
        """Remove queue files whose messages are gone (306)."""
        await self._bridge.call(self._core.clean_expired_queues, address)

    async def clean_unused_topics(self, address: str) -> None:
        """Remove queue files of topics that no longer exist (316)."""
        await self._bridge.call(self._core.clean_unused_topics, address)

    async def delete_expired_log(self, address: str) -> None:
        """Remove log files past their time now (329)."""
        await self._bridge.call(self._core.delete_expired_log, address)

    async def export_tables(self, address: str, tables: Iterable[str]) -> None:
        """Let a broker write the JSON files of tables that it keeps in RocksDB (355).

        ``tables``: of ``topics``, ``subscriptionGroups`` and ``consumerOffsets``. Not known to
        brokers before 5.3.2; one that keeps them in JSON files anyway does nothing.
        """
        await self._bridge.call(self._core.export_tables, address, tables)

    async def check_rocksdb(
        self, address: str, *, topic: str = "", check_from_ms: int | None = None
    ) -> CheckRocksdbCqWriteResult:
        """Ask whether RocksDB has the queues that the files have (354), of all topics or of one.

        ``check_from_ms``: messages stored before that time, in milliseconds since 1970, may be
        missing. A broker of 5.3.2 and later says ``IN_PROGRESS`` and puts the result into its
        log; one of 5.3.1 gives a text without a status, which is then ``IN_PROGRESS``, too.
        lanemq's gives the result.
        """
        return await self._bridge.call(
            self._core.check_rocksdb, address, topic=topic, check_from_ms=check_from_ms
        )


class NameServerRequests:
    """Requests, one method each. Reads ask the first name server that answers; writes ask all."""

    _core: AdminClient
    _bridge: Bridge

    async def topics(self) -> list[str]:
        """Return the names of all topics that have a route (206)."""
        return await self._bridge.call(self._core.topics)

    async def topics_of_cluster(self, cluster: str) -> list[str]:
        """Return the names of the topics with a queue in ``cluster`` (224)."""
        return await self._bridge.call(self._core.topics_of_cluster, cluster)

    async def route(self, topic: str) -> RouteData:
        """Return the brokers and queues of ``topic`` (105). Raises ``NoRoute``."""
        return await self._bridge.call(self._core.route, topic)

    async def cluster(self) -> ClusterInfo:
        """Return the clusters and the addresses of their brokers (106)."""
        return await self._bridge.call(self._core.cluster)

    async def proxy_status(self, address: str) -> ProxyStatus:
        """Return what a proxy of lanemq reports at its port for routes (310431)."""
        return await self._bridge.call(self._core.proxy_status, address)

    async def move_queue(
        self, address: str, topic: str, index: int, broker: str = "", *, abort: bool = False
    ) -> QueueMove:
        """Have a proxy of lanemq move a queue to a broker, or say how far that is (310432).

        ``index`` is the queue's place in the list that clients see; ``abort`` calls the move off.
        """
        return await self._bridge.call(
            self._core.move_queue, address, topic, index, broker, abort=abort
        )

    async def proxied_queues(self, address: str, topic: str) -> ProxiedQueues:
        """Return the brokers to which the queues of a topic behind a proxy are written (310433)."""
        return await self._bridge.call(self._core.proxied_queues, address, topic)

    async def drain_at_proxy(
        self, address: str, broker: str, *, forget: bool = False
    ) -> BrokerDrain:
        """Have a proxy of lanemq go on with the drain of a broker, or say how far that is (310434).

        It moves no queue (``move_queue``). ``forget`` says that the broker, which was drained and
        is gone, will not come back.
        """
        return await self._bridge.call(self._core.drain_at_proxy, address, broker, forget=forget)

    async def lost_at_proxy(
        self, address: str, broker: str, *, passes: bool = False
    ) -> LostMessages:
        """Have a proxy of lanemq look for messages before ends of moved queues that a broker has
        lost, or say how far that is (310435).

        ``passes`` lets readers go on behind them.
        """
        return await self._bridge.call(self._core.lost_at_proxy, address, broker, passes=passes)

    async def delete_route(self, topic: str, *, cluster: str | None = None) -> None:
        """Make every name server forget the route of ``topic`` (216)."""
        await self._bridge.call(self._core.delete_route, topic, cluster=cluster)

    async def listed_at(self, broker_name: str) -> str | None:
        """Return the address of a name server that lists a broker; None where none does that
        answers."""
        return await self._bridge.call(self._core.listed_at, broker_name)

    async def forget_broker(self, broker_name: str) -> None:
        """Make every name server forget a broker's part of logical queues (104).

        For one that will not come back. Name servers of Apache forget nothing by it.
        """
        await self._bridge.call(self._core.forget_broker, broker_name)

    async def put_value(self, namespace: str, key: str, value: str) -> None:
        """Store a value at every name server (100)."""
        await self._bridge.call(self._core.put_value, namespace, key, value)

    async def value(self, namespace: str, key: str) -> str | None:
        """Return a stored value, None where there is none (101)."""
        return await self._bridge.call(self._core.value, namespace, key)

    async def values(self, namespace: str) -> dict[str, str]:
        """Return all values of a namespace (219)."""
        return await self._bridge.call(self._core.values, namespace)

    async def delete_value(self, namespace: str, key: str) -> None:
        """Remove a value from every name server (102)."""
        await self._bridge.call(self._core.delete_value, namespace, key)

    async def wipe_write_permission(self, broker_name: str) -> dict[str, int]:
        """Make the topics of a broker unwritable (205): name server -> number of topics."""
        return await self._bridge.call(self._core.wipe_write_permission, broker_name)

    async def add_write_permission(self, broker_name: str) -> dict[str, int]:
        """Make the topics of a broker writable again (327): name server -> number of topics."""
        return await self._bridge.call(self._core.add_write_permission, broker_name)


class ServerRequests(BrokerRequests, LogicalQueueRequests, NameServerRequests):
    """Requests of single servers, and the addresses of a cluster's."""

    _core: AdminClient
    _bridge: Bridge

    async def masters(self, cluster: str) -> list[str]:
        """Return the addresses of the masters of ``cluster``. Raises ``UnknownCluster``."""
        return await self._bridge.call(self._core.masters, cluster)

    async def broker_addresses(self, cluster: str) -> list[str]:
        """Return the addresses of all brokers of ``cluster``. Raises ``UnknownCluster``."""
        return await self._bridge.call(self._core.broker_addresses, cluster)


class LogicalQueueOperations(ServerRequests):
    """Logical queues mapped, migrated, resumed and called off, each as one call."""

    _core: AdminClient
    _bridge: Bridge

    async def migrate_logical_queue(
        self,
        topic: str,
        index: int,
        destination: str,
        *,
        force_delta: int | None = None,
        source_is_gone: bool = False,
    ) -> Migrated:
        """Move the end of logical queue ``index`` to the broker named ``destination``.

        With ``force_delta`` the broker where it ends now is not asked, because it is gone for
        good, and the queue goes on from that logical offset; it must be no smaller than the
        number of messages the queue ever had. While a name server lists that broker it is refused
        without ``source_is_gone``. Raises ``MigrationRefused``, and whatever stopped
        a step; ``resume_migration`` or the same call again goes on from there.
        """
        return await self._bridge.call(
            self._core.migrate_logical_queue,
            topic,
            index,
            destination,
            force_delta=force_delta,
            source_is_gone=source_is_gone,
        )

    async def map_logical_queues(self, topic: str, *, cluster: str | None = None) -> int:
        """Make all other queues of a topic logical queues as well; returns how many that were.

        All masters (of ``cluster``, or of all) have to answer: an index that one of them knows
        must not be given again. Raises what asking the first silent one raised.
        """
        return await self._bridge.call(self._core.map_logical_queues, topic, cluster=cluster)

    async def resume_migration(self, topic: str, index: int) -> Migrated:
        """Finish a migration that was interrupted. Raises ``MigrationRefused`` if none was."""
        return await self._bridge.call(self._core.resume_migration, topic, index)

    async def abort_migration(self, topic: str, index: int) -> Migrated:
        """Call a migration off, which its destination refuses once it has messages.

        Raises ``MigrationRefused`` if none is under way.
        """
        return await self._bridge.call(self._core.abort_migration, topic, index)
