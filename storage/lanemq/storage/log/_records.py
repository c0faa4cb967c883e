"""Records of the commit log for recovery and dispatch: checked, but not decoded."""

from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import Final, NamedTuple, Protocol, final
from zlib import crc32

import msgspec

from lanemq.wire import SysFlag, fixed_prefix
from lanemq.wire.message import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, RECORD_LAYOUTS

HEADS: Final = {
    hosts: fixed_prefix(RECORD_LAYOUTS[MAGIC_V1, hosts]).struct
    for hosts in (0, SysFlag.BORN_HOST_V6, SysFlag.STORE_HOST_V6, SysFlag.HOSTS_V6_MASK)
}
RECORD_BYTES_MIN: Final = HEADS[0].size
QUEUE_OFFSET_MAX: Final = (1 << 63) // RECORD_BYTES_MIN
"""The most messages that a log can hold, whose positions are 64 bits long."""
HEAD_BYTES_MAX: Final = max(head.size for head in HEADS.values())
HOSTS_V6: Final = int(SysFlag.HOSTS_V6_MASK)
START: Final = Struct(">ii")  # size and magic number
MAGICS: Final = tuple(magic.to_bytes(4, "big", signed=True) for magic in (MAGIC_V1, MAGIC_V2))
MAGIC_AT: Final = 4
QUEUE_OFFSET_AT: Final = 20
POSITION_AT: Final = 28
SYS_FLAG_AT: Final = 36
BORN_HOST_AT: Final = 48
CRC_MASK: Final = 0x7FFFFFFF
WINDOW_BYTES: Final = 1 << 20
NOTHING_WRITTEN: Final = "nothing was written here"
UNQUEUED: Final = SysFlag.TRANSACTION_PREPARED
"""Bit of the sysFlag of prepared and rolled back records, and of no others."""


@final
class Record(msgspec.Struct, frozen=True, gc=False):
    """The fields of a record that queues and index need."""

    position: int
    size_bytes: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp_ms: int
    properties: bytes

    @property
    def is_queued(self) -> bool:
        """True if it has a place in its queue; prepared and rolled back records have none."""
        return not self.sys_flag & UNQUEUED

    @property
    def is_inner_batch(self) -> bool:
        """True if it holds several messages, as Apache 5.x stores batches in batch queues."""
        return bool(self.sys_flag & SysFlag.INNER_BATCH)

    @property
    def end(self) -> int:
        return self.position + self.size_bytes


class Blank(NamedTuple):
    """A mark that the rest of a file is unused."""

    size_bytes: int


class Broken(NamedTuple):
    """The absence of a valid record; ``why`` is for people."""

    why: str
    needs_bytes: int = 0
    """Number of bytes to look at, with which the record may be whole."""


