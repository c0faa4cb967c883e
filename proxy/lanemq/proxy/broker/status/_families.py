"""A broker's status for Prometheus.

Names and labels are those of Apache's 5.x brokers and of rocketmq-exporter, where they have one for
the same thing; lanemq's own begin with ``lanemq_``.
Source: RocketMQ 5.3.3, BrokerMetricsConstant, DefaultStoreMetricsConstant; rocketmq-exporter,
RMQMetricsCollector.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final, final

from attrs import define

from lanemq.wire import is_system_group
from lanemq.wire.kv import NamespaceStatus
from lanemq.wire.logical import SegmentState

from ...net.http._exposition import Family, Samples
from ...sessions.state._stages import SHADOW_PREFIX
from ..context._context import BrokerContext
from ._snapshot import BrokerStatus, StatusReader

NODE: Final = ("cluster", "node_type", "node_id")
OLD: Final = ("cluster", "broker")
"""The labels of rocketmq-exporter."""


@final
@define(eq=False, kw_only=True, repr=False)
class BrokerFamilies:
    """The metrics of one broker."""

    _broker: BrokerContext
    _keys: Callable[[], Iterable[NamespaceStatus]]
    _status: StatusReader

    def all(self) -> Iterator[Family]:
        """Iterate over the metrics; samples are read as they are written."""
        yield from self._whole(self._status.read())
        yield from self._topics()
        yield from self._groups()
        yield from self._members()
        yield from self._own()

    @property
    def _node(self) -> tuple[str, ...]:
        config = self._broker.config
        return config.broker_cluster_name, "broker", config.broker_name

    @property
    def _old(self) -> tuple[str, ...]:
        config = self._broker.config
        return config.broker_cluster_name, config.broker_name

    def _one(self, name: str, help_text: str, value: float) -> Family:
        return Family(name, help_text, NODE, [(self._node, value)])

    def _whole(self, status: BrokerStatus) -> Iterator[Family]:
        broker, store, one = self._broker, status.store, self._one
        tables = broker.store.tables
        yield one("rocketmq_broker_permission", "4 read, 2 write.", broker.config.broker_permission)
        yield one("rocketmq_topic_number", "Topics.", len(tables.topics.configs))
        yield Family(
            "rocketmq_consumer_group_number", "Consumer groups.", NODE, self._group_number()
        )
        yield one(
            "rocketmq_storage_size",
            "Bytes of the log.",
            store.max_position - max(store.min_position, 0),
        )
        yield one(
            "rocketmq_storage_flush_behind_bytes",
            "Bytes of the log that are not durable yet.",
            store.max_position - store.flushed_position,
        )
        yield one(
            "rocketmq_storage_dispatch_behind_bytes",
            "Bytes of the log that are not in queues yet.",
            store.dispatch_behind_bytes,
        )
        age_ms = broker.now_ms() - status.oldest_ms if status.oldest_ms >= 0 else 0
        yield one("rocketmq_storage_message_reserve_time", "Age of the log in ms.", age_ms)
        yield one("lanemq_disk_used_ratio", "Used share of the disk.", status.disk_ratio)
        yield one("lanemq_sends_failed_total", "Messages refused.", status.sends_failed)
        yield one("lanemq_write_p99_milliseconds", "Of writes of the log.", status.write_p99_ms)
        yield one("lanemq_pulls_found_total", "Pulls that found messages.", status.pulls_found)
        yield one("lanemq_pulls_missed_total", "Pulls that found none.", status.pulls_missed)
        yield one(
            "lanemq_timers_pending", "Messages that wait for their time.", status.timers.pending
        )
        yield one("lanemq_undelivered_total", "Delayed messages given up.", status.undelivered)
        yield one("lanemq_task_failures_total", "Of background tasks.", status.task_failures)
        yield one("lanemq_loop_longest_turn_seconds", "Since the start.", status.loop_longest_s)
        yield one("lanemq_loop_held_total", "Turns longer than 100 ms.", status.loop_held)
        yield one("lanemq_peer_memory_bytes", "Memory kept for all peers.", status.peer_bytes)
        yield one("lanemq_peer_memory_limit_bytes", "Its bound.", status.peer_bytes_max)
        yield one("lanemq_connections", "Connections of the process.", status.connections)
        yield one("lanemq_uptime_seconds", "Since the start.", status.uptime_s)
        if status.refused is not None:
            yield one("lanemq_refused_total", "Requests that accounts forbid.", status.refused)

    def _group_number(self) -> Samples:
        count = 0
        for name in self._broker.store.tables.groups.names:
            count += not is_system_group(name)
            yield 1
        yield self._node, count

    def _topics(self) -> Iterator[Family]:
        statistics, node, old = self._broker.statistics, self._node, self._old
        topics, store = self._broker.store.tables.topics, self._broker.store

        def put(read: Callable[[str], float | None]) -> Samples:
            for topic in topics.names:
                value = read(topic)
                yield 1 if value is None else ((*node, topic), value)

        def messages(topic: str) -> float | None:
            counter = statistics.topic(topic)
            return None if counter is None else counter.messages

        def size_bytes(topic: str) -> float | None:
            counter = statistics.topic(topic)
            return None if counter is None else counter.size_bytes

        def ends() -> Samples:
            for topic in topics.names:
                config = topics.get(topic)
                queues = 0 if config is None else config.queue_count
                end = sum(store.bounds(topic, queue)[1] for queue in range(queues))
                yield 1 + queues
                if end:
                    yield (*old, topic), end

        labels = (*NODE, "topic")
        yield Family("rocketmq_messages_in_total", "Messages stored.", labels, put(messages))
        yield Family("rocketmq_throughput_in_total", "Bytes stored.", labels, put(size_bytes))
        yield Family(
            "rocketmq_producer_offset",
            "Sum of the ends of a topic's queues.",
            (*OLD, "topic"),
            ends(),
        )

    def _groups(self) -> Iterator[Family]:
        broker, node, old = self._broker, self._node, self._old
        offsets, statistics = broker.store.tables.consumer_offsets, broker.statistics

        def pairs() -> Iterator[tuple[str, str] | None]:
            for group in broker.store.tables.groups.names:
                yield None
                for topic in offsets.topics_of(group):
                    yield None if broker.topics.get(topic) is None else (topic, group)

        def of_queues(
            labels: tuple[str, ...], number: Callable[[str, str, int, int], int]
        ) -> Samples:
            for pair in pairs():
                if pair is None:
                    yield 1
                    continue
                topic, group = pair
                queues = offsets.queues(group, topic)
                value = sum(number(topic, group, *queue) for queue in queues.items())
                yield len(queues)
                yield (*labels, topic, group), value

        def lag(topic: str, group: str, queue: int, offset: int) -> int:
            return max(0, broker.store.bounds(topic, queue)[1] - offset)

        def in_flight(topic: str, group: str, queue: int, offset: int) -> int:
            return max(0, statistics.pull_offset(topic, group, queue) - offset)

        def taken(of_bytes: bool) -> Samples:
            for pair in pairs():
                counter = None if pair is None else statistics.group(*pair)
                if pair is None or counter is None:
                    yield 1
                else:
                    yield (*node, *pair), counter.size_bytes if of_bytes else counter.messages

        both = (*NODE, "topic", "consumer_group")
        yield Family("rocketmq_messages_out_total", "Messages delivered.", both, taken(False))
        yield Family("rocketmq_throughput_out_total", "Bytes delivered.", both, taken(True))
        yield Family(
            "rocketmq_consumer_lag_messages",
            "Messages that are not consumed.",
            both,
            of_queues(node, lag),
        )
        yield Family(
            "rocketmq_consumer_inflight_messages",
            "Messages that were pulled and not committed.",
            both,
            of_queues(node, in_flight),
        )
        yield Family(
            "rocketmq_consumer_offset",
            "Sum of a group's offsets in a topic.",
            (*OLD, "topic", "group"),
            of_queues(old, lambda topic, group, queue, offset: offset),
        )

    def _members(self) -> Iterator[Family]:
        broker, node = self._broker, self._node
        yield Family(
            "rocketmq_consumer_connections",
            "Members of a group.",
            (*NODE, "consumer_group"),
            (
                1
                if (members := broker.clients.consumer_group(group)) is None
                else ((*node, group), len(members.clients))
                for group in broker.store.tables.groups.names
            ),
        )
        yield Family(
            "rocketmq_producer_connections",
            "Members of a producer group.",
            (*NODE, "producer_group"),
            (
                ((*node, group), len(broker.clients.producers(group)))
                for group in tuple(broker.clients.producer_groups())
            ),
        )

    def _own(self) -> Iterator[Family]:
        node, logical = self._node, self._broker.logical
        yield Family(
            "lanemq_logical_segments",
            "Segments of logical queues here, by their state.",
            (*NODE, "state"),
            self._segments(),
        )
        counters = logical.counters
        for name, value in (
            ("redirects", counters.redirects),
            ("forwards", counters.forwards),
            ("forwards_failed", counters.forwards_failed),
            ("seals", counters.seals),
        ):
            yield self._one(f"lanemq_logical_{name}_total", "Of logical queues.", value)
        yield self._one("lanemq_logical_alarms", "For operators.", len(counters.alarms))
        keys = list(self._keys())
        labels = (*NODE, "namespace", "partition")
        places = [(*node, one.namespace, str(one.partition)) for one in keys]
        for name, text, numbers in (
            ("entries", "Keys.", [one.entries for one in keys]),
            ("bytes", "Bytes of keys and values.", [one.entry_bytes for one in keys]),
            ("position", "Changes applied.", [one.position for one in keys]),
            ("lag", "Changes not applied yet.", [one.end - one.position for one in keys]),
            ("history_changes", "Changes that are kept.", [one.changes for one in keys]),
            ("watchers", "Watches that wait.", [one.watchers for one in keys]),
            ("leases", "Leases.", [one.leases for one in keys]),
            ("expired_total", "Keys and leases whose time was over.", [k.expired for k in keys]),
        ):
            yield Family(f"lanemq_kv_{name}", text, labels, zip(places, numbers, strict=True))
        yield Family(
            "lanemq_stage_offset",
            "Messages that count towards the stages of a group, by queue.",
            (*NODE, "topic", "consumer_group", "queue_id"),
            self._stages(),
        )

    def _segments(self) -> Samples:
        states = Counter[SegmentState]()
        for mapping in tuple(self._broker.logical.mappings.values()):
            for segment in mapping.own():
                states[segment.state] += 1
                yield 1
        for state in SegmentState:
            yield (*self._node, state.value), states[state]

    def _stages(self) -> Samples:
        node, offsets = self._node, self._broker.store.tables.consumer_offsets
        for group in self._broker.store.tables.groups.names:
            yield 1
            for topic in offsets.topics_of(SHADOW_PREFIX + group):
                for queue in tuple(offsets.queues(SHADOW_PREFIX + group, topic)):
                    record = self._broker.stages.record((group, topic, queue))
                    if record is None:
                        yield 1
                    else:
                        yield (*node, topic, group, str(queue)), record.stage_offset
