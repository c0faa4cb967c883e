"""The records of a part of a log file, many at a time, and what is damaged between them."""

import time
from collections.abc import Generator, Iterator
from typing import Final, final

import numpy as np

from lanemq.storage.tools import Damage, DamageKind, LogScan, find_record, is_blank

from ..records import Records, decode_records, sound_records, walk_sizes
from ._log import LogFile

WINDOW_BYTES: Final = 8 << 20
BEHIND_BYTES: Final = 64 << 10
"""Read behind the end of a part: most records that begin before it end here."""
SIGNATURE_BYTES: Final = 8
PAUSE_S: Final = 0.02
PAUSES_MAX: Final = 10
"""Pauses of a reader without a record that came: damage that stays costs a fifth of a second."""
NOTHING: Final = np.zeros(1, np.int64)


@final
class RecordReader:
    """The records that begin in ``begin`` to ``end`` of one log file; iterate once.

    Where records follow each other as they should, they are found by their sizes and checked as
    columns. What is odd is left to ``LogScan``, which finds the next record behind it.

    A broker may be writing the file. Bytes that become a record while they are looked at are no
    damage: the log is read on from there.
    """

    def __init__(self, log: LogFile, begin: int, end: int) -> None:
        self._log = log
        self._begin = begin
        self._end = min(end, log.capacity_end)
        self.damages: list[Damage] = []
        """Bytes that are not a record, as far as the iteration is."""
        self._pauses = PAUSES_MAX

    def __iter__(self) -> Iterator[Records]:
        position: int | None = self._begin
        if self._begin not in self._log.starts:
            # What tells a record lies behind its first byte.
            behind = min(self._end + SIGNATURE_BYTES, self._log.capacity_end)
            # An impossible queue offset is no reason to pass over a message: it is reported.
            position = find_record(self._log, self._begin, behind, check_crc=False, lenient=True)
        while position is not None and position < self._end:
            records = self._plain(position, self._end)
            if not len(records) and self._is_written(position):
                records = self._plain(position, self._end)
            if len(records):
                yield records
                position += int(records.end[-1])
            else:
                position = yield from self._odd(position)
        # Damage belongs to the part that has the record before it.
        if position is None or position >= self._log.capacity_end:
            return
        if not self._is_written(position):
            yield from self._odd(position)

    def _plain(self, position: int, end: int) -> Records:
        """Return records from ``position`` to ``end``, to the first that is not plain."""
        room = self._log.end_of(position) - position
        wanted = min(WINDOW_BYTES, end - position + BEHIND_BYTES, room)
        window = self._log.window(position, wanted)
        size = int.from_bytes(window[:4], "big", signed=True)
        if len(window) < size <= room:
            window = self._log.window(position, size)
        starts, _ = walk_sizes(window, 0, end - position)
        records = decode_records(window, starts)
        count = sound_records(records, position)
        return records if count == len(records) else records.take(slice(0, count))

    def _odd(self, position: int) -> Generator[Records, None, int | None]:
        """Continue as ``LogScan`` does, up to the first record behind the odd part."""
        log = self._log
        scan = LogScan(log, position, log.capacity_end, check_crc=False, is_record=True)
        scan.first = position  # what lies before the first record found is damage
        known = 0
        for record in scan:
            if len(scan.damages) > known:
                known = len(scan.damages)
                damage = scan.damages[-1]
                if damage.kind is DamageKind.BYTES and self._is_written(damage.position):
                    self.damages += scan.damages[:-1]
                    return damage.position
            if record.position >= self._end:
                self.damages += scan.damages
                return None
            yield decode_records(log.read(record.position, record.size_bytes), NOTHING)
            if record.end < self._end and len(self._plain(record.end, self._end)):
                self.damages += scan.damages
                return record.end
        self.damages += scan.damages
        if scan.why:
            return self._note_remains(scan.stopped, scan.why)
        return None

    def _note_remains(self, position: int, why: str) -> int | None:
        """Note the bytes at the end of a log that are not a record.

        Returns ``position`` if there is a record now, which a broker has written meanwhile.
        """
        end = position
        for at, data in self._log.data(position, self._log.capacity_end):
            end = at + len(data)
        if end > position:
            if self._is_written(position):
                return position
            self.damages.append(Damage(DamageKind.BYTES, position, end, why))
        return None

    def _is_written(self, position: int) -> bool:
        """Return whether there is a plain record at a position, now or in a moment.

        A broker writes a record in one call, whose first bytes can be seen before the last ones.
        A blank, which ends a file, stays one.
        """
        while not len(self._plain(position, position + 1)):
            if not self._pauses or not any(self._log.window(position, SIGNATURE_BYTES)):
                return False
            if is_blank(self._log, position):
                return False
            self._pauses -= 1
            time.sleep(PAUSE_S)
        self._pauses = PAUSES_MAX
        return True
