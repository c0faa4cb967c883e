"""Operators' requests about groups: settings, members, and all offsets.

Source: RocketMQ 4.9.8, AdminBrokerProcessor; 5.3.3 for 343, 345 and 352.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import final

from attrs import define

from lanemq.storage import ConfigTables
from lanemq.wire import Refused, RequestCode, ResponseCode, fastjson, group_name_problem
from lanemq.wire.bodies import (
    ClientConnection,
    ConsumerConnection,
    ConsumerOffsetTable,
    DelayOffsetTable,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicList,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    CloneGroupOffset,
    DeleteSubscriptionGroup,
    GetConsumerConnectionList,
    GetProducerConnectionList,
    GetSubscriptionGroupConfig,
    QuerySubscriptionByConsumer,
    QueryTopicsByConsumer,
)

from ...net._dispatch import Handlers, typed
from ...net._session import Session
from ..context._context import BrokerContext
from ..state._clients import ClientRegistry
from ..state._groups import SETTINGS_BYTES_MAX, Groups
from ..state._members import Client
from ..state._stages import MEMBER as STAGES
from ..state._stages import GroupStages, stages_of
from ..state._stats import BrokerStatistics
from ..state._topics import Topics

LOGGER = logging.getLogger("lanemq.proxy.admin")


@final
@define(eq=False, kw_only=True, repr=False)
class GroupSettings:
    """The settings of groups."""

    _groups: Groups
    _stages: GroupStages
    _statistics: BrokerStatistics
    _tables: ConfigTables
    _topics: Topics

    def put(self, frame: Frame, session: Session) -> Frame:
        """Create a group or change it. Raises ``Refused``, also for settings that are too long."""
        if len(frame.body) > SETTINGS_BYTES_MAX:
            remark = (
                f"the settings of a group have {len(frame.body)} bytes, at most "
                f"{SETTINGS_BYTES_MAX} are kept"
            )
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        config = SubscriptionGroupConfig.decode(frame.body)
        problem = group_name_problem(config.group_name)
        if problem is not None:
            raise Refused(ResponseCode.SYSTEM_ERROR, problem)
        self._topics.check_queues(max(config.retry_queue_nums, 0))
        config = self._with_stages(config)
        self._groups.put(config)
        LOGGER.info("group %s put by %s: %s", config.group_name, session.peer, config)
        return frame.reply()

    def configs(self, frame: Frame, session: Session) -> Frame:
        table = dict(self._tables.groups.configs)
        wrapper = SubscriptionGroupWrapper(table, self._tables.groups.data_version)
        return frame.reply(body=wrapper.encode())

    def config_of(
        self, header: GetSubscriptionGroupConfig, frame: Frame, session: Session
    ) -> Frame:
        config = self._groups.get(header.group)
        if config is None:
            remark = f"No group in this broker. group:{header.group}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return frame.reply(body=config.encode())

    def delete(self, header: DeleteSubscriptionGroup, frame: Frame, session: Session) -> Frame:
        """Delete a group's settings, and its offsets where that is asked for."""
        LOGGER.info("group %s deleted by %s", header.group_name, session.peer)
        self._groups.remove(header.group_name)
        if header.remove_offset or header.clean_offset:
            self._tables.consumer_offsets.remove_group(header.group_name)
            self._stages.forget(header.group_name)
        self._statistics.forget_group(header.group_name)
        return frame.reply()

    def _with_stages(self, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
        """Check the stages of new settings; the old ones stay where none are given.

        Tools that know of no stages send settings without, and mean something else by it. Counting
        begins anew for a group that had none. Raises ``Refused``.
        """
        old = self._groups.get(config.group_name)
        kept = old.extra.get(STAGES) if old is not None else None
        if STAGES not in config.extra and kept is not None:
            config = replace(config, extra={**config.extra, STAGES: kept})
        try:
            stages = stages_of(config)
        except ValueError as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        if stages and not kept:
            self._stages.forget(config.group_name)
        return config


@final
@define(eq=False, kw_only=True, repr=False)
class Members:
    """The clients of groups, and what they subscribe to."""

    _clients: ClientRegistry[Session]
    _now_ms: Callable[[], int]
    _now_s: Callable[[], float]

    def connection(self, client: Client[Session]) -> ClientConnection:
        return ClientConnection(
            client.client_id, str(client.session.peer), client.language, client.version
        )

    def consumers(self, header: GetConsumerConnectionList, frame: Frame, session: Session) -> Frame:
        """Answer the members of a consumer group and what they subscribe to."""
        group = self._clients.consumer_group(header.consumer_group)
        if group is None:
            remark = f"the consumer group[{header.consumer_group}] not online"
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        body = ConsumerConnection(
            connection_set=tuple(self.connection(client) for client in group.clients.values()),
            subscription_table=dict(group.subscriptions),
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        return frame.reply(body=body.encode())

    def producers(self, header: GetProducerConnectionList, frame: Frame, session: Session) -> Frame:
        """Answer the members of a producer group."""
        members = tuple(
            self.connection(client) for client in self._clients.producers(header.producer_group)
        )
        if not members:
            remark = f"the producer group[{header.producer_group}] not exist"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return frame.reply(body=ProducerConnection(members).encode())

    def all_producers(self, frame: Frame, session: Session) -> Frame:
        """Answer every producer of every group, with the time it was last heard from."""
        now_s, now_ms = self._now_s(), self._now_ms()
        data = {
            name: tuple(
                ProducerInfo(
                    client_id=client.client_id,
                    remote_ip=str(client.session.peer),
                    language=client.language,
                    version=client.version,
                    last_update_timestamp=now_ms - int((now_s - client.seen_s) * 1000),
                )
                for client in self._clients.producers(name)
            )
            for name in self._clients.producer_groups()
        }
        return frame.reply(body=ProducerTable(data).encode())

    def subscription(
        self, header: QuerySubscriptionByConsumer, frame: Frame, session: Session
    ) -> Frame:
        """Answer the subscription of a connected group to one topic."""
        group = self._clients.consumer_group(header.group)
        found = group.subscriptions.get(header.topic or "") if group is not None else None
        value = {"group": header.group, "subscriptionData": found, "topic": header.topic}
        return frame.reply(body=fastjson.dumps(value))


@final
@define(eq=False, kw_only=True, repr=False)
class GroupProgress:
    """The offsets of groups in topics."""

    _clients: ClientRegistry[Session]
    _tables: ConfigTables
    _topics: Topics

    def topics_of(self, group: str) -> set[str]:
        found = self._clients.consumer_group(group)
        live = found.subscriptions if found is not None else ()
        return {*self._tables.consumer_offsets.topics_of(group), *live}

    def topics(self, header: QueryTopicsByConsumer, frame: Frame, session: Session) -> Frame:
        """Answer the topics that a group subscribes to or has offsets in."""
        return frame.reply(body=TopicList(tuple(sorted(self.topics_of(header.group)))).encode())

    def clone(self, header: CloneGroupOffset, frame: Frame, session: Session) -> Frame:
        """Copy the offsets of one group to another; without a topic, in all topics of it.

        (4.9.8 copies nothing then.) Unless ``offline``, topics that the connected source does
        not subscribe to any more are left out.
        """
        source = self._clients.consumer_group(header.src_group)
        for topic in [header.topic] if header.topic else self.topics_of(header.src_group):
            if self._topics.get(topic) is None:
                continue
            if not header.offline and source is not None and topic not in source.subscriptions:
                continue
            for queue_id, offset in self._tables.consumer_offsets.queues(
                header.src_group, topic
            ).items():
                self._tables.consumer_offsets.put(header.dest_group, topic, queue_id, offset)
        return frame.reply()

    def all_offsets(self, frame: Frame, session: Session) -> Frame:
        body = ConsumerOffsetTable(self._tables.consumer_offsets.as_table())
        return frame.reply(body=body.encode())

    def delay_offsets(self, frame: Frame, session: Session) -> Frame:
        return frame.reply(body=DelayOffsetTable(self._tables.delay_offsets.as_table()).encode())


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register the requests about groups' settings, connected members, and tables of offsets."""
    group_settings = GroupSettings(
        groups=broker.groups,
        stages=broker.stages,
        statistics=broker.statistics,
        tables=broker.store.tables,
        topics=broker.topics,
    )
    members = Members(
        clients=broker.clients,
        now_ms=broker.now_ms,
        now_s=broker.now_s,
    )
    group_progress = GroupProgress(
        clients=broker.clients,
        tables=broker.store.tables,
        topics=broker.topics,
    )
    handlers.add(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group_settings.put)
    handlers.add(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, group_settings.configs)
    handlers.add(
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        typed(GetSubscriptionGroupConfig, group_settings.config_of),
    )
    handlers.add(
        RequestCode.DELETE_SUBSCRIPTIONGROUP, typed(DeleteSubscriptionGroup, group_settings.delete)
    )
    handlers.add(
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        typed(GetConsumerConnectionList, members.consumers),
    )
    handlers.add(
        RequestCode.GET_PRODUCER_CONNECTION_LIST,
        typed(GetProducerConnectionList, members.producers),
    )
    handlers.add(RequestCode.GET_ALL_PRODUCER_INFO, members.all_producers)
    handlers.add(
        RequestCode.QUERY_TOPICS_BY_CONSUMER, typed(QueryTopicsByConsumer, group_progress.topics)
    )
    handlers.add(
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        typed(QuerySubscriptionByConsumer, members.subscription),
    )
    handlers.add(RequestCode.CLONE_GROUP_OFFSET, typed(CloneGroupOffset, group_progress.clone))
    handlers.add(RequestCode.GET_ALL_CONSUMER_OFFSET, group_progress.all_offsets)
    handlers.add(RequestCode.GET_ALL_DELAY_OFFSET, group_progress.delay_offsets)
