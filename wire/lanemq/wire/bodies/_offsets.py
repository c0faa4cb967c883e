"""Tables of queue offsets; every offset counts messages of one queue."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .._numbers import Int
from ._body import Body
from ._queues import MessageQueue
from ._topics import DataVersion


@dataclass(frozen=True, slots=True)
class ConsumerOffsetTable(Body):
    """The progress of all groups: ``topic@group`` -> queue id -> offset (request 43).

    Source: RocketMQ 4.9.8, ConsumerOffsetSerializeWrapper; the data version is of 5.x.
    """

    offset_table: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    data_version: DataVersion | None = None


@dataclass(frozen=True, slots=True)
class DelayOffsetTable(Body):
    """The progress of delayed delivery: level -> next offset (request 45).

    Source: RocketMQ 4.9.8, DelayOffsetSerializeWrapper; the data version is of 5.x.
    """

    offset_table: Mapping[int, int] = field(default_factory=dict)
    data_version: DataVersion | None = None


@dataclass(frozen=True, slots=True)
class MessageQueueOffsets(Body):
    """Offsets by queue, as in a client's own file. Source: OffsetSerializeWrapper."""

    offset_table: Mapping[MessageQueue, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResetOffsetBody(Body):
    """The offsets that a group is reset to (requests 220, 222). Source: ResetOffsetBody."""

    offset_table: Mapping[MessageQueue, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MessageQueueOffset(Body):
    """One line of the list form for C++ clients. Source: RocketMQ 4.9.8, MessageQueueForC."""

    topic: str
    broker_name: str
    queue_id: Int
    offset: int


@dataclass(frozen=True, slots=True)
class ResetOffsetListBody(Body):
    """``ResetOffsetBody`` in the form for C++ clients. Source: RocketMQ 4.9.8,
    ResetOffsetBodyForC."""

    offset_table: tuple[MessageQueueOffset, ...] = ()


@dataclass(frozen=True, slots=True)
class GetConsumerStatusBody(Body):
    """The offsets that clients hold in memory (requests 221, 223).

    A client answers with ``message_queue_table``, the broker with ``consumer_table``: client id ->
    queue -> offset. Source: RocketMQ 4.9.8, GetConsumerStatusBody.
    """

    message_queue_table: Mapping[MessageQueue, int] = field(default_factory=dict)
    consumer_table: Mapping[str, Mapping[MessageQueue, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryCorrectionOffsetBody(Body):
    """Offsets to correct by queue id (request 308). Source: QueryCorrectionOffsetBody."""

    correction_offsets: Mapping[int, int] = field(default_factory=dict)
