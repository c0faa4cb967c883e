"""Generated from lanemq.sdk.admin.requests._broker by sdk/tools/generate_faces.py."""

from collections.abc import Iterable, Mapping

from lanemq.wire.bodies import (
    BrokerStatsData,
    CheckRocksdbCqWriteResult,
    ProducerTable,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigWrapper,
    TopicStatsTable,
)
from lanemq.wire.kv import NamespaceStatus

from ...admin._client import AdminClient
from .._bridge import Bridge


class BrokerRequests:
    """Requests, one method each."""

    _core: AdminClient
    _bridge: Bridge

    def put_topic(self, address: str, config: TopicConfig) -> None:
        """Create a topic, or change it (17)."""
        self._bridge.call(self._core.put_topic, address, config)

    def delete_topic(self, address: str, topic: str) -> None:
        """Delete a topic with its messages (215)."""
        self._bridge.call(self._core.delete_topic, address, topic)

    def topic_configs(self, address: str) -> TopicConfigWrapper:
        """Return the configuration of all topics (21)."""
        return self._bridge.call(self._core.topic_configs, address)

    def topic_config(self, address: str, topic: str) -> TopicConfig:
        """Return the configuration of one topic (351, not known to brokers before 5.0)."""
        return self._bridge.call(self._core.topic_config, address, topic)

    def system_topics(self, address: str) -> list[str]:
        """Return the topics that the broker keeps for itself (305)."""
        return self._bridge.call(self._core.system_topics, address)

    def topic_offsets(self, address: str, topic: str) -> TopicStatsTable:
        """Return the bounds of each queue of a topic and when it was last written (202)."""
        return self._bridge.call(self._core.topic_offsets, address, topic)

    def groups_of_topic(self, address: str, topic: str) -> list[str]:
        """Return the consumer groups that read a topic or once did (300)."""
        return self._bridge.call(self._core.groups_of_topic, address, topic)

    def put_group(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Create a consumer group, or change it (200)."""
        self._bridge.call(self._core.put_group, address, config)

    def groups(self, address: str) -> SubscriptionGroupWrapper:
        """Return the configuration of all consumer groups (201)."""
        return self._bridge.call(self._core.groups, address)

    def delete_group(self, address: str, group: str, *, remove_offsets: bool = False) -> None:
        """Delete the configuration of a consumer group (207), and its offsets if asked to."""
        self._bridge.call(self._core.delete_group, address, group, remove_offsets=remove_offsets)

    def kv_status(self, address: str) -> list[NamespaceStatus]:
        """Return the broker's partitions of key-value namespaces (310426); [] where it has none."""
        return self._bridge.call(self._core.kv_status, address)

    def runtime(self, address: str) -> dict[str, str]:
        """Return what the broker reports about itself (28)."""
        return self._bridge.call(self._core.runtime, address)

    def config(self, address: str) -> dict[str, str]:
        """Return the broker's configuration (26)."""
        return self._bridge.call(self._core.config, address)

    def update_config(self, address: str, values: Mapping[str, str]) -> None:
        """Change the configuration of a running broker (25)."""
        self._bridge.call(self._core.update_config, address, values)

    def producers(self, address: str) -> ProducerTable:
        """Return all connected producers by group (328)."""
        return self._bridge.call(self._core.producers, address)

    def statistics(self, address: str, name: str, key: str) -> BrokerStatsData:
        """Return one counter (315), such as TOPIC_PUT_NUMS of a topic."""
        return self._bridge.call(self._core.statistics, address, name, key)

    def clean_expired_queues(self, address: str) -> None:
        """Remove queue files whose messages are gone (306)."""
        self._bridge.call(self._core.clean_expired_queues, address)

    def clean_unused_topics(self, address: str) -> None:
        """Remove queue files of topics that do not exist any more (316)."""
        self._bridge.call(self._core.clean_unused_topics, address)

    def delete_expired_log(self, address: str) -> None:
        """Remove log files past their time now (329)."""
        self._bridge.call(self._core.delete_expired_log, address)

    def export_tables(self, address: str, tables: Iterable[str]) -> None:
        """Let a broker write the JSON files of tables that it keeps in RocksDB (355).

        ``tables``: of ``topics``, ``subscriptionGroups`` and ``consumerOffsets``. Not known to
        brokers before 5.3.2; one that keeps them in JSON files anyway does nothing.
        """
        self._bridge.call(self._core.export_tables, address, tables)

    def check_rocksdb(
        self, address: str, *, topic: str = "", check_from_ms: int | None = None
    ) -> CheckRocksdbCqWriteResult:
        """Ask whether RocksDB has the queues that the files have (354), of all topics or of one.

        ``check_from_ms``: messages stored before that time, in milliseconds since 1970, may be
        missing. A broker of 5.3.2 and later says ``IN_PROGRESS`` and puts the result into its
        log; one of 5.3.1 gives a text without a status, which is then ``IN_PROGRESS``, too.
        lanemq's gives the result.
        """
        return self._bridge.call(
            self._core.check_rocksdb, address, topic=topic, check_from_ms=check_from_ms
        )
