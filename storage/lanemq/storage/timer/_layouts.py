"""The files of the timer index: ``timerwheel``, ``timerlog/`` and ``config/timercheck``.

Integers are signed and big-endian. Source: RocketMQ 5.3.3, Slot, TimerWheel, TimerLog,
TimerCheckpoint.
"""

from typing import Final

import construct as cs

from lanemq.wire import fixed_struct

SLOT = cs.Struct(
    "ticks" / cs.Int64sb,  # the time, in units of the precision
    "first" / cs.Int64sb,  # position of the oldest unit, as Apache's brokers keep it
    "last" / cs.Int64sb,  # position of the newest unit; the others follow by their "previous"
    "count" / cs.Int32sb,  # of units, recalls subtracted
    "magic" / cs.Int32sb,  # not used
)
UNIT = cs.Struct(
    "size_bytes" / cs.Int32sb,
    "previous" / cs.Int64sb,  # position of the unit before it in its slot; -1 for none
    "magic" / cs.Int32sb,
    "written_ms" / cs.Int64sb,
    "delay_ms" / cs.Int32sb,  # from there to the slot's time
    "log_position" / cs.Int64sb,
    "message_bytes" / cs.Int32sb,
    "topic_hash" / cs.Int32sb,
    # lanemq's own use of eight bytes that Apache's brokers leave 0:
    "due_after_ms" / cs.Int32sb,  # from the slot's time
    "crc" / cs.Int32sb,  # of the bytes before it
)
BLANK_UNIT = cs.Struct(  # ends a file whose rest is too small for another unit
    "size_bytes" / cs.Int32sb,
    "previous" / cs.Int64sb,
    "magic" / cs.Int32sb,
)
CHECK = cs.Struct(
    "read_ms" / cs.Int64sb,  # time of the first slot that is not delivered
    "timer_log_end" / cs.Int64sb,
    "queue_offset" / cs.Int64sb,  # of the first message that is not in the index
    "master_queue_offset" / cs.Int64sb,
    "state_version" / cs.Int64sb,
    "timestamp_ms" / cs.Int64sb,
    "counter" / cs.Int64sb,
)
OWN_CHECK = cs.Struct(  # lanemq's own, in two sectors of their own in turn, and written first
    "magic" / cs.Int64sb,
    "read_ms" / cs.Int64sb,  # these four as above
    "timer_log_end" / cs.Int64sb,
    "queue_offset" / cs.Int64sb,
    "counter" / cs.Int64sb,
    "slot_ms" / cs.Int64sb,  # what is delivered of the slot at read_ms
    "due_ms" / cs.Int64sb,
    "unit" / cs.Int64sb,
    "crc" / cs.Int64sb,  # of the bytes before it
)

SLOT_FIELDS: Final = fixed_struct(SLOT).struct
SLOT_BYTES: Final = SLOT_FIELDS.size
UNIT_FIELDS: Final = fixed_struct(UNIT).struct
UNIT_BYTES: Final = UNIT_FIELDS.size
BLANK_UNIT_FIELDS: Final = fixed_struct(BLANK_UNIT).struct
BLANK_UNIT_BYTES: Final = BLANK_UNIT_FIELDS.size
CHECK_FIELDS: Final = fixed_struct(CHECK).struct
OWN_CHECK_FIELDS: Final = fixed_struct(OWN_CHECK).struct
OWN_CHECKS_AT: Final = (512, 1024)
CHECK_BYTES: Final = 4096

MAGIC_DEFAULT: Final = 1
MAGIC_ROLL: Final = 2
"""The message is not due at the slot's time, but stored again then, for another slot."""
MAGIC_DELETE: Final = 4
"""The message recalls another one."""
MAGIC_MASK: Final = 15
MAGIC_BLANK: Final = ((0xBBCCDDEE ^ (1880681586 + 8)) & 0xFFFFFFFF) - (1 << 32)
MAGIC_OWN: Final = 0x6C616E652D746D72
NONE: Final = -1
