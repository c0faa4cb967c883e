"""Operators' requests about topics: settings, queues, the groups that read them.

Source: RocketMQ 4.9.8, AdminBrokerProcessor; TopicValidator (the names); 5.3.3 for 351.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.storage import Store
from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import (
    DataVersion,
    GroupList,
    MessageQueue,
    TopicConfigWrapper,
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
from lanemq.wire.logical import with_logical_queues
from lanemq.wire.message import is_stage_group

from ...net._dispatch import Handlers, typed
from ...net._long_answer import LongAnswer
from ...net._session import Session
from ...net._turns import LONG_PARTS, PARTS_OF_A_TURN, for_turns, make_beside
from ...sessions.state._clients import ClientRegistry
from ...sessions.values._framed import TopicStats
from ..context._context import BrokerContext
from ..logical.state._state import LogicalState
from ..state._stats import BrokerStatistics
from ..state._topics import Topics
from ._own_queues import OwnQueues
from ._topic_settings import TopicSettings

LOGGER = get_logger("lanemq.proxy.admin", by_peers=True)


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

    def configs(self, frame: Frame, session: Session) -> Frame | Awaitable[Frame]:
        """Answer the settings of all topics."""
        table = self._store.tables.topics
        version = table.data_version
        mapped = {topic: mapping.queues for topic, mapping in self._logical.mappings.items()}
        if not mapped and self._answered is not None and self._answered[0] is version:
            return frame.reply(body=self._answered[1])
        configs = dict(table.configs)
        parts = len(configs) + sum(queues.count for queues in mapped.values())

        def make() -> bytes:
            extra = with_logical_queues({}, mapped) if mapped else {}
            return TopicConfigWrapper(configs, version, extra).encode()

        if parts >= LONG_PARTS:
            return self._configs_later(frame, session, make, parts, None if mapped else version)
        self._answered = version, make()
        return frame.reply(body=self._answered[1])

    async def _configs_later(
        self,
        frame: Frame,
        session: Session,
        make: Callable[[], bytes],
        parts: int,
        kept_as: DataVersion | None,
    ) -> Frame:
        body = await make_beside(session, make, parts)
        if kept_as is not None:
            self._answered = kept_as, body
        return frame.reply(body=body)

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
        table = self._bounds(header.topic, self._writable(header.topic))
        return TopicStats(TopicStatsTable(table, self._tps(header.topic)))

    async def stats_in_turns(self, header: GetTopicStatsInfo) -> TopicStats:
        """Return ``stats``; those of many queues in turns. A topic that is deleted meanwhile has no
        more queues."""
        table = dict[MessageQueue, TopicOffset]()
        for some in for_turns(self._writable(header.topic)):
            if table:
                await trio.lowlevel.checkpoint()
                if self._topics.get(header.topic) is None:
                    break
            table |= self._bounds(header.topic, some)
        return TopicStats(TopicStatsTable(table, self._tps(header.topic)))

    def answer_stats(
        self, header: GetTopicStatsInfo, frame: Frame, session: Session
    ) -> TopicStats | Awaitable[Frame]:
        """Answer ``stats``; those of many queues in turns."""
        queue_ids = self._writable(header.topic)
        if len(queue_ids) <= PARTS_OF_A_TURN:
            return self.stats(header)
        return self._long_stats(header.topic, queue_ids, frame, session)

    async def _long_stats(
        self, topic: str, queue_ids: range, frame: Frame, session: Session
    ) -> Frame:
        async with LongAnswer.begin(session, frame.code) as answer:
            members = [
                await answer.members(self._bounds(topic, some))
                for some in for_turns(queue_ids)
                if self._topics.get(topic) is not None
            ]
            table = await answer.object(members)
            body = await answer.body({"offsetTable": table, "topicPutTps": self._tps(topic)})
            return frame.reply(body=body)

    def _writable(self, topic: str) -> range:
        return self._topics.queue_ids(self._queues.topic(topic).write_queue_nums)

    def _bounds(self, topic: str, queue_ids: Iterable[int]) -> dict[MessageQueue, TopicOffset]:
        table = {}
        for queue_id in queue_ids:
            first, end = self._store.bounds(topic, queue_id)
            last_ms = self._queues.store_time_ms(topic, queue_id, end - 1) if end > 0 else 0
            table[self._queues.named(topic, queue_id)] = TopicOffset(first, end, last_ms)
        return table

    def _tps(self, topic: str) -> float:
        counter = self._statistics.topic(topic)
        return counter.rates(self._now_s(), of_bytes=False)[0].tps if counter else 0.0

    async def groups(self, header: QueryTopicConsumeByWho, frame: Frame, session: Session) -> Frame:
        """Answer the groups that subscribe to a topic now, and those that have offsets in it.

        Records of stages are kept as offsets of groups that nobody is in; they are left out.
        """
        topic = header.topic
        async with LongAnswer.begin(session, frame.code) as answer:
            names = set(self._store.tables.consumer_offsets.groups_of(topic))
            for some in for_turns(self._clients.consumer_groups()):
                names.update(group.name for group in some if topic in group.subscriptions)
                await answer.look(len(some))

            def make() -> bytes:
                real = (name for name in names if not is_stage_group(name))
                return GroupList(tuple(sorted(real))).encode()

            return frame.reply(body=await make_beside(session, make, len(names)))


def register(handlers: Handlers, broker: BrokerContext, *, queues: OwnQueues) -> TopicViews:
    """Register creation, deletion and inspection of topics."""
    settings = TopicSettings(
        announced=broker.announced,
        commit_all=broker.commit_all,
        delete_topic=broker.delete_topic,
        light_queues=broker.light_queues,
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
        of topics that no longer exist go with their topic and need none.
        """
        broker.store.delete_expired_files()
        return frame.reply()

    handlers.add(RequestCode.UPDATE_AND_CREATE_TOPIC, typed(CreateTopic, settings.put))
    handlers.add(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, settings.put_all)
    handlers.add(RequestCode.DELETE_TOPIC_IN_BROKER, typed(DeleteTopic, settings.delete))
    handlers.add(RequestCode.GET_ALL_TOPIC_CONFIG, views.configs)
    handlers.add(RequestCode.GET_TOPIC_CONFIG, typed(GetTopicConfig, views.config_of))
    handlers.add(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, views.system_topics)
    handlers.add(RequestCode.GET_TOPIC_STATS_INFO, typed(GetTopicStatsInfo, views.answer_stats))
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
