"""Requests to a broker about topics, groups and itself.

Every method takes the broker's address, ``host:port``, first. All raise ``RefusedByBroker``
with the broker's own words, ``BrokerUnreachable`` and ``RequestTimedOut``.
Source: RocketMQ 4.9.8, MQClientAPIImpl (the requests), AdminBrokerProcessor (the answers).
"""

from collections.abc import Iterable, Mapping
from functools import partial

from lanemq.wire import (
    RequestCode,
    ResponseCode,
    SystemTopic,
    decode_properties_text,
    encode_properties_text,
)
from lanemq.wire.bodies import (
    BrokerStatsData,
    CheckRocksdbCqWriteProgressBody,
    CheckRocksdbCqWriteResult,
    CheckStatus,
    GroupList,
    KVTable,
    ProducerTable,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigWrapper,
    TopicList,
    TopicStatsTable,
)
from lanemq.wire.headers import (
    CheckRocksdbCqWriteProgress,
    CreateTopic,
    DeleteSubscriptionGroup,
    DeleteTopic,
    ExportRocksdbConfigToJson,
    GetTopicConfig,
    GetTopicStatsInfo,
    QueryTopicConsumeByWho,
    ViewBrokerStatsData,
)
from lanemq.wire.kv import NamespaceStatus, decode_answer

from ..._errors import RefusedByBroker
from ..._tasks import read_body
from ._caller import Caller


