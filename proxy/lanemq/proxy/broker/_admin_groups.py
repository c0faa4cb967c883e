"""What operators ask and tell a broker about groups: settings, members, offsets as a whole.

Source: RocketMQ 4.9.8, AdminBrokerProcessor; 5.3.3 for 343, 345 and 352.
"""

import logging
from dataclasses import replace

from lanemq.wire import (
    ClientConnection,
    ConsumerConnection,
    ConsumerOffsetTable,
    DelayOffsetTable,
    Frame,
    ProducerConnection,
    ProducerInfo,
    ProducerTable,
    Refused,
    RequestCode,
    ResponseCode,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicList,
    fastjson,
    group_name_problem,
)
from lanemq.wire.headers import (
    CloneGroupOffset,
    DeleteSubscriptionGroup,
    GetConsumerConnectionList,
    GetProducerConnectionList,
    GetSubscriptionGroupConfig,
    QuerySubscriptionByConsumer,
    QueryTopicsByConsumer,
)

from .._dispatch import Handlers, typed
from .._session import Session
from ._clients import Client
from ._context import BrokerContext
from ._stages import MEMBER as STAGES
from ._stages import stages_of

LOGGER = logging.getLogger("lanemq.proxy.admin")


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Settings of groups, who is connected, and the tables of offsets."""
    tables = broker.store.tables

    def put(frame: Frame, session: Session) -> Frame:
        """Create a group or change it."""
        config = SubscriptionGroupConfig.decode(frame.body)
        problem = group_name_problem(config.group_name)
        if problem is not None:
            raise Refused(ResponseCode.SYSTEM_ERROR, problem)
        config = _with_stages(broker, config)
        LOGGER.info("group %s put by %s: %s", config.group_name, session.peer, config)
        tables.groups.put(config)
        return frame.reply()

    def configs(frame: Frame, session: Session) -> Frame:
        table = dict(tables.groups.configs)
        wrapper = SubscriptionGroupWrapper(table, tables.groups.data_version)
        return frame.reply(body=wrapper.encode())

    def config_of(header: GetSubscriptionGroupConfig, frame: Frame, session: Session) -> Frame:
        config = broker.groups.get(header.group)
        if config is None:
            remark = f"No group in this broker. group:{header.group}"
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        return frame.reply(body=config.encode())

    def delete(header: DeleteSubscriptionGroup, frame: Frame, session: Session) -> Frame:
        """Delete a group's settings, and its offsets where that is asked for."""
        LOGGER.info("group %s deleted by %s", header.group_name, session.peer)
        tables.groups.remove(header.group_name)
        if header.remove_offset or header.clean_offset:
            tables.consumer_offsets.remove_group(header.group_name)
            broker.stages.forget(header.group_name)
        broker.statistics.forget_group(header.group_name)
        return frame.reply()

    def connection(client: Client[Session]) -> ClientConnection:
        return ClientConnection(
            client.client_id, str(client.session.peer), client.language, client.version
        )

    def consumers(header: GetConsumerConnectionList, frame: Frame, session: Session) -> Frame:
        """Answer the members of a consumer group and what they subscribe to."""
        group = broker.clients.consumer_group(header.consumer_group)
        if group is None:
            remark = f"the consumer group[{header.consumer_group}] not online"
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, remark)
        body = ConsumerConnection(
            connection_set=tuple(connection(client) for client in group.clients.values()),
            subscription_table=dict(group.subscriptions),
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        return frame.reply(body=body.encode())

    def producers(header: GetProducerConnectionList, frame: Frame, session: Session) -> Frame:
        """Answer the members of a producer group."""
        members = tuple(
            connection(client) for client in broker.clients.producers(header.producer_group)
        )
        if not members:
            remark = f"the producer group[{header.producer_group}] not exist"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return frame.reply(body=ProducerConnection(members).encode())

    def all_producers(frame: Frame, session: Session) -> Frame:
        """Answer every producer of every group, with the time it was last heard from."""
        now_s, now_ms = broker.now_s(), broker.now_ms()
        data = {
            name: tuple(
                ProducerInfo(
                    client_id=client.client_id,
                    remote_ip=str(client.session.peer),
                    language=client.language,
                    version=client.version,
                    last_update_timestamp=now_ms - int((now_s - client.seen_s) * 1000),
                )
                for client in broker.clients.producers(name)
            )
            for name in broker.clients.producer_groups()
        }
        return frame.reply(body=ProducerTable(data).encode())

    def topics_of(group: str) -> set[str]:
        found = broker.clients.consumer_group(group)
        live = found.subscriptions if found is not None else ()
        return {*tables.consumer_offsets.topics_of(group), *live}

    def topics(header: QueryTopicsByConsumer, frame: Frame, session: Session) -> Frame:
        """Answer the topics that a group subscribes to or has offsets in."""
        return frame.reply(body=TopicList(tuple(sorted(topics_of(header.group)))).encode())

    def subscription(header: QuerySubscriptionByConsumer, frame: Frame, session: Session) -> Frame:
        """Answer what a group subscribes to in one topic, if it is connected."""
        group = broker.clients.consumer_group(header.group)
        found = group.subscriptions.get(header.topic or "") if group is not None else None
        value = {"group": header.group, "subscriptionData": found, "topic": header.topic}
        return frame.reply(body=fastjson.dumps(value))

    def clone(header: CloneGroupOffset, frame: Frame, session: Session) -> Frame:
        """Give one group the offsets of another; without a topic, in all topics of it.

        (4.9.8 copies nothing then.) Unless ``offline``, topics that the connected source does
        not subscribe to any more are left out.
        """
        source = broker.clients.consumer_group(header.src_group)
        for topic in [header.topic] if header.topic else topics_of(header.src_group):
            if broker.topics.get(topic) is None:
                continue
            if not header.offline and source is not None and topic not in source.subscriptions:
                continue
            for queue_id, offset in tables.consumer_offsets.queues(header.src_group, topic).items():
                tables.consumer_offsets.put(header.dest_group, topic, queue_id, offset)
        return frame.reply()

    def all_offsets(frame: Frame, session: Session) -> Frame:
        body = ConsumerOffsetTable(tables.consumer_offsets.as_table())
        return frame.reply(body=body.encode())

    def delay_offsets(frame: Frame, session: Session) -> Frame:
        return frame.reply(body=DelayOffsetTable(tables.delay_offsets.as_table()).encode())

    handlers.add(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, put)
    handlers.add(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, configs)
    handlers.add(
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, typed(GetSubscriptionGroupConfig, config_of)
    )
    handlers.add(RequestCode.DELETE_SUBSCRIPTIONGROUP, typed(DeleteSubscriptionGroup, delete))
    handlers.add(
        RequestCode.GET_CONSUMER_CONNECTION_LIST, typed(GetConsumerConnectionList, consumers)
    )
    handlers.add(
        RequestCode.GET_PRODUCER_CONNECTION_LIST, typed(GetProducerConnectionList, producers)
    )
    handlers.add(RequestCode.GET_ALL_PRODUCER_INFO, all_producers)
    handlers.add(RequestCode.QUERY_TOPICS_BY_CONSUMER, typed(QueryTopicsByConsumer, topics))
    handlers.add(
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        typed(QuerySubscriptionByConsumer, subscription),
    )
    handlers.add(RequestCode.CLONE_GROUP_OFFSET, typed(CloneGroupOffset, clone))
    handlers.add(RequestCode.GET_ALL_CONSUMER_OFFSET, all_offsets)
    handlers.add(RequestCode.GET_ALL_DELAY_OFFSET, delay_offsets)


def _with_stages(broker: BrokerContext, config: SubscriptionGroupConfig) -> SubscriptionGroupConfig:
    """Check the stages of new settings; where they say nothing of any, the old ones stay.

    Tools that know of no stages send settings without, and mean something else by it. Counting
    begins anew for a group that had none. Raises ``Refused``.
    """
    old = broker.groups.get(config.group_name)
    kept = old.extra.get(STAGES) if old is not None else None
    if STAGES not in config.extra and kept is not None:
        config = replace(config, extra={**config.extra, STAGES: kept})
    try:
        stages = stages_of(config)
    except ValueError as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
    if stages and not kept:
        broker.stages.forget(config.group_name)
    return config
