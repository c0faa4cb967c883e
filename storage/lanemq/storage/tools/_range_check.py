"""Checking one part of the log, and what the indexes have of it. Runs in a process of its own."""

from dataclasses import dataclass, field
from typing import final

from lanemq.wire import SysFlag

from .._config import DELAY_LEVELS, parse_delay_levels
from .._records import Record
from .._tags import TagsCodes
from ._directory import StoreDirectory
from ._keys_check import KeyIndexCheck
from ._queue_check import MULTI_DISPATCH, QueueCheck, Rows, dispatched_queues
from ._scan import Damage, LogScan
from ._tally import KeysCheck, QueueSpan

INNER_BATCH = 0x80


@final
@dataclass(slots=True)
class RangeReport:
    """What was found in ``begin`` to ``end`` of the log. Positions count bytes."""

    begin: int
    end: int
    first: int | None = None
    """The first record; the bytes before it belong to the part before, or are damage."""
    stopped: int = 0
    why: str = ""
    """What is at ``stopped`` instead of a record; empty where the part was walked to its end."""
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
    """Checks parts of one store's log, one after another."""

    def __init__(
        self, store: StoreDirectory, *, files: bool, rows: Rows | None, keys: bool
    ) -> None:
        """``files``, ``rows``, ``keys``: the indexes to compare with."""
        self._store = store
        self._files = files
        self._rows = rows
        self._index = store.index_files() if keys else None
        self._tags = TagsCodes(parse_delay_levels(DELAY_LEVELS))
        self._queues: dict[tuple[str, int], QueueCheck] = {}

    def run(self, begin: int, end: int) -> RangeReport:
        """Check the records that begin in ``begin`` to ``end``. Raises ``OSError``."""
        store, report = self._store, RangeReport(begin, end)
        self._queues = {}
        scan = LogScan(store.log, begin, end)
        keys = KeyIndexCheck(self._index, begin) if self._index is not None else None
        code_of = self._tags.code
        record: Record | None = None
        for record in scan:
            report.records += 1
            sys_flag = record.sys_flag
            if sys_flag & SysFlag.TRANSACTION_MASK and not record.is_queued:
                report.unqueued += 1
            elif sys_flag & INNER_BATCH:
                report.inner_batches += 1
            else:
                properties, topic = record.properties, record.topic
                code = code_of(topic, properties, record.store_timestamp_ms)
                offset = record.queue_offset
                queue = self._queues.get((topic, record.queue_id))
                if queue is None:
                    queue = self._queue(topic, record.queue_id, offset)
                queue.add(record, offset, code)
                if MULTI_DISPATCH in properties:
                    for name, offset in dispatched_queues(properties):
                        queue = self._queues.get((name, 0)) or self._queue(name, 0, offset)
                        queue.add(record, offset, code)
            if keys is not None:
                keys.add(record)
        if record is not None:
            report.last_store_timestamp_ms = record.store_timestamp_ms
        report.first, report.stopped, report.why = scan.first, scan.stopped, scan.why
        report.damages = scan.damages
        if scan.first is None or scan.why:
            for position, data in store.log.data(scan.stopped, end):
                report.dirty_end = position + len(data)
        report.queues = {name: queue.close() for name, queue in self._queues.items()}
        report.keys = keys.close(max(end, scan.stopped)) if keys is not None else None
        store.log.close()
        return report

    def _queue(self, topic: str, queue_id: int, first: int) -> QueueCheck:
        files = self._store.queue(topic, queue_id) if self._files else None
        queue = self._queues[topic, queue_id] = QueueCheck(
            topic, queue_id, first, files, self._rows
        )
        return queue
