"""What goes into a store and what comes out, as values."""

import enum
from typing import NamedTuple, final

import msgspec


@final
class NewMessage(msgspec.Struct, gc=False, kw_only=True):
    """A message to store. ``body`` and ``properties`` are stored as they are.

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


@final
class Put(msgspec.Struct, frozen=True, gc=False):
    """Where a message lies once it is committed.

    ``queue_offset`` counts messages (0 for prepared and rolled back ones, which have no place in
    a queue), ``log_position`` bytes of the commit log.
    """

    log_position: int
    queue_offset: int
    size_bytes: int
    store_timestamp_ms: int

    @property
    def end(self) -> int:
        """Position behind the record: what to wait for with ``Store.flushed``."""
        return self.log_position + self.size_bytes


@final
class GetStatus(enum.Enum):
    """How a read ended. Source: RocketMQ 4.9.8, GetMessageStatus."""

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
    """Which message answers a search by time that hits none, or several."""

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
