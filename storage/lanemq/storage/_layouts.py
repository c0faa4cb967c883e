"""The binary files of a store but for the log's records, which ``lanemq.wire`` declares.

Integers are signed and big-endian; a position counts bytes of the commit log.
Source: RocketMQ 4.9.8, ConsumeQueue, IndexHeader, IndexFile, StoreCheckpoint; 5.3.3 for the
checkpoint's last two fields.
"""

from typing import Final, NamedTuple

import construct as cs

from lanemq.wire import fixed_struct
from lanemq.wire.message import MAGIC_BLANK

BLANK_HEADER = cs.Struct(  # ends a log file whose rest is too small for the next record
    "size_bytes" / cs.Int32sb,  # of the rest, this header included; what follows is unspecified
    "magic" / cs.Const(MAGIC_BLANK, cs.Int32sb),
)
QUEUE_UNIT = cs.Struct(
    "log_position" / cs.Int64sb,
    "size_bytes" / cs.Int32sb,
    "tags_code" / cs.Int64sb,
)
INDEX_HEADER = cs.Struct(
    "begin_timestamp_ms" / cs.Int64sb,
    "end_timestamp_ms" / cs.Int64sb,
    "begin_position" / cs.Int64sb,
    "end_position" / cs.Int64sb,  # of the newest message, its first byte
    "used_slots" / cs.Int32sb,
    "next_entry" / cs.Int32sb,  # 1 in an empty file: entry 0 stands for "none"
)
INDEX_ENTRY = cs.Struct(
    "key_hash" / cs.Int32sb,
    "log_position" / cs.Int64sb,
    "seconds" / cs.Int32sb,  # from the file's begin_timestamp_ms
    "previous_entry" / cs.Int32sb,  # of the same slot
)
CHECKPOINT = cs.Struct(
    "log_timestamp_ms" / cs.Int64sb,  # store time of the newest synced record
    "queue_timestamp_ms" / cs.Int64sb,  # store time of the newest record with a synced unit
    "index_timestamp_ms" / cs.Int64sb,  # end time of the newest full index file
    "master_flushed_position" / cs.Int64sb,  # 5.x only
    "confirmed_position" / cs.Int64sb,  # 5.x only
)

BLANK_HEADER_BYTES: Final = BLANK_HEADER.sizeof()
CHECKPOINT_FIELDS: Final = fixed_struct(CHECKPOINT).struct
CHECKPOINT_BYTES: Final = 4096
INDEX_ENTRY_FIELDS: Final = fixed_struct(INDEX_ENTRY).struct
INDEX_HEADER_FIELDS: Final = fixed_struct(INDEX_HEADER).struct
QUEUE_UNIT_FIELDS: Final = fixed_struct(QUEUE_UNIT).struct
pack_unit: Final = QUEUE_UNIT_FIELDS.pack
unpack_unit: Final = QUEUE_UNIT_FIELDS.unpack_from
iter_units: Final = QUEUE_UNIT_FIELDS.iter_unpack
UNIT_BYTES: Final = QUEUE_UNIT_FIELDS.size
BLANK_SIZE: Final = 2147483647  # size_bytes of a unit that stands for a message that is gone
BLANK_UNIT: Final = QUEUE_UNIT_FIELDS.pack(0, BLANK_SIZE, 0)
EXT_ADDRESS_MAX: Final = -2147483649
"""Largest tags code that is an address in ``consumequeue_ext`` instead of a hash."""


class Unit(NamedTuple):
    """A unit of a consume queue: a message's place in the log, and the hash of its tags.

    One that stands for a message that is gone names the beginning of the log, and a size that no
    record has: what is read at its position is another's (``has``).
    """

    log_position: int
    size_bytes: int
    tags_code: int

    def has(self, record: bytes | None) -> bool:
        """Return whether a record, which was read at the unit's position, is that of its
        message."""
        return record is not None and len(record) == self.size_bytes
