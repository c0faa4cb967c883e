"""The values that go into a store and come out of it."""

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, final

import msgspec

from lanemq.wire.message import BatchEntry

if TYPE_CHECKING:
    from ..queues._queues import ConsumeQueue


@final
class NewMessage(msgspec.Struct, gc=False, kw_only=True):
    """A message to store, with ``body`` and ``properties`` as they are stored.

    Hosts are packed (``HostAddress.packed``). Source: RocketMQ 4.9.8, MessageExtBrokerInner.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    born_timestamp_ms: int
    born_host: bytes
    store_host: bytes
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    was_taken: bool = False
    """True if it is in the log already: ``StoreConfig.max_message_bytes`` is for new messages
    only."""


@final
class NewBatch(msgspec.Struct, gc=False, kw_only=True):
    """Messages of one queue to store together, with what they share. Fields as ``NewMessage``."""

    topic: str
    queue_id: int
    entries: Sequence[BatchEntry]
    born_timestamp_ms: int
    born_host: bytes
    store_host: bytes
    sys_flag: int = 0
    reconsume_times: int = 0


@final
class PutBatch(msgspec.Struct, frozen=True, gc=False):
    """The places of a batch's messages once it is committed.

    ``log_positions`` has one for each message, in order; ``queue_offset`` is that of the first,
    and the others follow it. ``end`` is the position behind the last record.
    """

    log_positions: Sequence[int]
    queue_offset: int
    size_bytes: int
    store_timestamp_ms: int
    end: int


@final
class Put(msgspec.Struct, frozen=True, gc=False):
    """The place of a message once it is committed.

    ``queue_offset`` counts messages (0 for prepared and rolled back ones, which have no place in
    a queue), ``log_position`` bytes of the commit log.
    """

    log_position: int
    queue_offset: int
    size_bytes: int
    store_timestamp_ms: int

    @property
    def end(self) -> int:
        """Position behind the record, to be waited for with ``Store.flushed``."""
        return self.log_position + self.size_bytes


@final
class Appended(msgspec.Struct, frozen=True, gc=False):
    """A record that has its place in the log, for dispatch to queues and indexes.

    ``queue_offset`` counts only where ``is_queued``. ``lights`` are the light queues that have
    the message too, each with its offset there.
    """

    queue: "ConsumeQueue"
    queue_offset: int
    is_queued: bool
    log_position: int
    size_bytes: int
    tags_code: int
    store_timestamp_ms: int
    sys_flag: int
    properties: bytes
    lights: "tuple[tuple[ConsumeQueue, int], ...]" = ()

    @property
    def end(self) -> int:
        """Position behind the record."""
        return self.log_position + self.size_bytes


@final
class GetStatus(enum.Enum):
    """The outcome of a read. Source: RocketMQ 4.9.8, GetMessageStatus."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


@final
class Got(msgspec.Struct, frozen=True, gc=False):
    """Answer to a read. Offsets count messages; ``records`` are records of the log, in order."""

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: list[bytes]


class Boundary(enum.Enum):
    """The message to choose when a search by time hits none, or several."""

    NEAREST = "NEAREST"
    """The one closest in time, the earlier if two are; as 4.9.8."""
    LOWER = "LOWER"
    """The first at or after the time, or the end of the queue; as 5.x."""
    UPPER = "UPPER"
    """The last at or before the time; as 5.x."""


class QueryResult(NamedTuple):
    """Messages with a key, newest first, and the newest message the index knows."""

    records: list[bytes]
    last_update_timestamp_ms: int
    last_update_position: int
    damaged: list[int] = []  # noqa: RUF012 - never changed
    """Log positions of the damaged messages, which are not among ``records``."""
