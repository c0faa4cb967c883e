"""Statistics of topics, groups and brokers. Times are in milliseconds since 1970."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ._body import Body
from ._heartbeat import SubscriptionData
from ._queues import MessageQueue


@dataclass(frozen=True, slots=True)
class TopicOffset(Body):
    """The range of one queue and the store time of its last message. Source: TopicOffset."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


@dataclass(frozen=True, slots=True)
class TopicStatsTable(Body):
    """The ranges of a topic's queues (request 202); the rate is of 5.x. Source: TopicStatsTable."""

    offset_table: Mapping[MessageQueue, TopicOffset] = field(default_factory=dict)
    topic_put_tps: float | None = None


@dataclass(frozen=True, slots=True)
class OffsetWrapper(Body):
    """The progress of a group in one queue; ``pull_offset`` is of 5.x. Source: OffsetWrapper."""

    broker_offset: int = 0
    consumer_offset: int = 0
    last_timestamp: int = 0
    pull_offset: int | None = None


@dataclass(frozen=True, slots=True)
class ConsumeStats(Body):
    """The progress of a group (request 208). Source: RocketMQ 4.9.8, ConsumeStats."""

    offset_table: Mapping[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


@dataclass(frozen=True, slots=True)
class ConsumeStatsList(Body):
    """The progress of all groups of a broker (request 317), one group per item.

    ``total_diff`` counts messages not yet consumed; ``total_inflight_diff`` is of 5.x.
    Source: RocketMQ 4.9.8, ConsumeStatsList.
    """

    consume_stats_list: tuple[Mapping[str, tuple[ConsumeStats, ...]], ...] = ()
    broker_addr: str | None = None
    total_diff: int = 0
    total_inflight_diff: int | None = None


@dataclass(frozen=True, slots=True)
class BrokerStatsItem(Body):
    """A sum over a span of time, per second, and per time it was counted."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


@dataclass(frozen=True, slots=True)
class BrokerStatsData(Body):
    """One statistic over the last minute, hour and day (request 315). Source: BrokerStatsData."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)


@dataclass(frozen=True, slots=True)
class QueueTimeSpan(Body):
    """Store times of a queue's ends and of the group's place. Source: 4.9.8, QueueTimeSpan."""

    message_queue: MessageQueue
    min_time_stamp: int = 0
    max_time_stamp: int = 0
    consume_time_stamp: int = 0
    delay_time: int = 0


@dataclass(frozen=True, slots=True)
class QueryConsumeTimeSpanBody(Body):
    """The time spans of a group in a topic (request 303). Source: QueryConsumeTimeSpanBody."""

    consume_time_span_set: tuple[QueueTimeSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumeQueueData(Body):
    """One unit of a consume queue: bytes in the log and the hash of the tags.

    Source: RocketMQ 4.9.8, ConsumeQueueData.
    """

    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


@dataclass(frozen=True, slots=True)
class QueryConsumeQueueBody(Body):
    """Units of a consume queue (request 321). Source: QueryConsumeQueueResponseBody."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: tuple[ConsumeQueueData, ...] = ()
    max_queue_index: int = 0
    min_queue_index: int = 0


@dataclass(frozen=True, slots=True)
class KVTable(Body):
    """A table of texts (requests 28, 103, 219). Source: RocketMQ 4.9.8, KVTable."""

    table: Mapping[str, str] = field(default_factory=dict)