def store_timestamp_ms(head: bytes) -> int:
    """Return the store time in the first ``HEAD_BYTES_MAX`` bytes of a record; 0 where it is cut
    off."""
    if len(head) < BORN_HOST_AT:
        return 0
    sys_flag = int.from_bytes(head[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big")
    at = BORN_HOST_AT + (20 if sys_flag & SysFlag.BORN_HOST_V6 else 8)
    return int.from_bytes(head[at : at + 8], "big", signed=True)


def queue_offset_of(head: bytes) -> int:
    """Return the offset that the first ``POSITION_AT`` bytes of a record say."""
    return int.from_bytes(head[QUEUE_OFFSET_AT:POSITION_AT], "big", signed=True)


def record_ends(
    read: Callable[[int, int], bytes | None], position: int, size_bytes: int
) -> tuple[str, bytes, int] | None:
    """Read topic, properties and store time of a record, but not its body.

    ``read`` reads so many bytes of the log from a position on. None where no such record is.
    """
    head = read(position, min(size_bytes, HEAD_BYTES_MAX))
    if head is None or len(head) < HEADS[0].size:
        return None
    layout = HEADS[int.from_bytes(head[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big") & HOSTS_V6]
    if len(head) < layout.size:
        return None
    fields = layout.unpack_from(head)
    body_end = layout.size + fields[14]
    if fields[0] != size_bytes or fields[6] != position or not layout.size <= body_end < size_bytes:
        return None
    tail = read(position + body_end, size_bytes - body_end)
    if tail is None:
        return None
    topic_at = 1 if fields[1] == MAGIC_V1 else 2
    topic_end = topic_at + int.from_bytes(tail[:topic_at], "big")
    topic = tail[topic_at:topic_end].decode("utf-8", "replace")
    return topic, tail[topic_end + 2 :], fields[10]


def fits(messages: int, log_bytes: int) -> bool:
    """Return whether ``messages`` messages can lie in ``log_bytes`` bytes of the log.

    A queue whose newest message lies so many bytes before another one cannot have gone on by more:
    the other's offset is damaged, which no checksum tells. One that goes back is not a gap at all.
    """
    return messages <= 0 or messages * RECORD_BYTES_MIN <= log_bytes


def check_record(
    data: bytes, at: int, position: int, room_bytes: int, *, check_crc: bool, lenient: bool = False
) -> Record | Blank | Broken:
    """Check the record at ``data[at]``, which lies at ``position`` of the log.

    ``room_bytes`` is what the log file has from there on; ``data`` may end earlier, which is
    answered with ``Broken.needs_bytes``. ``lenient`` takes an impossible queue offset. Unlike the
    reference, a record that names another position than its own is broken: remains of another.
    Source: RocketMQ 4.9.8, CommitLog.checkMessageAndReturnSize.
    """
    if room_bytes < START.size:
        return Broken("the file ends")
    if len(data) - at < START.size:
        return Broken("cut off", START.size)
    size, magic = START.unpack_from(data, at)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        if magic == MAGIC_BLANK:
            return Blank(size)
        return Broken(NOTHING_WRITTEN if size == magic == 0 else "wrong magic number")
    head = HEADS[0]
    if size < head.size or size > room_bytes:
        return Broken(f"impossible size {size}")
    end = at + size
    if end > len(data):
        return Broken("cut off", size)
    fields = head.unpack_from(data, at)
    sys_flag = fields[7]
    if sys_flag & SysFlag.HOSTS_V6_MASK:
        head = HEADS[sys_flag & SysFlag.HOSTS_V6_MASK]
        if size < head.size:
            return Broken(f"impossible size {size}")
        fields = head.unpack_from(data, at)
    body_at = at + head.size
    body_end = body_at + fields[14]
    topic_at = body_end + (1 if magic == MAGIC_V1 else 2)
    if body_end < body_at or topic_at > end:
        return Broken(f"impossible body length {fields[14]}")
    topic_end = topic_at + int.from_bytes(data[body_end:topic_at], "big", signed=True)
    properties_at = topic_end + 2
    if topic_end < topic_at or properties_at > end:
        return Broken("impossible topic length")
    properties_bytes = int.from_bytes(data[topic_end:properties_at], "big", signed=True)
    if properties_at + max(0, properties_bytes) != end:
        return Broken("its parts do not add up to its size")
    if fields[6] != position:
        return Broken(f"the record there belongs to position {fields[6]}")
    if not lenient and not 0 <= fields[5] <= QUEUE_OFFSET_MAX:
        return Broken(f"impossible queue offset {fields[5]}")
    # A null body has no checksum.
    if check_crc and body_end > body_at and crc32(data[body_at:body_end]) & CRC_MASK != fields[2]:
        return Broken("its body fails the checksum")
    try:
        topic = data[topic_at:topic_end].decode()
    except UnicodeDecodeError:
        return Broken("its topic is not UTF-8")
    return Record(
        position,
        size,
        topic,
        fields[3],
        fields[5],
        sys_flag,
        fields[10],
        data[properties_at:end],
    )


class LogBytes(Protocol):
    """The log's files as a walk needs them; meanings as in ``Segments``."""

    @property
    def starts(self) -> tuple[int, ...]: ...

    @property
    def capacity_end(self) -> int: ...

    def end_of(self, position: int) -> int: ...

    def read(self, position: int, size_bytes: int) -> bytes: ...


def record_at(
    log: LogBytes, position: int, *, check_crc: bool = False, lenient: bool = False
) -> Record | None:
    """Return the record that begins at a position, as ``check_record`` does; None without one."""
    check = partial(check_record, check_crc=check_crc, lenient=lenient)
    data = log.read(position, HEAD_BYTES_MAX)
    room = log.end_of(position) - position
    found = check(data, 0, position, room)
    if isinstance(found, Broken) and found.needs_bytes:
        found = check(log.read(position, found.needs_bytes), 0, position, room)
    return found if isinstance(found, Record) else None


def is_blank(log: LogBytes, position: int) -> bool:
    """Return whether the rest of a file is marked as unused at a position."""
    room = log.end_of(position) - position
    found = check_record(log.read(position, START.size), 0, position, room, check_crc=False)
    return isinstance(found, Blank)


def record_candidates(data: bytes) -> Iterator[int]:
    """Iterate over the offsets in ``data`` at which a record may begin."""
    found = {magic: data.find(magic, MAGIC_AT) for magic in MAGICS}
    while True:
        left = {magic: at for magic, at in found.items() if at >= 0}
        if not left:
            return
        magic, at = min(left.items(), key=lambda item: item[1])
        yield at - MAGIC_AT
        found[magic] = data.find(magic, at + 1)


@final
class LogWalk:
    """A walk over the records of a log from ``position`` on, to the first that is not valid.

    After the iteration ``end`` is the position behind the last valid record (or the start of a
    file behind it, where the log went on there), and ``why`` says what stopped the walk.
    """

    def __init__(
        self, segments: LogBytes, position: int, *, check_crc: bool, end: int | None = None
    ) -> None:
        self._segments = segments
        self._check_crc = check_crc
        self._limit = end
        self.end = position
        self.why = ""

    def __iter__(self) -> Iterator[Record]:
        segments, position = self._segments, self.end
        limit = segments.capacity_end if self._limit is None else self._limit
        window, window_at, wanted = b"", position, WINDOW_BYTES
        file_end = segments.end_of(position)
        while position < limit:
            found = check_record(
                window,
                position - window_at,
                position,
                file_end - position,
                check_crc=self._check_crc,
            )
            if isinstance(found, Record):
                position += found.size_bytes
                self.end = position
                yield found
            elif isinstance(found, Blank):
                position = file_end
                self.end = position
            elif found.needs_bytes:
                wanted = min(max(WINDOW_BYTES, found.needs_bytes), file_end - position)
                window, window_at = segments.read(position, wanted), position
                if len(window) < found.needs_bytes:
                    self.why = "the file is shorter than it should be"
                    return
                continue
            else:
                self.why = found.why
                return
            if position >= file_end and position < limit:
                if position not in segments.starts:
                    self.why = "no file begins here"
                    return
                file_end = segments.end_of(position)
                window, window_at = b"", position
