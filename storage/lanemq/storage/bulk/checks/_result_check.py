"""The check of a conversion's result against the log, and against what could be read before.

Part by part of the log, as whole columns of units and heads of records: the records that units
lead to fill a part without a gap where each has its unit. Only where they do not are its records
read one by one.
"""

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from typing import final

from ..._errors import StoreError
from ..._layouts import UNIT_BYTES
from ...derive._sequence import DamagedOffset, Sequences
from ...derive._units import DerivedUnit
from ...queues.rocks._row_format import QueueKeys
from ...tools.checks._findings import Progress
from ...tools.reading._directory import StoreDirectory
from ...tools.reading._pieces import Pieces
from ...tools.reading._units import Units, unit_at
from ...tools.rebuild._losses import Loss, Losses, OpenUnits, is_readable, losses
from ..units._file_units import FileQueue, FileUnits
from ..units._heads import LogMap, UnitsDamaged
from ..units._log_units import Demands
from ..units._window import Window
from ._survey import Survey, names_message

BLOCK_UNITS = 4096


@final
class ResultRefused(StoreError):  # noqa: N818 - a property of the result
    """A conversion would have taken readable messages away. Nothing was changed."""

    def __init__(self, store: StoreDirectory, found: list[Loss]) -> None:
        total = sum(loss.count for loss in found)
        super().__init__(
            f"{store.root}: nothing was changed, for the result would not lead to {total}"
            f" messages that can be read now: {'; '.join(map(str, found[:3]))}."
            " `verify_store` tells what is wrong with the store"
        )


@final
class _NoTable:
    def put(self, keys: QueueKeys, first_offset: int, values: bytes) -> None:
        """Keep nothing: that values could be made shows that each unit fits its record."""


@final
class ResultCheck:
    """A count of the messages in the log that have no unit in the result. Raises ``OSError``."""

    def __init__(
        self,
        log: Pieces,
        open_units: OpenUnits,
        names: Iterable[tuple[str, int]],
        demands: Demands,
        progress: Progress,
    ) -> None:
        self._log = log
        self._open_units = open_units
        self._demands = demands
        self._progress = progress
        self._units: dict[tuple[str, int], _Buffered] = {}
        self._found: dict[tuple[str, int], list[int]] = {}
        self.damaged: dict[int, DamagedOffset] = {}
        """Log position -> message whose offset is damaged, which gets no place for that."""
        self._queues = []
        for name in names:
            units = open_units(*name)
            self._queues.append(FileQueue(*name, units.written_end()))
            units.close()

    def run(self, begin: int, end: int, *, proven: Container[tuple[int, int]] = ()) -> list[Loss]:
        """Count the messages of each queue that have no unit, of ``begin`` to ``end`` of the log.

        ``proven``: parts of single log files in which nothing lacks a unit.
        """
        log = self._log
        units = FileUnits(log, self._open_units, self._queues)
        for start in log.starts:
            first, stop = max(start, begin), min(start + log.file_bytes, end)
            if first >= stop or (first, stop) in proven:
                continue
            heads = LogMap(log, start)
            try:
                with suppress(UnitsDamaged):
                    units.write(first, stop, heads, _NoTable(), lambda _: None)
                    continue
            finally:
                heads.close()
                self._progress("checking the result", stop - begin, end - begin)
            self._read(first, stop, log_end=end)
        for buffered in self._units.values():
            buffered.close()
        return [
            Loss(*name, offset, position, count)
            for name, (offset, position, count) in sorted(self._found.items())
        ]

    def _read(self, begin: int, end: int, *, log_end: int) -> None:
        def note(unit: DerivedUnit, _slot: int | None) -> None:
            if unit.log_position < end:
                self.damaged[unit.log_position] = DamagedOffset.of(unit)

        sequences = Sequences(note, expected=self._expected, is_known=self._is_known)
        window = Window(self._log, begin, end, log_end=log_end, sequences=sequences)
        units = self._demands.derivation.walk(window)
        wanted = (unit for unit in units if unit.log_position >= self._units_of(unit).since)
        for unit in sequences.confirmed(wanted):
            self._look(unit, end)

    def _units_of(self, unit: DerivedUnit) -> "_Buffered":
        name = unit[:2]
        units = self._units.get(name)
        if units is None:
            units = self._units[name] = _Buffered(
                self._open_units(*name), self._demands.since(*name)
            )
        return units

    def _expected(self, unit: DerivedUnit) -> tuple[int, int] | None:
        return self._units_of(unit).expected(self._log, unit)

    def _is_known(self, unit: DerivedUnit) -> bool:
        units = self._units_of(unit)
        is_there = units.position_at(unit.queue_offset) == unit.log_position
        return is_there or self._demands.is_known(unit)

    def _look(self, unit: DerivedUnit, end: int) -> None:
        name, offset, position = unit[:2], unit.queue_offset, unit.log_position
        units = self._units_of(unit)
        if position >= end:
            return
        if units.position_at(offset) == position or position < units.since:
            return
        if units.is_superseded(self._log, unit):
            return
        found = self._found.setdefault(name, [offset, position, 0])
        found[2] += 1


