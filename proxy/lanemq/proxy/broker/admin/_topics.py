"""Operators' requests about topics.

Source: RocketMQ 4.9.8, AdminBrokerProcessor; TopicValidator (the names); 5.3.3 for 351.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import final

from attrs import define, field

from lanemq.storage import Store
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import (
    DataVersion,
    GroupList,
    TopicConfig,
    TopicConfigWrapper,
    TopicFilterType,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    CreateTopic,
    DeleteTopic,
    GetTopicConfig,
    GetTopicStatsInfo,
    QueryTopicConsumeByWho,
)
from lanemq.wire.logical import MIGRATION_IN_PROGRESS, LogicalQueues, with_logical_queues
from lanemq.wire.message import is_stage_group

from ...logical.rules._map_changes import mapped_queues
from ...net._dispatch import Handlers, by_header, typed
from ...net._session import Session
from ..context._context import BrokerContext
from ..logical.state._state import LogicalState
from ..state._clients import ClientRegistry
from ..state._stats import BrokerStatistics
from ..state._topics import Topics
from ..values._framed import TopicStats
from ._own_queues import OwnQueues

LOGGER = logging.getLogger("lanemq.proxy.admin")


@final
@define(eq=False, kw_only=True, repr=False)
class TopicSettings:
    """The creation, change and deletion of topics."""

    _announced: Callable[[], Awaitable[None]]
    _delete_topic: Callable[[str], None]
    _logical: LogicalState
    _topics: Topics

    def put(self, header: CreateTopic, frame: Frame, session: Session) -> Awaitable[Frame]:
        """Create a topic or change it; unlike 4.9.8, which forgets it, ``order`` is kept.

        The answer waits, but not for long, until the name servers that are up know of it: the
        next sender finds a route. (``AdminBrokerProcessor`` registers before it answers, too.)
        """
        self._topics.check_users_own(header.topic)
        self._topics.check_queues(header.read_queue_nums, header.write_queue_nums)
        if header.topic_filter_type not in set(TopicFilterType):
            names = " or ".join(TopicFilterType)
            remark = f"the filter type of a topic is {names}, not {header.topic_filter_type[:40]!r}"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        mapping = self._logical.get(header.topic)
        if mapping is not None:
            queues = mapped_queues(mapping)
            if min(header.read_queue_nums, header.write_queue_nums) < queues:
                remark = (
                    f"logical queues need {queues} queues of the topic: migrate them away first"
                )
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        known = self._topics.get(header.topic) or TopicConfig(header.topic)
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
        self._topics.put(config)
        return self._once_announced(frame)

    def delete(
        self, header: DeleteTopic, frame: Frame, session: Session
    ) -> Frame | Awaitable[Frame]:
        """Delete a topic and its queues. The groups' offsets in it stay, as in 4.9.8."""
        self._topics.check_users_own(header.topic)
        if self._logical.is_busy(header.topic):
            raise Refused(ResponseCode.SYSTEM_ERROR, MIGRATION_IN_PROGRESS)
        LOGGER.info("topic %s deleted by %s", header.topic, session.peer)
        self._delete_topic(header.topic)
        if self._logical.get(header.topic) is not None:
            return self._forget_logical(header.topic, frame)
        return frame.reply()

    async def _forget_logical(self, topic: str, frame: Frame) -> Frame:
        await self._logical.forget(topic)
        return await self._once_announced(frame)

    async def _once_announced(self, frame: Frame) -> Frame:
        await self._announced()
        return frame.reply()


