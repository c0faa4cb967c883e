"""Finding the end of the log, and bringing every index there.

Each index has a watermark, from which on it is redone; what it has behind the end of the log is
forgotten. Source: RocketMQ 4.9.8, CommitLog.recoverNormally and recoverAbnormally, and the check
of the dispatch position in DefaultMessageStore.start. Unlike there, redo starts at the first
record that may be missing (``>=`` the watermark; 5.3.3 tests ``>`` and loses one record), and for
each index at its own.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, final

from ._cut import cut_log
from ._files import Files
from ._records import LogWalk, Record
from ._redo import RedoTarget, walk_over_damage
from ._segments import Segments

LOGGER = logging.getLogger(__name__)
NORMAL_FILES = 3
NORMAL_BYTES = 128 << 20
TELL_RECORDS = 1_000_000


class Landmarks(Protocol):
    """Queues, which know where messages of the log begin."""

    def max_log_end(self) -> int:
        """Position behind the last message that has a unit; -1 without any."""

    def first_message_from(self, log_position: int) -> int:
        """Position of a message at or behind ``log_position``, the first as far as is known.

        ``log_position`` itself must lie before the last message.
        """


def normal_start(segments: Segments, landmarks: Landmarks) -> int:
    """Where the check of a log begins that was closed cleanly.

    The reference takes the third last file; here it is not more than the last 128 MiB, so that
    a start takes a second at most. A message of those is found with the help of the queues.
    """
    start = segments.starts[-NORMAL_FILES:][0]
    wanted = landmarks.max_log_end() - NORMAL_BYTES
    return max(start, landmarks.first_message_from(wanted)) if wanted > start else start


def crash_start(segments: Segments, recovery_ms: int) -> int:
    """Where the check begins after a crash: the newest file that begins with a durable record.

    The record must be whole. Half of one may show any time, and what lies before it would pass
    for durable.
    """
    for start in reversed(segments.starts):
        first = next(iter(LogWalk(segments, start, check_crc=True)), None)
        if (
            first is not None
            and first.position == start
            and 0 < first.store_timestamp_ms <= recovery_ms
        ):
            return start
    return segments.begin


@final
class Recovery:
    """Runs once, before the store is used. Raises ``OSError``."""

    def __init__(
        self,
        segments: Segments,
        targets: Sequence[RedoTarget],
        *,
        files: Files,
        save_to: Path,
        check_crc: bool,
    ) -> None:
        self._segments = segments
        self._targets = targets
        self._files = files
        self._save_to = save_to
        self._check_crc = check_crc
        self._redone = 0
        self.last_store_ms = 0
        """Store time of the last record that was looked at."""

    def run(self, start: int) -> int:
        """Redo all targets, checking the log from ``start`` on; returns where it ends.

        What lies behind the end is cut off. The watermarks of the targets stay as they are, but
        for those behind the end.
        """
        segments = self._segments
        redo_from = min((target.watermark for target in self._targets), default=start)
        if redo_from < start:
            for record in walk_over_damage(segments, redo_from, start):
                self._redo(record)
        walk = LogWalk(segments, start, check_crc=self._check_crc)
        for record in walk:
            self.last_store_ms = record.store_timestamp_ms
            if record.position >= redo_from:
                self._redo(record)
        for target in self._targets:
            dropped = target.truncate(walk.end)
            target.watermark = min(target.watermark, walk.end)
            if dropped:
                LOGGER.warning(
                    "%s: %d units lay behind the end of the log, %d", target.name, dropped, walk.end
                )
        cut_log(segments, walk.end, why=walk.why, files=self._files, save_to=self._save_to)
        LOGGER.info("the log ends at %d; %d records were dispatched again", walk.end, self._redone)
        return walk.end

    def _redo(self, record: Record) -> None:
        for target in self._targets:
            if record.position >= target.watermark:
                target.redo(record)
        self._redone += 1
        if self._redone % TELL_RECORDS == 0:
            LOGGER.info(
                "%d records are dispatched again, up to %d of the log: %.0f %% of its files",
                self._redone,
                record.end,
                100 * record.end / self._segments.capacity_end,
            )
