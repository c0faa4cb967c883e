"""Damage in the middle of the log, which a start and readers pass over.

A record whose body fails its checksum, but whose successor is where its size says, was whole
once: one message is damaged. So was anything that lies before a position which an index has
durably, and anything behind which records go on where those before it stopped. All else that is
broken is the torn end of a write.
The reference takes the first record that fails its checksum for the end of the log.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple, final

from lanemq.local import get_logger

from ._continuation import Front, is_continued
from ._records import (
    MAGIC_AT,
    NOTHING_WRITTEN,
    POSITION_AT,
    Broken,
    LogBytes,
    LogWalk,
    Record,
    check_record,
    is_blank,
    record_at,
    record_candidates,
)

LOGGER = get_logger(__name__)

SEARCHED_BYTES: Final = 1 << 20
TOLD_MAX: Final = 20
KNOWN_MAX: Final = 100_000
CONTRADICTED: Final = "the messages around it contradict its offset"


class Damage(NamedTuple):
    """Bytes of the log from ``position`` to before ``end`` that are not what was written."""

    position: int
    end: int
    why: str
    record: Record | None
    """The message, where only its body or its offset is damaged."""

    def __str__(self) -> str:
        """Describe the damage and the loss for people."""
        record = self.record
        if record is None:
            size_bytes = self.end - self.position
            return f"{size_bytes} bytes of the log at {self.position} are not a record: {self.why}"
        return (
            f"the message at {self.position} of the log, offset {record.queue_offset} of queue"
            f" {record.queue_id} of {record.topic}, is damaged: {self.why}"
        )


@final
class KnownDamage:
    """The damage found since the start, which readers pass over. False without any."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        self.pieces = 0
        """Number of pieces, those after the first 100,000 included."""
        self.unchecked_end = 0
        """Position before which nobody has checked records: readers have to."""

    def __bool__(self) -> bool:
        return bool(self._begins)

    def add(self, damage: Damage) -> None:
        """Remember a new piece of damage, and log it; the first pieces are logged one by one."""
        self.pieces += 1
        if self.pieces <= KNOWN_MAX:
            number = bisect_right(self._begins, damage.position)
            self._begins.insert(number, damage.position)
            self._ends.insert(number, damage.end)
        if self.pieces <= TOLD_MAX:
            LOGGER.warning("%s. It is passed over, and what lies behind is served", damage)

    def covers(self, position: int) -> bool:
        """Return whether the record that begins there is damaged."""
        number = bisect_right(self._begins, position) - 1
        return number >= 0 and position < self._ends[number]

    def is_damaged(self, record: bytes, position: int) -> bool:
        """Check a record from before ``unchecked_end``, and remember its damage."""
        if self.covers(position):
            return True
        end = position + len(record)
        found = check_record(record, 0, position, len(record), check_crc=True)
        if isinstance(found, Record):
            return False
        why = found.why if isinstance(found, Broken) else "it is the rest of a file"
        rest = check_record(record, 0, position, len(record), check_crc=False)
        self.add(Damage(position, end, why, rest if isinstance(rest, Record) else None))
        return True

    def add_displaced(self, record: bytes) -> None:
        """Remember a whole record whose offset the messages around it contradict."""
        position = int.from_bytes(record[POSITION_AT : POSITION_AT + 8], "big")
        found = check_record(record, 0, position, len(record), check_crc=False)
        self.add(
            Damage(
                position,
                position + len(record),
                CONTRADICTED,
                found if isinstance(found, Record) else None,
            )
        )

    def tell(self) -> None:
        """Log the amount of damage, if it has grown since the last log line."""
        if self.pieces > TOLD_MAX:
            LOGGER.warning(
                "%d pieces of the log are damaged: a check of the store names them all",
                self.pieces,
            )


