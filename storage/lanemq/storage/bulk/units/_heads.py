"""Rows from units of queue files and the heads of their records, many at a time.

A row is a unit and the time its message was stored, which only the log knows. Whole columns of
32-bit words are compared and moved here, not single units: for each message there is one slice
of the mapped log, and the rest costs next to nothing.
"""

import mmap
import os
import re
import struct
import sys
from array import array
from typing import Final, final

from lanemq.wire import SysFlag, fixed_prefix
from lanemq.wire.message import MAGIC_V1, RECORD_LAYOUTS

from ..._layouts import BLANK_SIZE, UNIT_BYTES
from ...log._segments import segment_name
from ...queues.rocks._row_format import UNIT_VALUE_BYTES
from ...tools.reading._pieces import Pieces

WORD: Final = "I"
WORD_BYTES: Final = 4
HALF: Final = "H"
HALF_BYTES: Final = 2
LONG: Final = "q"
assert array(WORD).itemsize == WORD_BYTES
assert array(LONG).itemsize == 2 * WORD_BYTES
assert array(HALF).itemsize == HALF_BYTES
RUN_UNITS_MAX: Final = 8192
"""Most units of a run, whose offsets agree in all but the last two bytes."""
HEAD_BYTES: Final = 64
HEAD_WORDS: Final = HEAD_BYTES // WORD_BYTES
HEAD_HALVES: Final = HEAD_BYTES // HALF_BYTES
UNIT_WORDS: Final = UNIT_BYTES // WORD_BYTES
VALUE_WORDS: Final = UNIT_VALUE_BYTES // WORD_BYTES
UNIT_POSITION: Final = struct.Struct(">q12x")
LONG_HOST_BYTES: Final = 12  # beyond those of a short host
EXT_ADDRESS: Final = 0x80000000


def _word_of(name: str) -> int:
    """Return the word of a record's head at which a field begins, where hosts are IPv4
    addresses."""
    layout = fixed_prefix(RECORD_LAYOUTS[MAGIC_V1, 0])
    formats = re.findall(r"\d*[a-z]", layout.struct.format)
    before = "".join(formats[: layout.names.index(name)])
    return struct.calcsize(">" + before) // WORD_BYTES


SIZE: Final = _word_of("size_bytes")
QUEUE_ID: Final = _word_of("queue_id")
QUEUE_OFFSET: Final = _word_of("queue_offset")
LOG_POSITION: Final = _word_of("log_position")
SYS_FLAG: Final = _word_of("sys_flag")
STORE_TIME: Final = _word_of("store_timestamp_ms")


class UnitsDamaged(Exception):  # noqa: N818 - a state of the files
    """Units of a queue that are not those of the records they name; the log has to tell."""


def _words(data: bytes | bytearray) -> "array[int]":
    words = array(WORD)
    words.frombytes(data)
    return words


def _swapped(word: int) -> int:
    """Return a word with its bytes swapped, from or to big-endian."""
    return int.from_bytes(word.to_bytes(WORD_BYTES, sys.byteorder), "big")


BLANK_DATA: Final = BLANK_SIZE.to_bytes(WORD_BYTES, "big")
BLANK_WORD: Final = _swapped(BLANK_SIZE)
LONG_BORN_HOST: Final = _swapped(SysFlag.BORN_HOST_V6)


LOW_BITS: Final = 16
LOW_COUNT: Final = 1 << LOW_BITS
_LOW: Final = struct.pack(f">{LOW_COUNT}H", *range(LOW_COUNT))
LOW_HALVES: Final = array(HALF, _LOW)
"""The last two bytes of offsets, as an array comparable with those of a head."""
LOW_DATA: Final = tuple(_LOW[at : at + 2] for at in range(0, len(_LOW), 2))
"""``LOW_HALVES`` as ends of keys, which share all bytes before."""


ZEROS: Final = array(WORD, bytes(RUN_UNITS_MAX * WORD_BYTES))


def has_blanks(units: bytes) -> bool:
    """Return whether one of the units is of a message that is gone."""
    # Mostly these bytes are not there at all, and the units need not be split into words.
    return BLANK_DATA in units and BLANK_WORD in _words(units)[2::UNIT_WORDS]


