"""Recovery: finding the end of the log, and bringing every index up to it.

Each index has a watermark, from which on it is redone; what it has behind the end of the log is
forgotten. Source: RocketMQ 4.9.8, CommitLog.recoverNormally and recoverAbnormally, and the check
of the dispatch position in DefaultMessageStore.start. Unlike there, redo starts at the first
record that may be missing (``>=`` the watermark; 5.3.3 tests ``>`` and loses one record), and for
each index at its own; and damage with whole records behind it does not end the log.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, final

from lanemq.local import get_logger

from ..derive._sequence import add_damaged_offset, sequences_of
from ..derive._units import Derivation, DerivedUnit
from ..disk._files import Files
from ..log._cut import cut_log
from ..log._damage import KnownDamage, RecoveryWalk, walk_over_damage
from ..log._records import LogWalk, Record
from ..log._segments import Segments
from ..queues._light_queues import SkippedLightQueues
from ..queues._queues import QueueTable
from ._missing_units import MissingUnits
from ._redo import RedoTarget

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from ..queues.rocks._consume_queue import RocksQueueTable

LOGGER = get_logger(__name__)
NORMAL_FILES = 3
NORMAL_BYTES = 128 << 20
TELL_RECORDS = 1_000_000


def normal_start(segments: Segments, queues: "QueueTable | RocksQueueTable") -> int:
    """Return the position at which the check of a cleanly closed log begins.

    The reference takes the third last file; here it is not more than the last 128 MiB, so that
    a start takes a second at most. A message of those is found with the help of the queues.
    """
    start = segments.starts[-NORMAL_FILES:][0]
    wanted = queues.max_log_end() - NORMAL_BYTES
    return max(start, queues.first_message_from(wanted)) if wanted > start else start


def crash_start(segments: Segments, recovery_ms: int) -> int:
    """Return the begin of the check after a crash: the newest file that begins with a durable
    record.

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
    """The recovery of a log; runs once, before the store is used. Raises ``OSError``."""

    def __init__(
        self,
        segments: Segments,
        targets: Sequence[RedoTarget],
        derivation: Derivation,
        *,
        files: Files,
        save_to: Path,
        check_crc: bool,
        proven_end: int,
        damage: KnownDamage,
        missing: MissingUnits | None,
        lights: SkippedLightQueues,
    ) -> None:
        """Take the parts. The log was whole up to ``proven_end`` once, so a fault before it is
        damage. ``missing`` looks at records that must have their units in queue files, and
        ``lights`` at all.
        """
        self._segments = segments
        self._targets = targets
        self._derivation = derivation
        self._files = files
        self._save_to = save_to
        self._check_crc = check_crc
        self._proven_end = proven_end
        self._damage = damage
        self._sequences = sequences_of(
            targets, lambda unit, _slot: add_damaged_offset(damage, unit)
        )
        self._redo_from = 0
        self._missing = missing
        self._lights = lights
        self._redone = 0
        self.last_store_ms = 0
        """Store time of the last record that was looked at."""

    def run(self, start: int) -> int:
        """Redo all targets, checking the log from ``start`` on; returns where it ends.

        Damage before the end is passed over, and noted. Bytes behind the end are cut off. The
        watermarks of the targets stay as they are, but for those behind the end.
        """
        segments = self._segments
        self._redo_from = min((target.watermark for target in self._targets), default=start)
        walk = RecoveryWalk(
            segments,
            start,
            check_crc=self._check_crc,
            proven_end=self._proven_end,
            known=self._damage,
        )
        for unit in self._sequences.confirmed(self._units(start, walk)):
            self._deliver(unit)
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

    def _units(self, start: int, walk: RecoveryWalk) -> Iterator[DerivedUnit]:
        redo_from = self._redo_from
        if redo_from < start:
            for record in walk_over_damage(self._segments, redo_from, start):
                self._lights.look_at(record)
                yield from self._redo(record)
        for record in walk:
            self.last_store_ms = record.store_timestamp_ms
            self._lights.look_at(record)
            yield from self._redo(record) if record.position >= redo_from else self._known(record)

    def _known(self, record: Record) -> Iterator[DerivedUnit]:
        """Iterate over the queue positions of a record whose units should be there."""
        size_bytes, store_ms = record.size_bytes, record.store_timestamp_ms
        for position in self._derivation.positions.of(record):
            yield DerivedUnit(*position, record.position, size_bytes, 0, store_ms)

    def _deliver(self, unit: DerivedUnit) -> None:
        position = unit.log_position
        if position >= self._redo_from:
            for target in self._targets:
                if position >= target.watermark:
                    target.put(unit)
        elif self._missing is not None:
            self._missing.look_at(unit)

    def _redo(self, record: Record) -> Iterator[DerivedUnit]:
        """Iterate over the units of a record, and then hand it to the targets."""
        sequences, position = self._sequences, record.position
        yield from self._derivation.units(record)
        decided_to = sequences.held_from if sequences.is_undecided else None
        for target in self._targets:
            if position >= target.watermark:
                target.take(record, record.end if decided_to is None else decided_to)
        self._redone += 1
        if self._redone % TELL_RECORDS == 0:
            LOGGER.info(
                "%d records are dispatched again, up to %d of the log: %.0f %% of its files",
                self._redone,
                record.end,
                100 * record.end / self._segments.capacity_end,
            )
