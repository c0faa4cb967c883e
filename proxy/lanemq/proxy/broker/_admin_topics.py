"""What operators ask and tell a broker about topics.

Source: RocketMQ 4.9.8, AdminBrokerProcessor; TopicValidator (the names); 5.3.3 for 351.
"""

import logging
from collections.abc import Awaitable
from dataclasses import replace

from lanemq.wire import (
    STAGE_PREFIX,
    Frame,
    GroupList,
    MessageQueue,
    Refused,
    RequestCode,
    ResponseCode,
    TopicConfig,
    TopicConfigWrapper,
    TopicList,
    TopicOffset,
    TopicStatsTable,
    topic_name_problem,
)
from lanemq.wire.headers import (
    CreateTopic,
    DeleteTopic,
    GetTopicConfig,
    GetTopicStatsInfo,
    QueryTopicConsumeByWho,
)
from lanemq.wire.logical import LogicalQueues, with_logical_queues

from .._dispatch import Handlers, typed
from .._session import Session
from ..logical import IN_PROGRESS, mapped_queues
from ._context import BrokerContext
from ._stages import SHADOW_PREFIX

LOGGER = logging.getLogger("lanemq.proxy.admin")


def existing_topic(broker: BrokerContext, name: str) -> TopicConfig:
    """Return a topic's settings. Raises ``Refused`` with TOPIC_NOT_EXIST."""
    config = broker.topics.get(name)
    if config is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    return config


def queue_of(broker: BrokerContext, topic: str, queue_id: int) -> MessageQueue:
    """Return the name of one of this broker's queues."""
    return MessageQueue(topic, broker.config.broker_name, queue_id)


def store_time_ms(broker: BrokerContext, topic: str, queue_id: int, queue_offset: int) -> int:
    """Return when a message was stored; -1 for an offset without one."""
    if queue_offset < 0:
        return -1
    return broker.store.store_time_ms(topic, queue_id, queue_offset)


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Creation, deletion and inspection of topics."""
    store, tables, logical = broker.store, broker.store.tables, broker.logical

    def require_users_own(topic: str) -> None:
        problem = topic_name_problem(topic)
        if problem is None and broker.topics.is_system(topic):
            problem = f"The topic[{topic}] is conflict with system topic."
        if problem is not None:
            raise Refused(ResponseCode.SYSTEM_ERROR, problem)

    def put(header: CreateTopic, frame: Frame, session: Session) -> Frame:
        """Create a topic or change it; unlike 4.9.8, which forgets it, ``order`` is kept."""
        require_users_own(header.topic)
        if min(header.read_queue_nums, header.write_queue_nums) < 0:
            raise Refused(ResponseCode.SYSTEM_ERROR, "a topic cannot have less than no queue")
        mapping = broker.logical.get(header.topic)
        if mapping is not None:
            queues = mapped_queues(mapping)
            if min(header.read_queue_nums, header.write_queue_nums) < queues:
                remark = (
                    f"logical queues need {queues} queues of the topic: migrate them away first"
                )
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        known = broker.topics.get(header.topic) or TopicConfig(header.topic)
        config = replace(
            known,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
        )
        LOGGER.info("topic %s put by %s: %s", header.topic, session.peer, config)
        broker.topics.put(config)
        return frame.reply()

    def delete(header: DeleteTopic, frame: Frame, session: Session) -> Frame | Awaitable[Frame]:
        """Delete a topic and its queues. What groups consumed of it stays, as in 4.9.8."""
        require_users_own(header.topic)
        if broker.logical.is_busy(header.topic):
            raise Refused(ResponseCode.SYSTEM_ERROR, IN_PROGRESS)
        LOGGER.info("topic %s deleted by %s", header.topic, session.peer)
        broker.commit()  # messages of this very read may still be on their way into it
        tables.topics.remove(header.topic)
        store.delete_topic(header.topic)
        broker.statistics.forget_topic(header.topic)
        if broker.logical.get(header.topic) is not None:
            return forget_logical(header.topic, frame)
        return frame.reply()

    async def forget_logical(topic: str, frame: Frame) -> Frame:
        await broker.logical.forget(topic)
        await broker.announced()
        return frame.reply()

    def configs(frame: Frame, session: Session) -> Frame:
        """Answer the settings of all topics."""
        mapped = {topic: LogicalQueues(m.chains.values()) for topic, m in logical.mappings.items()}
        wrapper = TopicConfigWrapper(
            dict(tables.topics.configs),
            tables.topics.data_version,
            with_logical_queues({}, mapped) if mapped else {},
        )
        return frame.reply(body=wrapper.encode())

    def config_of(header: GetTopicConfig, frame: Frame, session: Session) -> Frame:
        config = broker.topics.get(header.topic)
        if config is None:
            remark = f"No topic in this broker. topic: {header.topic}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
        return frame.reply(body=config.encode())

    def system_topics(frame: Frame, session: Session) -> Frame:
        return frame.reply(body=TopicList(tuple(sorted(broker.topics.system_names()))).encode())

    def offsets(header: GetTopicStatsInfo, frame: Frame, session: Session) -> Frame:
        """Answer the bounds of each queue that may be written, and its last store time."""
        topic = existing_topic(broker, header.topic)
        table = {}
        for queue_id in range(topic.write_queue_nums):
            first, end = store.bounds(header.topic, queue_id)
            last_ms = store_time_ms(broker, header.topic, queue_id, end - 1) if end > 0 else 0
            table[queue_of(broker, header.topic, queue_id)] = TopicOffset(first, end, last_ms)
        counter = broker.statistics.topic(header.topic)
        tps = counter.rates(broker.now_s(), of_bytes=False)[0].tps if counter else 0.0
        return frame.reply(body=TopicStatsTable(table, tps).encode())

    def groups(header: QueryTopicConsumeByWho, frame: Frame, session: Session) -> Frame:
        """Answer the groups that subscribe to a topic now, and those that have offsets in it.

        Records of stages are kept as offsets of groups that nobody is in; they are left out.
        """
        names = {
            *broker.clients.groups_of_topic(header.topic),
            *tables.consumer_offsets.groups_of(header.topic),
        }
        real = (name for name in names if not name.startswith((STAGE_PREFIX, SHADOW_PREFIX)))
        return frame.reply(body=GroupList(tuple(sorted(real))).encode())

    def clean_now(frame: Frame, session: Session) -> Frame:
        """Have the store remove what is past its time; it does so beside the requests.

        One cleaning takes log files, and the queue and index files that lead into them. Queues
        of topics that do not exist any more go with their topic and need none.
        """
        store.delete_expired_files()
        return frame.reply()

    handlers.add(RequestCode.UPDATE_AND_CREATE_TOPIC, typed(CreateTopic, put))
    handlers.add(RequestCode.DELETE_TOPIC_IN_BROKER, typed(DeleteTopic, delete))
    handlers.add(RequestCode.GET_ALL_TOPIC_CONFIG, configs)
    handlers.add(RequestCode.GET_TOPIC_CONFIG, typed(GetTopicConfig, config_of))
    handlers.add(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, system_topics)
    handlers.add(RequestCode.GET_TOPIC_STATS_INFO, typed(GetTopicStatsInfo, offsets))
    handlers.add(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, typed(QueryTopicConsumeByWho, groups))
    for code in (
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
    ):
        handlers.add(code, clean_now)
