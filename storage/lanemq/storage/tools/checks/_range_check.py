"""The check of one part of the log against the indexes, in a process of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, final

from lanemq.wire import LMQ_PREFIX, SystemTopic

from ..._config import DELAY_LEVELS, parse_delay_levels
from ...derive._sequence import Sequences
from ...derive._units import DerivedUnit
from ...log._damage import CONTRADICTED
from ...log._records import UNQUEUED
from ...queues._queue_positions import NAMES, UNPLACED, light_positions
from ...queues._tags import TagsCodes
from ..reading._directory import StoreDirectory
from ..reading._rows_view import RowsView
from ..reading._scan import Damage, DamageKind
from ._keys_check import KeyIndexCheck
from ._queue_check import QueueCheck
from ._rows import Fields, RowScan
from ._tally import KeysCheck, QueueSpan

SCHEDULE: Final[str] = SystemTopic.SCHEDULE


@final
@dataclass(slots=True)
class RangeReport:
    """The result for ``begin`` to ``end`` of the log. Positions count bytes."""

    begin: int
    end: int
    first: int | None = None
    """The first record; the bytes before it belong to the part before, or are damage."""
    stopped: int = 0
    why: str = ""
    """The fault at ``stopped``; empty where the part was walked to its end."""
    dirty_end: int = -1
    """Position behind the last byte at or behind ``stopped`` that is not zero; -1 for none."""
    records: int = 0
    unqueued: int = 0
    """Records without a place in a queue: prepared and rolled back halves of transactions."""
    inner_batches: int = 0
    """Records with several messages in one, whose queues are of another kind."""
    last_store_timestamp_ms: int = 0
    damages: list[Damage] = field(default_factory=list)
    queues: dict[tuple[str, int], QueueSpan] = field(default_factory=dict)
    keys: KeysCheck | None = None


@final
class RangeCheck:
    """The checker of parts of one store's log, one after another."""

    def __init__(
        self, store: StoreDirectory, *, files: bool, rows: RowsView | None, keys: bool
    ) -> None:
        """Take the indexes to compare with: ``files``, ``rows`` and ``keys``."""
        self._store = store
        self._files = files
        self._rows = rows
        self._index = store.index_files() if keys else None
        self._tags = TagsCodes(parse_delay_levels(DELAY_LEVELS))
        self._queues: dict[tuple[str, int], QueueCheck] = {}
        self._damaged: list[Damage] = []
        self._sequences = Sequences(self._note_damaged, expected=self._expected)

    def run(self, begin: int, end: int) -> RangeReport:
        """Check the records that begin in ``begin`` to ``end``. Raises ``OSError``."""
        store, report = self._store, RangeReport(begin, end)
        self._queues, self._damaged = {}, []
        scan = RowScan(store.log, begin, end)
        keys = KeyIndexCheck(self._index, begin) if self._index is not None else None
        for rows in scan:
            report.records += len(rows)
            report.last_store_timestamp_ms = scan.last_store_ms
            self._check_units(rows, report)
            if keys is not None:
                keys.add(rows)
        report.first, report.stopped, report.why = scan.first, scan.stopped, scan.why
        if scan.first is None or scan.why:
            for position, data in store.log.data(scan.stopped, end):
                report.dirty_end = position + len(data)
        self._take(self._sequences.forget())
        report.damages = sorted([*scan.damages, *self._damaged], key=lambda one: one.position)
        report.queues = {name: queue.close() for name, queue in self._queues.items()}
        report.keys = keys.close(max(end, scan.stopped)) if keys is not None else None
        store.log.close()
        return report

    def _check_units(self, rows: list[Fields], report: RangeReport) -> None:
        queues, code_of = self._queues, self._tags.of_tags
        for queue in queues.values():
            queue.flush_if_full()
        for position, size, topic, queue_id, offset, flags, store_ms, data, tags, _, _ in rows:
            if flags & UNPLACED:
                if flags & UNQUEUED:
                    report.unqueued += 1
                else:
                    report.inner_batches += 1
                continue
            if topic == SCHEDULE:
                code = self._tags.code(topic, data, store_ms)
            else:
                code = code_of(tags)
            queue = queues.get((topic, queue_id)) or self._queue(topic, queue_id, offset)
            if queue.next == offset and queue.is_plain and not queue.holds:
                queue.fields += (position, size, code)
                queue.next = offset + 1
            else:
                unit = DerivedUnit(topic, queue_id, offset, position, size, code, store_ms)
                self._add(queue, unit)
            if NAMES in data:
                for place in light_positions(topic, data):
                    queue = queues.get(place[:2]) or self._queue(*place)
                    self._add(queue, DerivedUnit(*place, position, size, code, store_ms))

    def _add(self, queue: QueueCheck, unit: DerivedUnit) -> None:
        if queue.next == unit.queue_offset and not queue.holds:
            queue.add(unit)
            return
        self._take(self._sequences.take(unit))
        queue.holds = self._sequences.holds(queue.topic, queue.queue_id)
        if not queue.holds:
            self._sequences.drop(queue.topic, queue.queue_id)

    def _take(self, units: Sequence[DerivedUnit]) -> None:
        for unit in units:
            self._queues[unit[:2]].add(unit)

    def _expected(self, unit: DerivedUnit) -> tuple[int, int] | None:
        queue = self._queues[unit[:2]]
        # One message alone proves nothing: the first may be the damaged one.
        return (queue.next, queue.last_position) if queue.has_several else None

    def _note_damaged(self, unit: DerivedUnit, _slot: int | None) -> None:
        position, size_bytes = unit.log_position, unit.size_bytes
        if unit.topic.startswith(LMQ_PREFIX):
            return  # the message itself has its place
        self._damaged.append(
            Damage(DamageKind.OFFSET, position, position + size_bytes, CONTRADICTED)
        )

    def _queue(self, topic: str, queue_id: int, first: int) -> QueueCheck:
        files = self._store.queue(topic, queue_id) if self._files else None
        queue = self._queues[topic, queue_id] = QueueCheck(
            topic, queue_id, first, files, self._rows
        )
        return queue
