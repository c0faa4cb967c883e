"""Operators' questions about the progress of groups, and about counters.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, final

from attrs import define

from lanemq.storage import OffsetTable, Store
from lanemq.wire import HostAddress, Refused, RequestCode, ResponseCode, listed
from lanemq.wire.bodies import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeStats,
    MessageQueue,
    OffsetWrapper,
)
from lanemq.wire.frame import Frame
from lanemq.wire.headers import (
    GetConsumeStats,
    GetConsumeStatsInBroker,
    ViewBrokerStatsData,
)
from lanemq.wire.logical import ProgressTopic, logical_broker, parse_progress_topic, place_of

from ...acl import UNLIMITED, Rights, reads_of
from ...net._dispatch import Handlers, typed
from ...net._long_answer import LongAnswer
from ...net._session import Session
from ...net._turns import for_turns
from ...sessions.state._clients import ClientRegistry
from ...sessions.values._rights import RightsOf
from ..context._context import BrokerContext
from ..logical.state._state import LogicalState
from ..state._counter import Counter
from ..state._stats import BrokerStatistics
from ..state._topics import Topics
from ._own_queues import OwnQueues
from ._telling import may_tell

_LEAST_QUEUE_BYTES: Final = len(
    ConsumeStats({MessageQueue("", "", 0): OffsetWrapper(0, 0, 0, 0)}).encode()
) - len(ConsumeStats({}).encode())


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
    _rights: RightsOf
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
                pull_offset=max(self._statistics.pull_offset(topic, group, queue_id), consumed),
            )
        return table

    async def logical_written(
        self, answer: LongAnswer, group: str, wanted: str | None, rights: Rights
    ) -> list[bytes]:
        """Write the progress in the logical queues that end on this broker, under the names of
        older clients.

        All brokers together answer for each queue once, whether a member is connected or not.
        """
        members = []
        for name in tuple(self._offsets.topics_of(group)):
            await answer.look(1)
            parsed = parse_progress_topic(name)
            if parsed is None or wanted not in (None, parsed.topic):
                continue
            if not await may_tell(answer, rights, reads_of(parsed.topic)):
                continue
            for some in for_turns(tuple(self._offsets.queues(group, name).items())):
                await answer.look(len(some))
                members.append(await answer.members(self.logical_progress(parsed, some)))
        return members

    def logical_progress(
        self, name: ProgressTopic, offsets: Iterable[tuple[int, int]]
    ) -> dict[MessageQueue, OffsetWrapper]:
        """Return the progress in some logical queues, by what is kept under a name; without those
        that do not end here."""
        table: dict[MessageQueue, OffsetWrapper] = {}
        topic, mapping = name.topic, self._logical.get(name.topic)
        if mapping is None:
            return {}
        brokers = self._logical.brokers.get(topic) or 1
        for index, consumed in offsets:
            end = mapping.chain(index).normal
            if end is None or not mapping.is_own(end) or end.delta != name.delta:
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

    async def consumed_topics(
        self, answer: LongAnswer, group: str, wanted: Sequence[str], *, is_order: bool = False
    ) -> list[str]:
        """Return the group's topics, without deleted ones and those that it has left; of ordered
        topics alone where that ``is_order``."""
        live = self._clients.consumer_group(group)
        left = live.subscriptions if live is not None else None
        found = []
        for some in for_turns(wanted):
            await answer.look(len(some))
            for topic in some:
                config = self._topics.get(topic)
                is_wanted = config is not None and (config.order or not is_order)
                if is_wanted and (not left or topic in left):
                    found.append(topic)
        return found

    def queue_ids(self, topic: str, *, writes: bool) -> Sequence[int]:
        """Return the queues of a topic to read, or to write to; none of one that is deleted."""
        config = self._topics.get(topic)
        if config is None:
            return ()
        return self._topics.queue_ids(config.write_queue_nums if writes else config.read_queue_nums)

    async def expect(self, answer: LongAnswer, topic: str, *, writes: bool) -> None:
        """Count the least that the progress in a topic takes."""
        per_queue_bytes = _LEAST_QUEUE_BYTES + len(topic)
        await answer.expect(len(self.queue_ids(topic, writes=writes)) * per_queue_bytes)

    async def written(
        self, answer: LongAnswer, group: str, topic: str, *, writes: bool
    ) -> tuple[list[bytes], int]:
        """Write the progress in a topic; also returns the number of messages not yet consumed.

        A topic that is deleted meanwhile has no more queues.
        """
        members, behind = [], 0
        for queue_ids in for_turns(self.queue_ids(topic, writes=writes)):
            if self._topics.get(topic) is None:
                break
            found = self.progress(group, topic, queue_ids)
            behind += sum(one.broker_offset - one.consumer_offset for one in found.values())
            members.append(await answer.members(found))
        return members, behind

    async def consume_stats(self, header: GetConsumeStats, frame: Frame, session: Session) -> Frame:
        """Answer a group's progress in one topic, in several, or in all it ever read: of these, in
        those that the sender may read."""
        group, names_none = header.consumer_group, not (header.topic or header.topic_list)
        wanted: Iterable[str]
        if header.topic:
            wanted = [header.topic]
        elif header.topic_list:
            wanted = dict.fromkeys(filter(None, listed("topicList", header.topic_list, ";")))
        else:
            wanted = sorted(self._offsets.topics_of(group))
        async with LongAnswer.begin(session, frame.code) as answer:
            rights = self._rights(frame, session) if names_none else UNLIMITED
            topics = []
            for topic in await self.consumed_topics(answer, group, list(wanted)):
                if await may_tell(answer, rights, reads_of(topic)):
                    topics.append(topic)
            for topic in topics:
                await self.expect(answer, topic, writes=False)
            members: list[bytes] = []
            tps = 0.0
            for topic in topics:
                if self._topics.get(topic) is not None:
                    found, _ = await self.written(answer, group, topic, writes=False)
                    members += found
                    tps += self._statistics.group_tps(topic, group, self._now_s())
            if header.topic or names_none:
                members += await self.logical_written(answer, group, header.topic or None, rights)
            body = {"consumeTps": tps, "offsetTable": await answer.object(members)}
            return frame.reply(body=await answer.body(body))

    async def all_consume_stats(
        self, header: GetConsumeStatsInBroker, frame: Frame, session: Session
    ) -> Frame:
        """Answer the progress of every group; ``isOrder`` leaves only ordered topics."""
        groups: list[dict[str, list[dict[str, object]]]] = []
        behind = 0
        async with LongAnswer.begin(session, frame.code) as answer:
            consumed: dict[str, list[str]] = {}
            for group in tuple(self._store.tables.groups.names):
                await answer.expect(len(group))
                wanted = sorted(self._offsets.topics_of(group))
                consumed[group] = await self.consumed_topics(
                    answer, group, wanted, is_order=header.is_order
                )
                for topic in consumed[group]:
                    await self.expect(answer, topic, writes=True)
            for group, topics in consumed.items():
                stats: list[dict[str, object]] = []
                for topic in topics:
                    if self._topics.get(topic) is None:
                        continue
                    members, left = await self.written(answer, group, topic, writes=True)
                    behind += left
                    tps = self._statistics.group_tps(topic, group, self._now_s())
                    stats.append({"consumeTps": tps, "offsetTable": await answer.object(members)})
                groups.append({group: stats})
            body = {
                "brokerAddr": str(self._address),
                "consumeStatsList": groups,
                "totalDiff": behind,
                "totalInflightDiff": 0,
            }
            return frame.reply(body=await answer.body(body))


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
        rights=broker.rights,
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
