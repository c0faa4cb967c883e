"""Keys and values of the consume queues in RocksDB.

Two column families. ``default`` has a row for each message of a queue; ``offset`` has, for each
queue, a row for its newest and a row for its oldest message, and one row for the whole database:
the watermark, the position behind the newest message that has rows.

Integers are signed and big-endian; a position counts bytes of the commit log, an offset messages
of a queue. Rows sort by the length of the topic, then topic, queue and offset.
Source: RocketMQ 5.3.3, RocksDBConsumeQueueTable and RocksDBConsumeQueueOffsetTable.
"""

from array import array
from typing import Final, NamedTuple, final

import construct as cs

from lanemq.wire import fixed_struct

SEPARATOR: Final = b"\x01"
BELOW_SEPARATOR: Final = b"\x00"  # opens the range of a queue's rows
ABOVE_SEPARATOR: Final = b"\x02"  # and ends it

UNIT_KEY_TAIL = cs.Struct(
    "before_queue_id" / cs.Bytes(1),  # a separator, as all that are before something
    "queue_id" / cs.Int32sb,
    "before_offset" / cs.Bytes(1),
    "queue_offset" / cs.Int64sb,
)
UNIT_KEY = cs.Struct(
    "topic_bytes" / cs.Int32sb,
    "before_topic" / cs.Bytes(1),
    "topic" / cs.Bytes(cs.this.topic_bytes),
    *UNIT_KEY_TAIL.subcons,
)
UNIT_VALUE = cs.Struct(
    "log_position" / cs.Int64sb,
    "size_bytes" / cs.Int32sb,  # of the whole record
    "tags_code" / cs.Int64sb,
    "store_timestamp_ms" / cs.Int64sb,
)
BOUND_KEY_TAIL = cs.Struct(
    "before_bound" / cs.Bytes(1),
    "bound" / cs.Bytes(3),  # MAX or MIN
    "before_queue_id" / cs.Bytes(1),
    "queue_id" / cs.Int32sb,
)
BOUND_KEY = cs.Struct(
    "topic_bytes" / cs.Int32sb,
    "before_topic" / cs.Bytes(1),
    "topic" / cs.Bytes(cs.this.topic_bytes),
    *BOUND_KEY_TAIL.subcons,
)
BOUND_VALUE = cs.Struct(
    "log_position" / cs.Int64sb,  # of the message; of the log's first byte where there is none
    "queue_offset" / cs.Int64sb,  # of the message itself, for MAX as for MIN
)
WATERMARK_VALUE = cs.Struct("log_position" / cs.Int64sb)

MAX: Final = b"max"
MIN: Final = b"min"
WATERMARK_TOPIC: Final = b"CHECKPOINT_TOPIC"

pack_int: Final = fixed_struct(cs.Struct("value" / cs.Int32sb)).struct.pack
UNIT_TAIL: Final = fixed_struct(UNIT_KEY_TAIL).struct
BOUND_TAIL: Final = fixed_struct(BOUND_KEY_TAIL).struct
INT_BYTES: Final = 4
TOPIC_AT: Final = INT_BYTES + len(SEPARATOR)
pack_offset: Final = fixed_struct(cs.Struct("queue_offset" / cs.Int64sb)).struct.pack
pack_unit_value: Final = fixed_struct(UNIT_VALUE).struct.pack
UNIT_VALUE_FIELDS: Final = fixed_struct(UNIT_VALUE).struct
UNIT_VALUE_BYTES: Final = UNIT_VALUE_FIELDS.size
BOUND_VALUE_FIELDS: Final = fixed_struct(BOUND_VALUE).struct
BOUND_VALUE_BYTES: Final = BOUND_VALUE_FIELDS.size
WATERMARK_FIELDS: Final = fixed_struct(WATERMARK_VALUE).struct
OFFSET_BYTES: Final = 8
STORE_TIME_BYTES: Final = 8


class UnitRow(NamedTuple):
    """A row of ``default``: the place in the log and the store time of the message at one
    offset."""

    log_position: int
    size_bytes: int
    tags_code: int
    store_timestamp_ms: int


