"""Operators' questions about the progress of groups, and about counters.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import final

import trio
from attrs import define

from lanemq.storage import OffsetTable, Store
from lanemq.wire import HostAddress, Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStats,
    ConsumeStatsList,
    MessageQueue,
    OffsetWrapper,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    GetConsumeStats,
    GetConsumeStatsInBroker,
    ViewBrokerStatsData,
)
from lanemq.wire.logical import logical_broker, parse_progress_topic, place_of

from ...net._dispatch import Handlers, typed
from ...net._session import Session
from ..context._context import BrokerContext
from ..logical.state._state import LogicalState
from ..state._clients import ClientRegistry
from ..state._counter import Counter
from ..state._stats import BrokerStatistics
from ..state._topics import Topics
from ._own_queues import OwnQueues


@final
@define(eq=False, kw_only=True, repr=False)
class ConsumeProgress:
    """The progress of groups."""

    _address: HostAddress
    _clients: ClientRegistry[Session]
    _logical: LogicalState
    _now_s: Callable[[], float]
    _offsets: OffsetTable
    _queues: OwnQueues
    _statistics: BrokerStatistics
    _store: Store
    _topics: Topics

    def progress(
        self, group: str, topic: str, queue_ids: Iterable[int]
    ) -> dict[MessageQueue, OffsetWrapper]:
        table = {}
        for queue_id in queue_ids:
            consumed = self._offsets.get(group, topic, queue_id) or 0
            last_ms = self._queues.store_time_ms(topic, queue_id, consumed - 1)
            table[self._queues.named(topic, queue_id)] = OffsetWrapper(
                broker_offset=self._store.bounds(topic, queue_id)[1],
                consumer_offset=consumed,
                last_timestamp=max(last_ms, 0),
                # Only the client knows the messages that it holds and has not committed.
                pull_offset=consumed,
            )
        return table

    def logical_progress(self, group: str, wanted: str | None) -> dict[MessageQueue, OffsetWrapper]:
        """Return the progress in the logical queues that end on this broker, under the names of
        older clients.

        All brokers together answer for each queue once, whether a member is connected or not.
        """
        table = {}
        for name in self._offsets.topics_of(group):
            parsed = parse_progress_topic(name)
            mapping = None if parsed is None else self._logical.get(parsed.topic)
            if parsed is None or mapping is None or wanted not in (None, parsed.topic):
                continue
            topic, brokers = parsed.topic, self._logical.brokers.get(parsed.topic) or 1
            for index, consumed in self._offsets.queues(group, name).items():
                end = mapping.chain(index).normal
                if end is None or not mapping.is_own(end) or end.delta != parsed.delta:
                    continue
                number, queue_id = place_of(index, brokers)
                last_ms = -1
                if consumed > end.delta:
                    at = end.to_physical(consumed - 1)
                    last_ms = self._queues.store_time_ms(topic, end.queue_id, at)
                table[MessageQueue(topic, logical_broker(number), queue_id)] = OffsetWrapper(
                    broker_offset=end.to_logical(self._store.bounds(topic, end.queue_id)[1]),
                    consumer_offset=consumed,
                    last_timestamp=max(last_ms, 0),
                    pull_offset=consumed,
                )
        return table

    def consumed_topics(self, group: str, wanted: Iterable[str]) -> Iterator[str]:
        """Iterate over the group's topics, without deleted ones and those that it has left."""
        live = self._clients.consumer_group(group)
        for topic in wanted:
            if self._topics.get(topic) is None:
                continue
            if live is not None and live.subscriptions and topic not in live.subscriptions:
                continue
            yield topic

    def stats_of(self, group: str, topic: str, queues: int) -> ConsumeStats:
        return ConsumeStats(
            self.progress(group, topic, self._topics.queue_ids(queues)),
            self._statistics.group_tps(topic, group, self._now_s()),
        )

    async def consume_stats(self, header: GetConsumeStats, frame: Frame, session: Session) -> Frame:
        """Answer a group's progress in one topic, in several, or in all it ever read."""
        group = header.consumer_group
        wanted: Iterable[str]
        if header.topic:
            wanted = [header.topic]
        elif header.topic_list:
            wanted = [topic for topic in header.topic_list.split(";") if topic]
        else:
            wanted = sorted(self._offsets.topics_of(group))
        table: dict[MessageQueue, OffsetWrapper] = {}
        tps = 0.0
        for topic in self.consumed_topics(group, wanted):
            await trio.lowlevel.checkpoint()  # each may have many queues
            if self._topics.get(topic) is None:
                continue
            stats = self.stats_of(group, topic, self._queues.topic(topic).read_queue_nums)
            table.update(stats.offset_table)
            tps += stats.consume_tps
        if header.topic or not header.topic_list:
            table |= self.logical_progress(group, header.topic or None)
        return frame.reply(body=ConsumeStats(table, tps).encode())

    async def all_consume_stats(
        self, header: GetConsumeStatsInBroker, frame: Frame, session: Session
    ) -> Frame:
        """Answer the progress of every group; ``isOrder`` leaves only ordered topics."""
        groups: list[dict[str, tuple[ConsumeStats, ...]]] = []
        behind = 0
        for group in self._store.tables.groups.names:
            stats = []
            for topic in self.consumed_topics(group, sorted(self._offsets.topics_of(group))):
                await trio.lowlevel.checkpoint()
                config = self._topics.get(topic)
                if config is None or (header.is_order and not config.order):
                    continue
                found = self.stats_of(group, topic, config.write_queue_nums)
                behind += sum(
                    o.broker_offset - o.consumer_offset for o in found.offset_table.values()
                )
                stats.append(found)
            groups.append({group: tuple(stats)})
        body = ConsumeStatsList(tuple(groups), str(self._address), behind, 0)
        return frame.reply(body=body.encode())


