"""The inside of a running consumer, as tools ask for it through the broker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, final

from ._body import Body
from ._heartbeat import SubscriptionData
from ._queues import MessageQueue


@dataclass(frozen=True, slots=True)
class ProcessQueueInfo(Body):
    """The messages that a consumer holds of one queue. Times are in milliseconds.

    Source: RocketMQ 4.9.8, ProcessQueueInfo.
    """

    NAMES: ClassVar = {"cached_msg_size_in_mib": "cachedMsgSizeInMiB"}

    commit_offset: int = 0
    cached_msg_min_offset: int = 0
    cached_msg_max_offset: int = 0
    cached_msg_count: int = 0
    cached_msg_size_in_mib: int = 0
    transaction_msg_min_offset: int = 0
    transaction_msg_max_offset: int = 0
    transaction_msg_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_timestamp: int = 0
    droped: bool = False
    last_pull_timestamp: int = 0
    last_consume_timestamp: int = 0


@dataclass(frozen=True, slots=True)
class PopProcessQueueInfo(Body):
    """``ProcessQueueInfo`` of the pop mode of 5.x. Source: 5.3.3, PopProcessQueueInfo."""

    wait_ack_count: int = 0
    droped: bool = False
    last_pop_timestamp: int = 0


@dataclass(frozen=True, slots=True)
class ConsumeStatus(Body):
    """Rates of one topic: RT in milliseconds, TPS per second. Source: 4.9.8, ConsumeStatus."""

    NAMES: ClassVar = {
        "pull_rt": "pullRT",
        "pull_tps": "pullTPS",
        "consume_rt": "consumeRT",
        "consume_ok_tps": "consumeOKTPS",
        "consume_failed_tps": "consumeFailedTPS",
    }

    pull_rt: float = 0.0
    pull_tps: float = 0.0
    consume_rt: float = 0.0
    consume_ok_tps: float = 0.0
    consume_failed_tps: float = 0.0
    consume_failed_msgs: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerRunningInfo(Body):
    """A consumer's own account of itself (request 307); the optional tables are of 5.x.

    Source: RocketMQ 4.9.8 and 5.3.3, ConsumerRunningInfo, which names the properties tools read:
    PROP_NAMESERVER_ADDR, PROP_THREADPOOL_CORE_SIZE, PROP_CONSUMEORDERLY, PROP_CONSUME_TYPE,
    PROP_CLIENT_VERSION, PROP_CONSUMER_START_TIMESTAMP.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    subscription_set: tuple[SubscriptionData, ...] = ()
    mq_table: Mapping[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    status_table: Mapping[str, ConsumeStatus] = field(default_factory=dict)
    jstack: str | None = None
    mq_pop_table: Mapping[MessageQueue, PopProcessQueueInfo] | None = None
    user_consumer_info: Mapping[str, str] | None = None


@final
class ConsumeResult(StrEnum):
    """The outcome of one message at a listener. Source: RocketMQ 4.9.8, CMResult."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    RETURN_NULL = "CR_RETURN_NULL"


@dataclass(frozen=True, slots=True)
class ConsumeMessageDirectlyResultBody(Body):
    """The answer of a consumer that was handed one message (request 309).

    Source: RocketMQ 4.9.8, ConsumeMessageDirectlyResult.
    """

    order: bool = False
    auto_commit: bool = True
    consume_result: str | None = None
    remark: str | None = None
    spent_time_mills: int = 0
