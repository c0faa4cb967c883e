"""Making rows from the records of a part of the log, where there are no usable queue files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, final

from ...derive._sequence import Expected, IsKnown, Sequences
from ...derive._units import Derivation, DerivedUnit
from ...queues.rocks._row_format import QueueKeys, pack_unit_value
from ...tools.reading._pieces import Pieces
from ._file_units import Newest
from ._heads import LOW_COUNT, RUN_UNITS_MAX
from ._sorted_table import SortedTable
from ._window import Window

RECORDS_MAX: Final = 1_000_000
Since = Callable[[str, int], int]
"""Topic and queue id -> log position from which on messages still belong to the queue: its topic
may have been deleted."""
NEVER: Final = 1 << 63
"""The answer for a queue that cannot exist."""


@final
@dataclass(frozen=True, slots=True)
class Demands:
    """The parts that tell which units the records of the log must have in a result."""

    derivation: Derivation
    since: Since
    is_known: IsKnown
    """As for ``Sequences``, by what was there before."""


@final
class _Rows:
    """The rows of one queue in a part of the log: offset -> value."""

    __slots__ = ("by_offset", "next", "since")

    def __init__(self, since: int) -> None:
        self.since = since
        self.next = -1
        """Offset behind the newest; -1 without any."""
        self.by_offset: dict[int, bytes] = {}

    def put(self, offset: int, value: bytes) -> bool:
        """Add the row of the next message; returns whether the queue went back to its offset."""
        goes_back = offset < self.next or not offset
        if goes_back:
            for number in [number for number in self.by_offset if number >= offset]:
                del self.by_offset[number]
        self.by_offset[offset] = value
        self.next = offset + 1
        return goes_back


@final
class LogUnits:
    """The reader of the log; ``expected`` is as for ``Sequences``, by the existing rows."""

    def __init__(self, log: Pieces, demands: Demands, *, expected: Expected, log_end: int) -> None:
        self._log = log
        self._demands = demands
        self._expected = expected
        self._log_end = log_end
        self._queues: dict[tuple[str, int], _Rows] = {}
        self.goes_back: dict[tuple[str, int], int] = {}
        """Queue -> smallest offset to which it went back in the last ``write``: its older rows from
        there on must go."""

    def write(self, begin: int, end: int, table: SortedTable) -> tuple[int, Newest]:
        """Write rows of records from ``begin`` on to a table, up to ``end`` at most.

        Returns where it stopped, and where each queue is then. Raises ``OSError``.
        """
        self._queues = {}
        self.goes_back = {}
        ends: Newest = {}

        def pass_over(unit: DerivedUnit, slot: int | None) -> None:
            # The check of the result finds it again, and reports it.
            if slot is not None and unit.log_position < window.end:
                ends[unit.topic.encode(), unit.queue_id] = unit.log_position, slot

        demands = self._demands
        sequences = Sequences(pass_over, expected=self._expected, is_known=demands.is_known)
        window = Window(
            self._log,
            begin,
            end,
            log_end=self._log_end,
            sequences=sequences,
            records_max=RECORDS_MAX,
        )
        units = demands.derivation.walk(window)
        wanted = (unit for unit in units if unit.log_position >= self._rows_of(unit).since)
        for topic, queue_id, offset, position, *rest in sequences.confirmed(wanted):
            name = topic, queue_id
            if position < window.end and self._queues[name].put(
                offset, pack_unit_value(position, *rest)
            ):
                self.goes_back[name] = min(offset, self.goes_back.get(name, offset))
        newest = self._put(table)
        return window.end, {
            name: max(found)
            for name in newest | ends
            for found in [[known[name] for known in (newest, ends) if name in known]]
        }

    def _rows_of(self, unit: DerivedUnit) -> _Rows:
        name = unit[:2]
        rows = self._queues.get(name)
        if rows is None:
            rows = self._queues[name] = _Rows(self._demands.since(*name))
            expected = self._expected(unit)
            rows.next = expected[0] if expected is not None else -1
        return rows

    def _put(self, table: SortedTable) -> Newest:
        newest: Newest = {}
        for topic, queue_id in sorted(
            self._queues, key=lambda name: (len(name[0].encode()), *name)
        ):
            rows = self._queues[topic, queue_id].by_offset
            if not rows:
                continue
            data = topic.encode()
            keys = QueueKeys(data, queue_id)
            for first, values in _runs(rows):
                table.put(keys, first, values)
            last = max(rows)
            newest[data, queue_id] = int.from_bytes(rows[last][:8], "big"), last
        return newest


def _runs(rows: dict[int, bytes]) -> Iterator[tuple[int, bytes]]:
    """Iterate over runs of rows, each as first offset and values, as long as a table takes them."""
    offsets = sorted(rows)
    begin = 0
    for number in range(1, len(offsets) + 1):
        first = offsets[begin]
        if (
            number == len(offsets)
            or offsets[number] != first + number - begin
            or number - begin == RUN_UNITS_MAX
            or offsets[number] % LOW_COUNT == 0
        ):
            yield first, b"".join([rows[offset] for offset in offsets[begin:number]])
            begin = number