@final
class RecoveryWalk:
    """A walk over the records of a log to its end, past damage in the middle.

    A record with a damaged body is given like any other: it has its place in queues and key
    index. ``proven_end``: the log was whole up to here once, because an index has it durably.
    After the iteration ``end`` and ``why`` are as ``LogWalk``'s.
    """

    def __init__(
        self,
        segments: LogBytes,
        position: int,
        *,
        check_crc: bool,
        proven_end: int,
        known: KnownDamage,
    ) -> None:
        self._segments = segments
        self._check_crc = check_crc
        self._proven_end = proven_end
        self._known = known
        self._parts: list[tuple[int, int]] = []
        self._front: Front | None = None
        """The part that was walked over, once it has to be known."""
        self.end = position
        self.why = ""

    def __iter__(self) -> Iterator[Record]:
        segments = self._segments
        while True:
            begin = self.end
            walk = LogWalk(segments, begin, check_crc=self._check_crc)
            if self._front is None:
                yield from walk
            else:
                for record in walk:
                    self._front.add(record)
                    yield record
            self._parts.append((begin, walk.end))
            self.end, self.why = walk.end, walk.why
            damage = self._damage(walk.end, walk.why) if walk.why else None
            if damage is None:
                break
            self._known.add(damage)
            if damage.record is not None:
                self._parts.append((damage.position, damage.end))
                if self._front is not None:
                    self._front.add(damage.record)
                yield damage.record
            self.end = damage.end
            if self.end >= segments.capacity_end:
                self.why = ""
                break
        self._known.tell()

    def _damage(self, position: int, why: str) -> Damage | None:
        """Return the damage at ``position``; None for the end of the log."""
        segments = self._segments
        record = record_at(segments, position) if self._check_crc else None
        if record is not None:
            if record.end <= self._proven_end or _has_successor(segments, record):
                return Damage(position, record.end, why, record)
        elif position < self._proven_end:
            found = find_record(segments, position + 1, self._proven_end)
            if found is not None:
                return Damage(position, found, why, None)
        if why == NOTHING_WRITTEN:
            return None  # nor is anything behind it looked for
        behind = record.end if record is not None else position + 1
        found = find_record(segments, behind, segments.capacity_end)
        if found is None or not is_continued(segments, self._walked(), position, found):
            return None
        return Damage(position, found if record is None else record.end, why, record)

    def _walked(self) -> Front:
        if self._front is None:
            self._front = Front()
            for begin, end in self._parts:
                for record in LogWalk(self._segments, begin, check_crc=False, end=end):
                    self._front.add(record)
        return self._front


def _has_successor(segments: LogBytes, record: Record) -> bool:
    """Return whether a whole record follows, perhaps behind others whose bodies are damaged.

    One stored earlier is not a successor, but the remains of a log that was cut there once.
    """
    while True:
        position = record.end
        if position >= segments.end_of(record.position) or is_blank(segments, position):
            position = segments.end_of(record.position)
        follower = record_at(segments, position)
        if follower is None or follower.store_timestamp_ms < record.store_timestamp_ms:
            return False
        if record_at(segments, position, check_crc=True) is not None:
            return True
        record = follower


def find_record(segments: LogBytes, begin: int, end: int) -> int | None:
    """Return the position of the first whole record in ``begin`` to ``end``; None without one.

    It names its own position and its body has its checksum: no remains, and no body that looks
    like a record.
    """
    for start in segments.starts:
        at, file_end = max(begin, start), min(end, segments.end_of(start))
        while at < file_end:
            # A record's signature may lie across two chunks, but never across files.
            data = segments.read(at, min(SEARCHED_BYTES + MAGIC_AT + 3, file_end - at))
            for offset in record_candidates(data):
                if record_at(segments, at + offset, check_crc=True) is not None:
                    return at + offset
            at += SEARCHED_BYTES
    return None


def walk_over_damage(segments: LogBytes, begin: int, end: int) -> Iterator[Record]:
    """Iterate over the records of a part of the log that was whole once, passing over damage.

    Bodies are not looked at: a damaged message has its place all the same.
    """
    position = begin
    while position < end:
        walk = LogWalk(segments, position, check_crc=False, end=end)
        yield from walk
        if walk.end >= end:
            break
        found = find_record(segments, walk.end + 1, end)
        position = found if found is not None else end
        LOGGER.warning(
            "no record at %d of the log (%s): dispatch continues at %d",
            walk.end,
            walk.why,
            position,
        )