@final
@define(eq=False, kw_only=True, repr=False)
class Counters:
    """The broker's counters."""

    _cluster_name: str
    _now_s: Callable[[], float]
    _statistics: BrokerStatistics

    def counter(self, header: ViewBrokerStatsData, frame: Frame, session: Session) -> Frame:
        """Answer one counter over the last minute, hour and day."""
        name, key = header.stats_name, header.stats_key
        found = self._find(name, key)
        if found is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        minute, hour, day = (
            BrokerStatsItem(rate.sum, rate.tps, rate.average)
            for rate in found.rates(self._now_s(), of_bytes=name.endswith("_SIZE"))
        )
        return frame.reply(body=BrokerStatsData(minute, hour, day).encode())

    def _find(self, name: str, key: str) -> Counter | None:
        statistics = self._statistics
        # A group never holds an @; a topic neither, but its counters are asked for by topic alone.
        topic, _, group = key.rpartition("@")
        if name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"):
            return statistics.topic(key)
        if name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE"):
            return statistics.group(topic, group)
        if name == "SNDBCK_PUT_NUMS":
            return statistics.send_back(topic, group)
        if key == self._cluster_name:
            totals = {"BROKER_PUT_NUMS": statistics.puts, "BROKER_GET_NUMS": statistics.gets}
            return totals.get(name)
        return None


def register(handlers: Handlers, broker: BrokerContext, *, queues: OwnQueues) -> None:
    """Register the requests about groups' progress and about counters."""
    consume_progress = ConsumeProgress(
        address=broker.address,
        clients=broker.clients,
        logical=broker.logical,
        now_s=broker.now_s,
        offsets=broker.store.tables.consumer_offsets,
        queues=queues,
        statistics=broker.statistics,
        store=broker.store,
        topics=broker.topics,
    )
    counters = Counters(
        cluster_name=broker.config.broker_cluster_name,
        now_s=broker.now_s,
        statistics=broker.statistics,
    )
    handlers.add(
        RequestCode.GET_CONSUME_STATS, typed(GetConsumeStats, consume_progress.consume_stats)
    )
    handlers.add(
        RequestCode.GET_BROKER_CONSUME_STATS,
        typed(GetConsumeStatsInBroker, consume_progress.all_consume_stats),
    )
    handlers.add(RequestCode.VIEW_BROKER_STATS_DATA, typed(ViewBrokerStatsData, counters.counter))
