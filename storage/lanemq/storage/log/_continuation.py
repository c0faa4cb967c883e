"""Proof that a log goes on behind bytes that are not a record and that no durable index names.

Behind a torn write there is nothing, or the remains of a log that was cut there once. Records
behind damage go on where those before it stopped: they are no older, no queue's offset is given a
second time, and the offsets that are missing fit into the bytes between. A loss of power leaves
sectors that were never written, and behind them may be what nobody was promised.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final, final

from lanemq.wire.message import MAGIC_V1, MAGIC_V2

from ._records import (
    HEAD_BYTES_MAX,
    POSITION_AT,
    RECORD_BYTES_MIN,
    START,
    LogBytes,
    LogWalk,
    Record,
    store_timestamp_ms,
)

FOLLOWERS: Final = 256
SECTOR: Final = 512
NEVER_WRITTEN: Final = bytes(SECTOR)


@final
class Front:
    """The part of a log before a place, as a walk gives it: the newest offset of each queue."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, int], int] = {}
        self._last_ms = 0
        self._end = 0
        self._lost_bytes = 0

    def add(self, record: Record) -> None:
        """Take the next record."""
        if record.position > self._end > 0:
            self._lost_bytes += record.position - self._end
        self._end = record.end
        self._last_ms = record.store_timestamp_ms
        key = record.topic, record.queue_id
        if record.is_inner_batch:
            self._newest.pop(key, None)  # how many offsets it takes is not in its head
        elif record.is_queued:
            self._newest[key] = record.queue_offset

    def is_continued(self, followers: Iterable[Record], *, since_ms: int) -> bool:
        """Return whether records go on where these stopped.

        ``since_ms``: store time that the damage itself tells; 0 where it tells none.
        """
        room_bytes: int | None = None
        met: set[tuple[str, int]] = set()
        for record in followers:
            if room_bytes is None:
                if record.store_timestamp_ms < max(self._last_ms, since_ms):
                    return False
                room_bytes = self._lost_bytes + record.position - self._end
            key = record.topic, record.queue_id
            newest = self._newest.get(key)
            if newest is None or key in met or not record.is_queued:
                continue
            met.add(key)
            missing = record.queue_offset - newest - 1
            room_bytes -= missing * RECORD_BYTES_MIN
            if missing < 0 or room_bytes < 0:
                return False
        return room_bytes is not None


def is_continued(segments: LogBytes, front: Front, begin: int, end: int) -> bool:
    """Return whether the record at ``end`` goes on a log that is damaged from ``begin`` on."""
    if not _is_written(segments, begin, end):
        return False
    head = segments.read(begin, HEAD_BYTES_MAX)
    since_ms = store_timestamp_ms(head) if _names_its_place(head, begin) else 0
    followers = islice(LogWalk(segments, end, check_crc=True), FOLLOWERS)
    return front.is_continued(followers, since_ms=since_ms)


def _names_its_place(head: bytes, position: int) -> bool:
    """Return whether the head of a record that is not whole is still one."""
    if len(head) < RECORD_BYTES_MIN or START.unpack_from(head)[1] not in (MAGIC_V1, MAGIC_V2):
        return False
    return int.from_bytes(head[POSITION_AT : POSITION_AT + 8], "big") == position


def _is_written(segments: LogBytes, begin: int, end: int) -> bool:
    """Return whether all of a damaged part was written once: no sector of it is zeros.

    The rest of a file that holds no record is zeros, too, but nothing tells it from sectors that
    were never written.
    """
    head = segments.read(begin, START.size)
    if head and not any(head):
        return False
    for start in segments.starts:
        at, part_end = max(begin, start), min(end, segments.end_of(start))
        first = start + -(-(at - start) // SECTOR) * SECTOR
        for sector in range(first, part_end - SECTOR + 1, SECTOR):
            if segments.read(sector, SECTOR) == NEVER_WRITTEN:
                return False
    return True
