"""What operators ask a broker about progress: of groups, of queues, of its counters.

Source: RocketMQ 4.9.8, AdminBrokerProcessor, ConsumerOffsetManager.queryMinOffsetInAllGroup.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from lanemq.wire import (
    BrokerStatsData,
    BrokerStatsItem,
    ConsumeQueueData,
    ConsumeStats,
    ConsumeStatsList,
    Frame,
    MessageQueue,
    OffsetWrapper,
    QueryConsumeQueueBody,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    QueueTimeSpan,
    Refused,
    RequestCode,
    ResponseCode,
)
from lanemq.wire.headers import (
    GetConsumeStats,
    GetConsumeStatsInBroker,
    QueryConsumeQueue,
    QueryConsumeTimeSpan,
    QueryCorrectionOffset,
    ViewBrokerStatsData,
)

from .._dispatch import Handlers, typed
from .._session import Session
from ._admin_topics import existing_topic, queue_of, store_time_ms
from ._context import BrokerContext
from ._counter import Counter

LONG_MAX: Final = (1 << 63) - 1
UNITS_MAX: Final = 16_384  # of one answer; they stay far below the longest frame


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Progress of groups, time spans, entries of queues, counters."""
    store, offsets = broker.store, broker.store.tables.consumer_offsets

    def progress(
        group: str, topic: str, queue_ids: Iterable[int]
    ) -> dict[MessageQueue, OffsetWrapper]:
        table = {}
        for queue_id in queue_ids:
            consumed = offsets.get(group, topic, queue_id) or 0
            last_ms = store_time_ms(broker, topic, queue_id, consumed - 1)
            table[queue_of(broker, topic, queue_id)] = OffsetWrapper(
                broker_offset=store.bounds(topic, queue_id)[1],
                consumer_offset=consumed,
                last_timestamp=max(last_ms, 0),
                # What a client holds and has not committed is known to the client alone.
                pull_offset=consumed,
            )
        return table

    def consumed_topics(group: str, wanted: Iterable[str]) -> Iterator[str]:
        """Pass over topics that are gone, and those the connected group has left."""
        live = broker.clients.consumer_group(group)
        for topic in wanted:
            if broker.topics.get(topic) is None:
                continue
            if live is not None and live.subscriptions and topic not in live.subscriptions:
                continue
            yield topic

    def stats_of(group: str, topic: str, queues: int) -> ConsumeStats:
        return ConsumeStats(
            progress(group, topic, range(queues)),
            broker.statistics.group_tps(topic, group, broker.now_s()),
        )

    def consume_stats(header: GetConsumeStats, frame: Frame, session: Session) -> Frame:
        """Answer how far a group has come in one topic, in several, or in all it ever read."""
        group = header.consumer_group
        wanted: Iterable[str]
        if header.topic:
            wanted = [header.topic]
        elif header.topic_list:
            wanted = [topic for topic in header.topic_list.split(";") if topic]
        else:
            wanted = sorted(offsets.topics_of(group))
        table: dict[MessageQueue, OffsetWrapper] = {}
        tps = 0.0
        for topic in consumed_topics(group, wanted):
            stats = stats_of(group, topic, existing_topic(broker, topic).read_queue_nums)
            table.update(stats.offset_table)
            tps += stats.consume_tps
        return frame.reply(body=ConsumeStats(table, tps).encode())

    def all_consume_stats(header: GetConsumeStatsInBroker, frame: Frame, session: Session) -> Frame:
        """Answer how far every group has come; ``isOrder`` leaves only ordered topics."""
        groups: list[dict[str, tuple[ConsumeStats, ...]]] = []
        behind = 0
        for group in broker.store.tables.groups.names:
            stats = []
            for topic in consumed_topics(group, sorted(offsets.topics_of(group))):
                config = existing_topic(broker, topic)
                if header.is_order and not config.order:
                    continue
                found = stats_of(group, topic, config.write_queue_nums)
                behind += sum(
                    o.broker_offset - o.consumer_offset for o in found.offset_table.values()
                )
                stats.append(found)
            groups.append({group: tuple(stats)})
        body = ConsumeStatsList(tuple(groups), str(broker.address), behind, 0)
        return frame.reply(body=body.encode())

    def time_span(header: QueryConsumeTimeSpan, frame: Frame, session: Session) -> Frame:
        """Answer, in store times, where each queue begins and ends and where the group is."""
        topic = existing_topic(broker, header.topic)
        now_ms = broker.now_ms()
        spans = []
        for queue_id in range(topic.write_queue_nums):
            end = store.bounds(header.topic, queue_id)[1]
            consumed = offsets.get(header.group, header.topic, queue_id) or 0
            first_ms = store.earliest_time_ms(header.topic, queue_id)
            consumed_ms = first_ms
            if consumed > 0:
                consumed_ms = store_time_ms(broker, header.topic, queue_id, consumed - 1)
            delay_ms = 0
            if consumed < end:
                next_ms = store_time_ms(broker, header.topic, queue_id, consumed)
                # Without a store time (the message is gone) the reference counts from 1970.
                delay_ms = now_ms - next_ms if next_ms > 0 else 0
            spans.append(
                QueueTimeSpan(
                    message_queue=queue_of(broker, header.topic, queue_id),
                    min_time_stamp=first_ms,
                    max_time_stamp=store_time_ms(broker, header.topic, queue_id, end - 1),
                    consume_time_stamp=consumed_ms,
                    delay_time=delay_ms,
                )
            )
        return frame.reply(body=QueryConsumeTimeSpanBody(tuple(spans)).encode())

    def correction(header: QueryCorrectionOffset, frame: Frame, session: Session) -> Frame:
        """Answer the lowest offset any group holds in each queue, but for some groups.

        Where the compared group is ahead of it the answer is the largest long, "no correction".
        """
        left_out = set((header.filter_groups or "").split(","))
        lowest: dict[int, int] = {}
        for group in offsets.groups_of(header.topic):
            if group in left_out:
                continue
            for queue_id, offset in offsets.queues(group, header.topic).items():
                if offset >= store.bounds(header.topic, queue_id)[0]:
                    lowest[queue_id] = min(offset, lowest.get(queue_id, LONG_MAX))
        for queue_id, compared in offsets.queues(header.compare_group, header.topic).items():
            if lowest.get(queue_id, LONG_MAX) > compared:
                lowest[queue_id] = LONG_MAX
        return frame.reply(body=QueryCorrectionOffsetBody(lowest).encode())

    def queue_units(header: QueryConsumeQueue, frame: Frame, session: Session) -> Frame:
        """Answer entries of a queue: where in the log, how long, which tags."""
        topic, queue_id = header.topic or "", header.queue_id
        config = broker.topics.get(topic)
        if config is None or not 0 <= queue_id < max(
            config.read_queue_nums, config.write_queue_nums
        ):
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        subscription, filter_data = None, None
        if header.consumer_group:
            group = broker.clients.consumer_group(header.consumer_group)
            subscription = group.subscriptions.get(topic) if group is not None else None
            if subscription is None:
                filter_data = f"{header.consumer_group}@{topic} is not online!"
        first, end = store.bounds(topic, queue_id)
        body = QueryConsumeQueueBody(
            subscription_data=subscription,
            filter_data=filter_data,
            queue_data=tuple(
                ConsumeQueueData(unit.log_position, unit.size_bytes, unit.tags_code)
                for unit in store.units(
                    topic, queue_id, header.index, min(max(header.count, 0), UNITS_MAX)
                )
            ),
            max_queue_index=end,
            min_queue_index=first,
        )
        return frame.reply(body=body.encode())

    def counter(header: ViewBrokerStatsData, frame: Frame, session: Session) -> Frame:
        """Answer one counter over the last minute, hour and day."""
        name, key = header.stats_name, header.stats_key
        found = _find_counter(broker, name, key)
        if found is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        minute, hour, day = (
            BrokerStatsItem(rate.sum, rate.tps, rate.average)
            for rate in found.rates(broker.now_s(), of_bytes=name.endswith("_SIZE"))
        )
        return frame.reply(body=BrokerStatsData(minute, hour, day).encode())

    handlers.add(RequestCode.GET_CONSUME_STATS, typed(GetConsumeStats, consume_stats))
    handlers.add(
        RequestCode.GET_BROKER_CONSUME_STATS, typed(GetConsumeStatsInBroker, all_consume_stats)
    )
    handlers.add(RequestCode.QUERY_CONSUME_TIME_SPAN, typed(QueryConsumeTimeSpan, time_span))
    handlers.add(RequestCode.QUERY_CORRECTION_OFFSET, typed(QueryCorrectionOffset, correction))
    handlers.add(RequestCode.QUERY_CONSUME_QUEUE, typed(QueryConsumeQueue, queue_units))
    handlers.add(RequestCode.VIEW_BROKER_STATS_DATA, typed(ViewBrokerStatsData, counter))


def _find_counter(broker: BrokerContext, name: str, key: str) -> Counter | None:
    statistics = broker.statistics
    # A group never holds an @; a topic neither, but its counters are asked for by topic alone.
    topic, _, group = key.rpartition("@")
    if name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"):
        return statistics.topic(key)
    if name in ("GROUP_GET_NUMS", "GROUP_GET_SIZE"):
        return statistics.group(topic, group)
    if name == "SNDBCK_PUT_NUMS":
        return statistics.send_back(topic, group)
    if key == broker.config.broker_cluster_name:
        return {"BROKER_PUT_NUMS": statistics.puts, "BROKER_GET_NUMS": statistics.gets}.get(name)
    return None
