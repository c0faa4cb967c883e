"""Logical queues: the pure part of what brokers, name servers and clients know of them.

A logical queue is a chain of segments, each on one physical queue; its messages are counted
through, wherever they are. Nothing here does I/O or reads a clock.
"""

from ._bodies import (
    CreateQueueForLogicalQueue,
    MigrateLogicalQueue,
    Redirect,
    ReuseLogicalQueue,
    SealLogicalQueue,
    UpdateLogicalQueueMapping,
)
from ._chain import Chain, Located, by_offset, segment_at
from ._invariants import (
    Finding,
    Invariant,
    check_chain,
    check_change,
    check_physical_queue,
    check_queues,
)
from ._names import (
    FORWARD_QUEUE_ID_FIELD,
    LOGICAL_QUEUE_BROKER,
    LOGICAL_QUEUE_FLAG,
    LOGICAL_QUEUES_MAP_MEMBER,
    LOGICAL_QUEUES_MEMBER,
    LOGICAL_QUEUES_UNORDERED_MEMBER,
    PROGRESS_PREFIX,
    READER_FIELD,
    REDIRECT_FIELD,
    REDIRECT_VALUE,
    SEGMENT_FIELD,
    progress_topic,
)
from ._queues import (
    LogicalQueues,
    LogicalQueuesByTopic,
    logical_queues_by_topic,
    with_logical_queues,
)
from ._report import (
    JAVA_ALL,
    JAVA_NONE,
    REPORT_MEMBER,
    ClientView,
    GapReport,
    LogicalListenerReport,
    LogicalQueueReport,
    TopicReport,
    gaps_beside,
    serves_java,
)
from ._segment import NOT_SET, Segment, SegmentKey, SegmentState, sort_key

__all__ = [
    "FORWARD_QUEUE_ID_FIELD",
    "JAVA_ALL",
    "JAVA_NONE",
    "LOGICAL_QUEUES_MAP_MEMBER",
    "LOGICAL_QUEUES_MEMBER",
    "LOGICAL_QUEUES_UNORDERED_MEMBER",
    "LOGICAL_QUEUE_BROKER",
    "LOGICAL_QUEUE_FLAG",
    "NOT_SET",
    "PROGRESS_PREFIX",
    "READER_FIELD",
    "REDIRECT_FIELD",
    "REDIRECT_VALUE",
    "REPORT_MEMBER",
    "SEGMENT_FIELD",
    "Chain",
    "ClientView",
    "CreateQueueForLogicalQueue",
    "Finding",
    "GapReport",
    "Invariant",
    "Located",
    "LogicalListenerReport",
    "LogicalQueueReport",
    "LogicalQueues",
    "LogicalQueuesByTopic",
    "MigrateLogicalQueue",
    "Redirect",
    "ReuseLogicalQueue",
    "SealLogicalQueue",
    "Segment",
    "SegmentKey",
    "SegmentState",
    "TopicReport",
    "UpdateLogicalQueueMapping",
    "by_offset",
    "check_chain",
    "check_change",
    "check_physical_queue",
    "check_queues",
    "gaps_beside",
    "logical_queues_by_topic",
    "progress_topic",
    "segment_at",
    "serves_java",
    "sort_key",
    "with_logical_queues",
]
