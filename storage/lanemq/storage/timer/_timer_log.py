"""The timer log: a unit for every timer, each with the position of the one before it in its slot.

Source: RocketMQ 5.3.3, TimerLog.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, final

from ..log._segments import Segments
from ._layouts import (
    BLANK_UNIT_BYTES,
    BLANK_UNIT_FIELDS,
    MAGIC_BLANK,
    MAGIC_DELETE,
    MAGIC_MASK,
    MAGIC_ROLL,
    UNIT_BYTES,
    UNIT_FIELDS,
)

_pack, _unpack = UNIT_FIELDS.pack, UNIT_FIELDS.unpack

FILE_BYTES: Final = 100 << 20
DUE_MOST_MS: Final = 1 << 30
CRC_BYTES: Final = 4
_CRC_MASK: Final = (1 << 32) - 1


class TimerUnit(NamedTuple):
    """One unit; ``due_ms`` is None where only its slot's time is known."""

    previous: int
    magic: int
    written_ms: int
    delay_ms: int
    log_position: int
    message_bytes: int
    topic_hash: int
    due_ms: int | None = None

    @property
    def slot_ms(self) -> int:
        return self.written_ms + self.delay_ms

    @property
    def worth(self) -> int:
        """The number that the unit adds to the count of timers in its slot: 1, or -1 for a
        deletion."""
        return -1 if self.magic & MAGIC_DELETE else 1

    @property
    def rolls(self) -> bool:
        return bool(self.magic & MAGIC_ROLL)

    @property
    def recalls(self) -> bool:
        """True if the message is nothing but the recall of another one."""
        return self.magic & (MAGIC_DELETE | MAGIC_ROLL) == MAGIC_DELETE


def encode_unit(unit: TimerUnit) -> bytes:
    """Return the bytes of a unit."""
    *fields, due_ms = unit
    after_ms = 0 if due_ms is None else max(-DUE_MOST_MS, min(due_ms - unit.slot_ms, DUE_MOST_MS))
    head = _pack(UNIT_BYTES, *fields, after_ms, 0)[:-CRC_BYTES]
    # A unit without these two fields is one of Apache's.
    crc = zlib.crc32(head) if due_ms is not None else 0
    return head + crc.to_bytes(CRC_BYTES, "big")


def decode_unit(data: bytes) -> TimerUnit | None:
    """Read a unit; None for other bytes, or for a unit that was only written in part."""
    if len(data) < UNIT_BYTES:
        return None
    size_bytes, *fields, after_ms, crc = _unpack(data)
    unit = TimerUnit(*fields)
    if size_bytes != UNIT_BYTES or unit.magic | MAGIC_MASK != MAGIC_MASK:
        return None
    if not after_ms and not crc:
        return unit
    if crc & _CRC_MASK != zlib.crc32(data[:-CRC_BYTES]):
        return None
    return unit._replace(due_ms=unit.slot_ms + after_ms)


@final
class TimerLog:
    """The units in ``segments``; ``end`` is the position of the next one."""

    def __init__(self, segments: Segments) -> None:
        self.segments = segments
        self.end = 0

    def append(self, unit: TimerUnit) -> int:
        """Append a unit; returns its position. Raises ``OSError``, and nothing is appended."""
        position, file_bytes = self.end, self.segments.file_bytes
        room = file_bytes - position % file_bytes
        if room < UNIT_BYTES + BLANK_UNIT_BYTES:
            self.segments.write(position, BLANK_UNIT_FIELDS.pack(room, 0, MAGIC_BLANK))
            position += room
        self.segments.write(position, encode_unit(unit))
        self.end = position + UNIT_BYTES
        return position

    def get(self, position: int) -> TimerUnit | None:
        """Return the unit at a position; None where there is none (any longer)."""
        if position < 0:
            return None
        unit = decode_unit(self.segments.read(position, UNIT_BYTES))
        return unit if unit is not None and unit.previous < position else None

    def recover(self, begin: int, found: Callable[[int, TimerUnit], bool]) -> None:
        """Find the end, from ``begin`` on, which is known to be a boundary of units.

        ``found`` is called with every unit, and says whether it is one. What is behind the last
        is zeroed. Raises ``OSError``.
        """
        position, file_bytes = max(begin, self.segments.begin), self.segments.file_bytes
        while True:
            room = file_bytes - position % file_bytes
            if room < UNIT_BYTES + BLANK_UNIT_BYTES and self.segments.has(position + room):
                position += room
                continue
            unit = self.get(position)
            if unit is None or not found(position, unit):
                break
            position += UNIT_BYTES
        self.segments.erase(position)
        self.end = position

    def units(self) -> Iterator[tuple[int, TimerUnit]]:
        """Iterate over all units and their positions, without those that are damaged."""
        position, file_bytes = self.segments.begin, self.segments.file_bytes
        while position < self.end:
            room = file_bytes - position % file_bytes
            if room < UNIT_BYTES + BLANK_UNIT_BYTES:
                position += room
                continue
            unit = self.get(position)
            if unit is not None:
                yield position, unit
            position += UNIT_BYTES

    def last_before(self, position: int) -> TimerUnit | None:
        """Return the unit that ends at ``position``, or at the end of the file before."""
        file_bytes = self.segments.file_bytes
        if position % file_bytes == 0:
            units = (file_bytes - BLANK_UNIT_BYTES) // UNIT_BYTES
            return self.get(position - file_bytes + (units - 1) * UNIT_BYTES)
        return self.get(position - UNIT_BYTES)

    def remove_unneeded(self, min_log_position: int) -> int:
        """Remove the files whose messages are all gone from the log; returns how many."""
        removed = 0
        while len(self.segments) > 1:
            last = self.last_before(self.segments.begin + self.segments.file_bytes)
            if last is None or last.log_position >= min_log_position:
                break
            self.segments.remove_oldest()
            removed += 1
        return removed