def check_result(
    found: Survey,
    names: Iterable[tuple[str, int]],
    *,
    before: OpenUnits,
    after: OpenUnits,
    deleted: Mapping[str, int],
    demands: Demands,
    progress: Progress,
    proven: Container[tuple[int, int]] = (),
    is_same: bool = False,
) -> tuple[list[Loss], list[DamagedOffset]]:
    """Compare a result with the log, and with what could be read before.

    ``proven`` are parts of the log that need no look where each unit of before is there, byte by
    byte; ``is_same`` says that this is known. Returns messages that are in the log only, and those
    whose offset is damaged. Raises ``ResultRefused``, and ``OSError``.
    """
    store, ordered = found.store, sorted(names)
    check = ResultCheck(store.log, after, ordered, demands, progress)

    def compare(damaged: Container[int]) -> Losses:
        compared = losses(store.log, ordered, before=before, after=after, damaged=damaged)
        compared.found = [
            loss for loss in compared.found if loss.log_position >= deleted.get(loss.topic, 0)
        ]
        return compared

    compared = Losses() if is_same else compare(())
    unplaced = check.run(found.log_begin, found.log_end, proven=proven if compared.is_same else ())
    lost = compare(check.damaged).found if compared.found else []
    if lost:
        raise ResultRefused(store, lost)
    return unplaced, list(check.damaged.values())


@final
class _Buffered:
    """The units of one queue, read in runs."""

    def __init__(self, units: Units, since: int) -> None:
        self._source = units
        self.since = since
        self._end = units.written_end()
        self._begin, self._data = 0, b""

    def position_at(self, offset: int) -> int:
        at = (offset - self._begin) * UNIT_BYTES
        if not 0 <= at < len(self._data):
            self._begin, self._data = offset, self._source.read(offset, BLOCK_UNITS)
            at = 0
        return int.from_bytes(self._data[at : at + 8], "big") if self._data else -1

    def expected(self, log: Pieces, unit: DerivedUnit) -> tuple[int, int] | None:
        """Return the slot behind the message before a unit's in the queue, and where that one
        is."""
        slot = self._source.first_from(unit.log_position, self._end)
        before = unit_at(self._source, slot - 1) if slot else None
        if before is None or not names_message(log, *unit[:2], slot - 1, before.log_position):
            return None
        return slot, before.log_position

    def is_superseded(self, log: Pieces, wanted: DerivedUnit) -> bool:
        """Return whether the queue goes on with a newer message at that offset, or before it."""
        offset = min(wanted.queue_offset, self._end - 1)
        unit = unit_at(self._source, offset) if self._end else None
        return (
            unit is not None
            and unit.log_position > wanted.log_position
            and is_readable(log, wanted.topic, wanted.queue_id, unit.log_position)
        )

    def close(self) -> None:
        self._source.close()