class OffsetRow(NamedTuple):
    """A row of ``offset``: the newest or the oldest message of a queue."""

    log_position: int
    queue_offset: int


@final
class QueueKeys:
    """The keys of one queue's rows, made once for many rows."""

    __slots__ = ("begin", "end", "max", "min", "unit_prefix")

    def __init__(self, topic: bytes, queue_id: int) -> None:
        named = pack_int(len(topic)) + SEPARATOR + topic + SEPARATOR
        number = pack_int(queue_id)
        queue = named + number
        self.begin: bytes = queue + BELOW_SEPARATOR
        """Key before all of the queue's rows in ``default``, and behind those of queues before
        it."""
        self.unit_prefix: bytes = queue + SEPARATOR
        """Prefix that makes the key of a message's row when followed by an offset."""
        self.end: bytes = queue + ABOVE_SEPARATOR
        """Key behind all of the queue's rows in ``default``."""
        self.max: bytes = named + MAX + SEPARATOR + number
        """Key in ``offset`` of the newest message."""
        self.min: bytes = named + MIN + SEPARATOR + number
        """Key in ``offset`` of the oldest message."""

    def unit(self, queue_offset: int) -> bytes:
        """Make the key in ``default`` of a message."""
        return self.unit_prefix + pack_offset(queue_offset)


WATERMARK_KEY: Final = QueueKeys(WATERMARK_TOPIC, 0).max


class UnitKey(NamedTuple):
    """The parts of a key of ``default``."""

    topic: bytes
    queue_id: int
    queue_offset: int


class BoundKey(NamedTuple):
    """The parts of a key of ``offset``; ``bound`` is ``MAX`` or ``MIN``."""

    topic: bytes
    queue_id: int
    bound: bytes


def units_of_values(values: bytes) -> bytes:
    """Make units of queue files from the values of rows, leaving out the times."""
    words = array("I", values)  # moved by whole columns of 4 bytes
    step = UNIT_VALUE_BYTES // words.itemsize
    kept = step - STORE_TIME_BYTES // words.itemsize
    units = array("I", bytes(len(words) // step * kept * words.itemsize))
    for number in range(kept):
        units[number::kept] = words[number::step]
    return units.tobytes()


def topic_bounds(topic: bytes) -> tuple[bytes, bytes]:
    """Return begin and end of the range of a topic's rows, in both families."""
    named = pack_int(len(topic)) + SEPARATOR + topic
    return named + BELOW_SEPARATOR, named + ABOVE_SEPARATOR


def parse_unit_key(key: bytes) -> UnitKey:
    """Parse a key of ``default``. Raises ``ValueError`` for one that no message's row can have."""
    at = len(key) - UNIT_TAIL.size
    _check_topic(key, at)
    first, queue_id, second, queue_offset = UNIT_TAIL.unpack_from(key, at)
    if first != SEPARATOR or second != SEPARATOR:
        raise _illegal(key)
    return UnitKey(key[TOPIC_AT:at], queue_id, queue_offset)


def parse_bound_key(key: bytes) -> BoundKey:
    """Parse a key of ``offset``. Raises ``ValueError`` for one of neither a bound nor the
    watermark."""
    at = len(key) - BOUND_TAIL.size
    _check_topic(key, at)
    first, bound, second, queue_id = BOUND_TAIL.unpack_from(key, at)
    if first != SEPARATOR or second != SEPARATOR or bound not in (MAX, MIN):
        raise _illegal(key)
    return BoundKey(key[TOPIC_AT:at], queue_id, bound)


def _check_topic(key: bytes, end: int) -> None:
    if (
        end < TOPIC_AT
        or int.from_bytes(key[:INT_BYTES], "big") != end - TOPIC_AT
        or key[INT_BYTES:TOPIC_AT] != SEPARATOR
    ):
        raise _illegal(key)


def _illegal(key: bytes) -> ValueError:
    return ValueError(f"not the key of a consume queue's row: {key!r}")
