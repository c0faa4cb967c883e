"""Records of a part of the log as plain tuples, many at a time, for checks of all of them.

A record is taken here only where all of it is as nearly all records are; everything else is left
to ``LogScan``, which knows what is wrong with it, and goes on behind it.
"""

from collections.abc import Callable, Generator, Iterator
from struct import Struct
from typing import Final, final
from zlib import crc32

from lanemq.wire import SysFlag
from lanemq.wire.message import MAGIC_V1, get_property

from ...derive._shapes import KEYS, TAGS, UNIQ_KEY, Shape, Values
from ...log._records import CRC_MASK, HEADS, QUEUE_OFFSET_MAX, WINDOW_BYTES, Record
from ..reading._pieces import Pieces
from ..reading._scan import Damage, LogScan, find_record

HEAD: Final = Struct(">4i4x2qi16xq20xi")
"""Size, magic, checksum, queue id, queue offset, position, flags, store time, bytes of the body:
the fixed part of a record with IPv4 hosts. Source: RocketMQ 4.9.8, CommitLog."""
HEAD_BYTES: Final = HEADS[0].size
assert HEAD.size == HEAD_BYTES
BATCH_ROWS: Final = 1 << 14
SMALL_BYTES: Final = 1 << 13
"""Read where one record is wanted; a larger one is read whole."""
TOPICS_MAX: Final = 1 << 16


Fields = tuple[int, int, str, int, int, int, int, bytes, bytes | None, bytes | None, bytes | None]
"""The content of a record: position and size; topic, queue and offset there; flags and store time;
properties, and of these tags, unique key and keys, None where there are none. A plain tuple costs
a third of one with names."""


def row_of(record: Record) -> Fields:
    """Make the row of a record."""
    properties = record.properties
    return (
        record.position,
        record.size_bytes,
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.sys_flag,
        record.store_timestamp_ms,
        properties,
        get_property(properties, TAGS),
        get_property(properties, UNIQ_KEY),
        get_property(properties, KEYS),
    )


@final
class RowScan:
    """Rows of the records that begin in ``begin`` to ``end``; iterate once, then look at the rest.

    It reports the same as ``LogScan``.
    """

    def __init__(self, log: Pieces, begin: int, end: int) -> None:
        self._log = log
        self._begin = begin
        self._end = end
        self._topics: dict[bytes, tuple[str, Callable[[bytes], Values]]] = {}
        self.first: int | None = None
        self.stopped = begin
        self.why = ""
        self.last_store_ms = 0
        self.damages: list[Damage] = []

    def __iter__(self) -> Iterator[list[Fields]]:
        position: int | None = self._begin
        if self._begin not in self._log.starts:
            position = find_record(self._log, self._begin, self._end)
        while position is not None:
            rows = self._plain(position)
            while rows:
                self._note(rows)
                yield rows
                position = self.stopped
                rows = self._plain(position)
            if position >= self._end:
                return
            position = yield from self._odd(position)

    def _note(self, rows: list[Fields]) -> None:
        if self.first is None:
            self.first, *_ = rows[0]
        position, size_bytes, _, _, _, _, self.last_store_ms, *_ = rows[-1]
        self.stopped = position + size_bytes

    def _odd(self, position: int) -> Generator[list[Fields], None, int | None]:
        """Read on with ``LogScan``, up to the first record behind the odd part."""
        scan = LogScan(self._log, position, self._end, is_record=True)
        if self.first is not None:
            scan.first = self.first
        for record in scan:
            rows = [row_of(record)]
            self._note(rows)
            yield rows
            if record.end < self._end and self._plain(record.end, limit=1):
                self.damages += scan.damages
                return record.end
        self.damages += scan.damages
        self.first, self.stopped, self.why = scan.first, scan.stopped, scan.why
        return None

    def _plain(self, position: int, limit: int = BATCH_ROWS) -> list[Fields]:
        """Return records from ``position`` on, to the first that is not plain."""
        if position >= self._end:
            return []
        room = self._log.end_of(position) - position
        wanted = min(WINDOW_BYTES, max(SMALL_BYTES, self._end - position))
        window = self._log.read(position, min(wanted if limit > 1 else SMALL_BYTES, room))
        rows = self._rows_in(window, position, limit)
        if not rows and len(window) >= HEAD_BYTES:
            size = int.from_bytes(window[:4], "big", signed=True)
            if len(window) < size <= room:
                window = self._log.read(position, size)
                rows = self._rows_in(window, position, limit)
        return rows

    def _rows_in(self, window: bytes, base: int, limit: int) -> list[Fields]:
        unpack, topics, v6 = HEAD.unpack_from, self._topics, int(SysFlag.HOSTS_V6_MASK)
        most = QUEUE_OFFSET_MAX
        rows: list[Fields] = []
        add = rows.append
        at, last = 0, min(len(window) - HEAD_BYTES - 3, self._end - base - 1)
        while at <= last and limit:
            limit -= 1
            size, magic, crc, queue_id, offset, position, flags, store_ms, body = unpack(window, at)
            body_at = at + HEAD_BYTES
            body_end, stop = body_at + body, at + size
            if (
                magic != MAGIC_V1
                or position != base + at
                or flags & v6
                or not 0 <= offset <= most
                or body < 0
                or body_end + 3 > stop
                or stop > len(window)
            ):
                break
            topic_end = body_end + 1 + window[body_end]
            properties_at = topic_end + 2
            if (
                properties_at > stop
                or properties_at + (window[topic_end] << 8 | window[topic_end + 1]) != stop
                or (body and crc32(window[body_at:body_end]) & CRC_MASK != crc)
            ):
                break
            name = window[body_end + 1 : topic_end]
            known = topics.get(name)
            if known is None:
                try:
                    known = self._topic(name)
                except UnicodeDecodeError:
                    break
            topic, values = known
            data = window[properties_at:stop]
            add((position, size, topic, queue_id, offset, flags, store_ms, data, *values(data)))
            at = stop
        return rows

    def _topic(self, name: bytes) -> tuple[str, Callable[[bytes], Values]]:
        if len(self._topics) >= TOPICS_MAX:
            self._topics.clear()
        known = self._topics[name] = name.decode(), Shape().values
        return known