def _positions(units: bytes) -> "array[int]":
    """Return the log positions of units as they are."""
    unit = _words(units)
    words = array(WORD, bytes(len(units) // UNIT_BYTES * 2 * WORD_BYTES))
    words[0::2], words[1::2] = unit[0::UNIT_WORDS], unit[1::UNIT_WORDS]
    positions = array(LONG, words.tobytes())
    if sys.byteorder == "little":
        positions.byteswap()
    return positions


def sizes_sum(units: bytes) -> int:
    """Return the bytes of the log that the units' records take."""
    sizes = _words(units)[2::UNIT_WORDS]
    if sys.byteorder == "little":
        sizes.byteswap()
    return sum(sizes)


@final
class LogMap:
    """The heads of records in one file of the log at a time, the one that begins at ``start``."""

    def __init__(self, log: Pieces, start: int) -> None:
        """Map the file. Raises ``OSError``."""
        self._start = start
        descriptor = os.open(log.directory / segment_name(start), os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._data = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
            self._data.madvise(mmap.MADV_WILLNEED)
        finally:
            os.close(descriptor)

    def heads(self, units: bytes) -> bytes:
        """Return the first 64 bytes of each unit's record, one behind the other."""
        data, start = self._data, self._start
        stop = start - HEAD_BYTES
        heads = b"".join(
            [data[position - start : position - stop] for position in _positions(units)]
        )
        if len(heads) // HEAD_BYTES != len(units) // UNIT_BYTES or len(heads) % HEAD_BYTES:
            raise UnitsDamaged("a unit names a place outside of the log file")
        return heads

    def store_times(self, units: bytes, flags: "array[int]") -> "array[int]":
        """Return the words of the store times where some records have an IPv6 address before
        them."""
        times = bytearray()
        for (position,), flag in zip(UNIT_POSITION.iter_unpack(units), flags, strict=True):
            at = position - self._start + STORE_TIME * WORD_BYTES
            at += LONG_HOST_BYTES if flag & LONG_BORN_HOST else 0
            times += self._data[at : at + 2 * WORD_BYTES]
        return _words(times)

    def close(self) -> None:
        self._data.close()


def make_values(
    units: bytes, log: LogMap, *, queue_id: int, first_offset: int, is_light: bool
) -> bytes:
    """Make the row values for units that follow each other, none of them blank.

    Raises ``UnitsDamaged`` where a record does not lie where its unit says, or has another queue
    id or offset; a light queue's units are of records of other queues.
    """
    heads = log.heads(units)
    unit, head = _words(units), _words(heads)
    count = len(units) // UNIT_BYTES
    if (
        head[SIZE::HEAD_WORDS] != unit[2::UNIT_WORDS]
        or head[LOG_POSITION::HEAD_WORDS] != unit[0::UNIT_WORDS]
        or head[LOG_POSITION + 1 :: HEAD_WORDS] != unit[1::UNIT_WORDS]
    ):
        raise UnitsDamaged("a unit does not fit its record")
    if not is_light and not _are_in_place(head, heads, count, queue_id, first_offset):
        raise UnitsDamaged("a unit is in a slot that is not its record's")
    tags = unit[3::UNIT_WORDS]
    if tags != ZEROS[:count]:
        for high in set(tags):
            if EXT_ADDRESS <= _swapped(high) < 0xFFFFFFFF:
                raise UnitsDamaged("a unit's tags are in another file")
    values = array(WORD, bytes(count * UNIT_VALUE_BYTES))
    for number in range(UNIT_WORDS):
        values[number::VALUE_WORDS] = unit[number::UNIT_WORDS]
    flags = head[SYS_FLAG::HEAD_WORDS]
    if flags != ZEROS[:count] and any(flag & LONG_BORN_HOST for flag in set(flags)):
        times = log.store_times(units, flags)
        values[UNIT_WORDS::VALUE_WORDS] = times[0::2]
        values[UNIT_WORDS + 1 :: VALUE_WORDS] = times[1::2]
    else:
        values[UNIT_WORDS::VALUE_WORDS] = head[STORE_TIME::HEAD_WORDS]
        values[UNIT_WORDS + 1 :: VALUE_WORDS] = head[STORE_TIME + 1 :: HEAD_WORDS]
    return values.tobytes()


def _are_in_place(
    head: "array[int]", heads: bytes, count: int, queue_id: int, first_offset: int
) -> bool:
    """Return whether records have the queue id, and the offsets from the first one on."""
    low = first_offset % LOW_COUNT
    assert low + count <= LOW_COUNT
    halves = array(HALF, heads)
    before = (first_offset >> LOW_BITS).to_bytes(6, "big")
    same = array(HALF, before)
    at = QUEUE_OFFSET * WORD_BYTES // HALF_BYTES
    return (
        head[QUEUE_ID::HEAD_WORDS] == array(WORD, [_swapped(queue_id)]) * count
        and halves[at + 3 :: HEAD_HALVES] == LOW_HALVES[low : low + count]
        and all(
            halves[at + number :: HEAD_HALVES] == same[number : number + 1] * count
            for number in range(3)
        )
    )
