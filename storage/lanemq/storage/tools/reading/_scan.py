"""A walk over a part of the log that does not stop at damage.

A record says which position it belongs to, so that the next whole one behind any damage can be
told from its remains and from bodies that look like records.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol, final

from ...log._records import MAGIC_AT, LogBytes, LogWalk, Record, record_at, record_candidates

SEARCHED_BYTES: Final = 1 << 17


class ScannedLog(LogBytes, Protocol):
    """The log's files as a scan needs them; meanings as in ``Pieces``."""

    def start_of(self, position: int) -> int: ...

    def data(
        self, begin: int, end: int, *, chunk_bytes: int = ...
    ) -> Iterator[tuple[int, bytes]]: ...


class DamageKind(enum.Enum):
    """The kind of damage of a piece of the log."""

    BODY = "body"
    """A record whose body fails its checksum, while everything else about it is sound."""
    OFFSET = "offset"
    """A whole record whose queue offset the messages around it contradict."""
    BYTES = "bytes"
    """Bytes that are not a record, with whole records behind them."""
    GAP = "gap"
    """A log file is missing."""


@final
@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of the log from ``position`` to before ``end``; ``why`` is for people."""

    kind: DamageKind
    position: int
    end: int
    why: str


@final
@dataclass(slots=True)
class LogScan:
    """An iterable of the records in ``begin`` to ``end``; the attributes are set after one
    iteration.

    Source of what a record must be: ``check_record``.
    """

    log: ScannedLog
    begin: int
    end: int
    check_crc: bool = True
    is_record: bool = False
    """True if a record should be at ``begin``, though no file begins there."""
    first: int | None = None
    """Position of the first record; None where there is none."""
    stopped: int = 0
    """Position behind the last record, or where a file behind it begins."""
    why: str = ""
    """The fault at ``stopped``, where the walk ended before ``end``."""
    damages: list[Damage] = field(default_factory=list)
    """Damage with a record behind it, in the order of the log."""

    def __iter__(self) -> Iterator[Record]:
        log = self.log
        position: int | None = self.begin
        if self.begin not in log.starts and not self.is_record:
            position = find_record(log, self.begin, self.end)
        self.stopped = self.begin
        if position is None:
            return
        while True:
            walk = LogWalk(log, position, check_crc=self.check_crc, end=self.end)
            for record in walk:
                if self.first is None:
                    self.first = record.position
                yield record
            self.stopped, self.why = walk.end, walk.why
            if not walk.why:
                return
            broken = walk.end
            damaged = record_at(log, broken) if self.check_crc else None
            if damaged is not None:
                self.damages.append(Damage(DamageKind.BODY, broken, damaged.end, walk.why))
                if self.first is None:
                    self.first = broken
                yield damaged
                position = self.stopped = damaged.end
                if position < self.end:
                    continue
                self.why = ""
                return
            position = find_record(log, broken, self.end)
            if position is None:
                return
            if self.first is not None:
                self.damages.append(damage_between(log, broken, position, walk.why))


def damage_between(log: ScannedLog, position: int, end: int, why: str) -> Damage:
    """Describe the damage between two records."""
    is_gap = position not in log.starts and log.start_of(position) not in log.starts
    return Damage(DamageKind.GAP if is_gap else DamageKind.BYTES, position, end, why)


def find_record(
    log: ScannedLog, begin: int, end: int, *, check_crc: bool = True, lenient: bool = False
) -> int | None:
    """Return the position of the first whole record in ``begin`` to ``end``, or of the file behind
    a blank. ``lenient``: see ``check_record``."""
    for position, data in log.data(begin, end, chunk_bytes=SEARCHED_BYTES):
        # A record's signature may lie across two chunks, but never across files.
        overlap = min(MAGIC_AT + 3, position - log.start_of(position))
        position -= overlap
        data = log.read(position, overlap) + data
        for offset in record_candidates(data):
            at = position + offset
            if at < begin:
                continue
            if record_at(log, at, check_crc=check_crc, lenient=lenient) is not None:
                return at
    return None