@final
@define(eq=False, kw_only=True, repr=False)
class TopicViews:
    """The settings of topics, their queues, and the groups that read them."""

    _clients: ClientRegistry[Session]
    _logical: LogicalState
    _now_s: Callable[[], float]
    _queues: OwnQueues
    _statistics: BrokerStatistics
    _store: Store
    _topics: Topics
    _answered: tuple[DataVersion, bytes] | None = field(init=False, default=None)
    """The last answer to ``configs`` without logical queues, and the version that it has."""

    def configs(self, frame: Frame, session: Session) -> Frame:
        """Answer the settings of all topics."""
        table = self._store.tables.topics
        version = table.data_version
        mapped = {
            topic: LogicalQueues(mapping.chains.values())
            for topic, mapping in self._logical.mappings.items()
        }
        if not mapped and self._answered is not None and self._answered[0] is version:
            return frame.reply(body=self._answered[1])
        wrapper = TopicConfigWrapper(
            dict(table.configs), version, with_logical_queues({}, mapped) if mapped else {}
        )
        self._answered = version, wrapper.encode()
        return frame.reply(body=self._answered[1])

    def config_of(self, header: GetTopicConfig, frame: Frame, session: Session) -> Frame:
        config = self._topics.get(header.topic)
        if config is None:
            remark = f"No topic in this broker. topic: {header.topic}"
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
        return frame.reply(body=config.encode())

    def system_topics(self, frame: Frame, session: Session) -> Frame:
        return frame.reply(body=TopicList(tuple(sorted(self._topics.system_names()))).encode())

    def stats(self, header: GetTopicStatsInfo) -> TopicStats:
        """Return the bounds of each queue that may be written, and its last store time."""
        topic, queues = header.topic, self._queues
        table = {}
        for queue_id in self._topics.queue_ids(queues.topic(topic).write_queue_nums):
            first, end = self._store.bounds(topic, queue_id)
            last_ms = queues.store_time_ms(topic, queue_id, end - 1) if end > 0 else 0
            table[queues.named(topic, queue_id)] = TopicOffset(first, end, last_ms)
        counter = self._statistics.topic(topic)
        tps = counter.rates(self._now_s(), of_bytes=False)[0].tps if counter else 0.0
        return TopicStats(TopicStatsTable(table, tps))

    def groups(self, header: QueryTopicConsumeByWho, frame: Frame, session: Session) -> Frame:
        """Answer the groups that subscribe to a topic now, and those that have offsets in it.

        Records of stages are kept as offsets of groups that nobody is in; they are left out.
        """
        names = {
            *self._clients.groups_of_topic(header.topic),
            *self._store.tables.consumer_offsets.groups_of(header.topic),
        }
        real = (name for name in names if not is_stage_group(name))
        return frame.reply(body=GroupList(tuple(sorted(real))).encode())


def register(handlers: Handlers, broker: BrokerContext, *, queues: OwnQueues) -> TopicViews:
    """Register creation, deletion and inspection of topics."""
    settings = TopicSettings(
        announced=broker.announced,
        delete_topic=broker.delete_topic,
        logical=broker.logical,
        topics=broker.topics,
    )
    views = TopicViews(
        clients=broker.clients,
        logical=broker.logical,
        now_s=broker.now_s,
        queues=queues,
        statistics=broker.statistics,
        store=broker.store,
        topics=broker.topics,
    )

    def clean_now(frame: Frame, session: Session) -> Frame:
        """Ask the store to remove expired files, which it does beside the requests.

        One cleaning takes log files, and the queue and index files that lead into them. Queues
        of topics that do not exist any more go with their topic and need none.
        """
        broker.store.delete_expired_files()
        return frame.reply()

    handlers.add(RequestCode.UPDATE_AND_CREATE_TOPIC, typed(CreateTopic, settings.put))
    handlers.add(RequestCode.DELETE_TOPIC_IN_BROKER, typed(DeleteTopic, settings.delete))
    handlers.add(RequestCode.GET_ALL_TOPIC_CONFIG, views.configs)
    handlers.add(RequestCode.GET_TOPIC_CONFIG, typed(GetTopicConfig, views.config_of))
    handlers.add(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, views.system_topics)
    handlers.add(RequestCode.GET_TOPIC_STATS_INFO, by_header(GetTopicStatsInfo, views.stats))
    handlers.add(
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, typed(QueryTopicConsumeByWho, views.groups)
    )
    for code in (
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
    ):
        handlers.add(code, clean_now)
    return views