class BrokerRequests:
    """Requests, one method each."""

    _caller: Caller

    async def put_topic(
        self, address: str, config: TopicConfig, *, attributes: str | None = None
    ) -> None:
        """Create a topic, or change it (17).

        ``attributes`` are changes of those that 5.x has, such as
        ``+message.type=FIFO,-reserve.time``; all others stay as they are, whatever ``config`` says.
        """
        header = CreateTopic(
            topic=config.topic_name,
            default_topic=SystemTopic.AUTO_CREATE,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
            attributes=attributes,
        )
        await self._caller.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def delete_topic(self, address: str, topic: str) -> None:
        """Delete a topic with its messages (215)."""
        await self._caller.ask(
            address, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopic(topic=topic)
        )

    async def topic_configs(self, address: str) -> TopicConfigWrapper:
        """Return the configuration of all topics (21)."""
        frame = await self._caller.ask(address, RequestCode.GET_ALL_TOPIC_CONFIG)
        return await read_body(frame.body, TopicConfigWrapper.decode)

    async def topic_config(self, address: str, topic: str) -> TopicConfig:
        """Return the configuration of one topic (351, not known to brokers before 5.0)."""
        frame = await self._caller.ask(
            address, RequestCode.GET_TOPIC_CONFIG, GetTopicConfig(topic=topic)
        )
        return await read_body(frame.body, TopicConfig.decode)

    async def system_topics(self, address: str) -> list[str]:
        """Return the topics that the broker keeps for itself (305)."""
        frame = await self._caller.ask(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        return list((await read_body(frame.body, TopicList.decode)).topic_list)

    async def topic_offsets(self, address: str, topic: str) -> TopicStatsTable:
        """Return the bounds of each queue of a topic and when it was last written (202)."""
        frame = await self._caller.ask(
            address, RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfo(topic=topic)
        )
        return await read_body(frame.body, TopicStatsTable.decode)

    async def groups_of_topic(self, address: str, topic: str) -> list[str]:
        """Return the consumer groups that read a topic or once did (300)."""
        frame = await self._caller.ask(
            address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, QueryTopicConsumeByWho(topic=topic)
        )
        return sorted((await read_body(frame.body, GroupList.decode)).group_list)

    async def put_group(self, address: str, config: SubscriptionGroupConfig) -> None:
        """Create a consumer group, or change it (200)."""
        await self._caller.ask(
            address, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.encode
        )

    async def groups(self, address: str) -> SubscriptionGroupWrapper:
        """Return the configuration of all consumer groups (201)."""
        frame = await self._caller.ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return await read_body(frame.body, SubscriptionGroupWrapper.decode)

    async def delete_group(self, address: str, group: str, *, remove_offsets: bool = False) -> None:
        """Delete the configuration of a consumer group (207), and its offsets if asked to."""
        header = DeleteSubscriptionGroup(
            group_name=group, remove_offset=remove_offsets, clean_offset=remove_offsets
        )
        await self._caller.ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)

    async def kv_status(self, address: str) -> list[NamespaceStatus]:
        """Return the broker's partitions of key-value namespaces (310426); [] where it has none."""
        try:
            frame = await self._caller.ask(address, RequestCode.KV_STATUS)
        except RefusedByBroker as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            return []
        return decode_answer(frame.body, list[NamespaceStatus])

    async def runtime(self, address: str) -> dict[str, str]:
        """Return what the broker reports about itself (28)."""
        frame = await self._caller.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return dict((await read_body(frame.body, KVTable.decode)).table)

    async def config(self, address: str) -> dict[str, str]:
        """Return the broker's configuration (26)."""
        frame = await self._caller.ask(address, RequestCode.GET_BROKER_CONFIG)
        return decode_properties_text(frame.body)

    async def update_config(self, address: str, values: Mapping[str, str]) -> None:
        """Change the configuration of a running broker (25)."""
        await self._caller.ask(
            address, RequestCode.UPDATE_BROKER_CONFIG, body=partial(encode_properties_text, values)
        )

    async def producers(self, address: str) -> ProducerTable:
        """Return all connected producers by group (328)."""
        frame = await self._caller.ask(address, RequestCode.GET_ALL_PRODUCER_INFO)
        return await read_body(frame.body, ProducerTable.decode)

    async def statistics(self, address: str, name: str, key: str) -> BrokerStatsData:
        """Return one counter (315), such as TOPIC_PUT_NUMS of a topic."""
        frame = await self._caller.ask(
            address,
            RequestCode.VIEW_BROKER_STATS_DATA,
            ViewBrokerStatsData(stats_name=name, stats_key=key),
        )
        return await read_body(frame.body, BrokerStatsData.decode)

    async def clean_expired_queues(self, address: str) -> None:
        """Remove queue files whose messages are gone (306)."""
        await self._caller.ask(address, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)

    async def clean_unused_topics(self, address: str) -> None:
        """Remove queue files of topics that no longer exist (316)."""
        await self._caller.ask(address, RequestCode.CLEAN_UNUSED_TOPIC)

    async def delete_expired_log(self, address: str) -> None:
        """Remove log files past their time now (329)."""
        await self._caller.ask(address, RequestCode.DELETE_EXPIRED_COMMITLOG)

    async def export_tables(self, address: str, tables: Iterable[str]) -> None:
        """Let a broker write the JSON files of tables that it keeps in RocksDB (355).

        ``tables``: of ``topics``, ``subscriptionGroups`` and ``consumerOffsets``. Not known to
        brokers before 5.3.2; one that keeps them in JSON files anyway does nothing.
        """
        header = ExportRocksdbConfigToJson("".join(f"{table};" for table in tables))
        await self._caller.ask(address, RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON, header)

    async def check_rocksdb(
        self, address: str, *, topic: str = "", check_from_ms: int | None = None
    ) -> CheckRocksdbCqWriteResult:
        """Ask whether RocksDB has the queues that the files have (354), of all topics or of one.

        ``check_from_ms``: messages stored before that time, in milliseconds since 1970, may be
        missing. A broker of 5.3.2 and later says ``IN_PROGRESS`` and puts the result into its
        log; one of 5.3.1 gives a text without a status, which is then ``IN_PROGRESS``, too.
        lanemq's gives the result.
        """
        header = CheckRocksdbCqWriteProgress(topic, check_from_ms, wait_result=True)
        frame = await self._caller.ask(address, RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, header)
        old = await read_body(frame.body, CheckRocksdbCqWriteProgressBody.decode)
        if old.diff_result is not None:
            return CheckRocksdbCqWriteResult(old.diff_result, CheckStatus.IN_PROGRESS)
        return await read_body(frame.body, CheckRocksdbCqWriteResult.decode)
