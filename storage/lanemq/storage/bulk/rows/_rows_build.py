"""Building the rows of a conversion, window by window of the log."""

import os
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import final

from lanemq.local import DIRECTORY_MODE, get_logger

from ..._errors import StoreCorrupted
from ..._workers import Workers
from ...derive._units import Derivation, DerivedUnit
from ...queues._queue_positions import QueuePositions
from ...queues._tags import TagsCodes
from ...queues.rocks._queue_rows import OFFSET_MAX, QueueRows
from ...rocks import QueueDatabase, is_present
from ...tools.checks._findings import Progress
from ...tools.reading._units import RowsUnits
from ...tools.rebuild._known_messages import KnownMessages
from ...tools.rebuild._losses import OpenUnits
from ..checks._conversion import Conversion
from ..checks._result_check import check_result
from ..checks._store_access import KnownWatermarks, known_topics, reads_rows
from ..checks._survey import Survey
from ..units._file_units import FileQueue, FileUnits, Newest
from ..units._heads import LogMap, UnitsDamaged
from ..units._log_units import Demands, LogUnits
from ..units._sorted_table import SortedTable
from ._built_tables import MakeTables, QueueBegins, TablesPlan, go_back
from ._covered import covered
from ._shared_units import SharedUnits

LOGGER = get_logger(__name__)


@final
class RowsBuild:
    """One conversion: ``run`` builds, ``check`` compares; what replaces anything comes after."""

    def __init__(
        self,
        found: Survey,
        rows: QueueRows,
        conversion: Conversion,
        temporary: Path,
        progress: Progress,
        *,
        delays_ms: tuple[int, ...],
        workers: Workers,
    ) -> None:
        self._survey = found
        self._log = found.store.log
        self._rows = rows
        self._conversion = conversion
        self._temporary = temporary
        self._progress = progress
        self._known = KnownWatermarks(found.store.root)
        self._since = QueueBegins(
            {
                name: queue.oldest.log_position if queue.oldest is not None else 0
                for name, queue in found.queues.items()
            },
            frozenset(known_topics(found.store.config)),
            found.files_end,
        )
        self._ends: dict[tuple[bytes, int], int] = {}
        """The offset of each queue's newest message, as far as the conversion is."""
        self._from_files = FileUnits(
            found.store.log,
            found.store.queue,
            [FileQueue(queue.topic, queue.queue_id, queue.end) for queue in found.queues.values()],
        )
        self._shared = SharedUnits(found, workers, temporary / f"parts-{os.getpid()}")
        self._from_proven_files: list[tuple[int, int]] = []
        self.has_changed = False
        """True if the result differs from what was there before."""
        self._delays_ms = delays_ms
        positions = QueuePositions(multi_dispatch=True, deleted=self._known.deleted)
        derivation = Derivation(positions, TagsCodes(delays_ms))
        self._known_messages = KnownMessages(found.store.queue, rows)
        self._demands = Demands(derivation, self._since, self._known_messages)
        self._from_log = LogUnits(
            self._log, self._demands, expected=self._expected, log_end=found.log_end
        )

    def _expected(self, unit: DerivedUnit) -> tuple[int, int] | None:
        newest = self._rows.max_row(unit.topic, unit.queue_id)
        if newest is None or newest.log_position >= unit.log_position:
            return None
        return newest.queue_offset + 1, newest.log_position

    def run(self, *, from_log: bool, tables: MakeTables | None = None) -> None:
        """Build the rows; ``tables`` makes those of all the log, in place of this process."""
        found, rows, conversion = self._survey, self._rows, self._conversion
        cover = self._known.found.rocksdb if self._known.found is not None else None
        may_be_late = cover is None or cover.begin > found.log_begin
        watermark = rows.watermark()
        self.has_changed = bool(rows.truncate(found.log_end))
        self._remove_deleted()
        kept = covered(found, rows, may_be_late=may_be_late)
        begin = found.log_begin if from_log else max(found.log_begin, kept.end)
        batch = rows.batch()
        for topic, queue_id in kept.stale:
            batch.delete_queue(rows.keys(topic.encode(), queue_id))
        self.has_changed |= bool(kept.stale) or watermark != found.log_end
        batch.set_watermark(begin)
        batch.write()
        rows.flush()
        conversion.log_begin, conversion.log_end = found.log_begin, found.log_end
        conversion.began_at = at = begin
        if tables is not None:
            at = self._take_in_all(tables, begin)
        while at < found.log_end:
            at = self._convert_from(at, found.log_end, from_log=from_log)
            self._told(at)
        self._continue_queues()
        conversion.queues = len(self._ends)
        self.has_changed |= bool(conversion.units)

    def check(self) -> None:
        """Compare the result with the log, and with what brokers read before.

        Reports messages that are in the log only. Raises ``ResultRefused``, and ``OSError``.
        """
        found, store = self._survey, self._survey.store
        names = set(self._rows.stored_queues()) | set(found.queues)
        with ExitStack() as stack:
            before: OpenUnits = store.queue
            old = None
            if is_present(store.consume_queue):
                with suppress(StoreCorrupted):
                    old = QueueRows(QueueDatabase(store.consume_queue, read_only=True))
                    stack.callback(old.close)
            if old is not None and reads_rows(store, old, found):
                before = partial(RowsUnits, old)
                names |= set(old.stored_queues())
            # What has become rows was compared with the log as units of files, and the rows with
            # those.
            proven = self._from_proven_files if before == store.queue else ()
            is_same = bool(proven) and self._shared.are_same(self._rows, names)
            self._conversion.unplaced, self._conversion.damaged = check_result(
                found,
                names,
                before=before,
                after=partial(RowsUnits, self._rows),
                deleted=self._known.deleted,
                demands=self._demands,
                progress=self._progress,
                proven=proven,
                is_same=is_same,
            )
        self._known_messages.close()

    def _remove_deleted(self) -> None:
        for topic, position in self._known.deleted.items():
            for bounds in list(self._rows.queues(topic)):
                if bounds.max is not None and bounds.max.log_position < position:
                    self.has_changed = True
                    self._rows.delete_queue(topic, bounds.queue_id)

    def _told(self, at: int) -> None:
        begin = self._survey.log_begin
        self._progress("converting", at - begin, self._survey.log_end - begin)

    def _convert_from(self, begin: int, until: int, *, from_log: bool) -> int:
        """Convert a window that ends before ``until``; returns the begin of the next one."""
        log, found = self._log, self._survey
        if log.start_of(begin) not in log.starts:
            return next((start for start in log.starts if start > begin), until)
        end = min(log.end_of(begin), until)
        if begin < found.files_end and not from_log:
            end = min(end, found.files_end)
            try:
                self._convert_files(begin, end)
            except UnitsDamaged as error:
                # Only its text: a reference to the error would keep the database open.
                LOGGER.warning("the log from %d to %d is read itself: %s", begin, end, str(error))
            else:
                return end
        return self._convert_log(begin, end)

    def _new_table(self) -> SortedTable:
        return SortedTable(self._temporary / "units.sst")

    def _convert_files(self, begin: int, end: int) -> None:
        if self._shared.is_worth_it:
            self._convert_shares(begin, end)
            return
        table = self._new_table()
        with closing(LogMap(self._log, self._log.start_of(begin))) as log:
            newest = self._from_files.write(
                begin, end, log, table, lambda done: self._told(begin + done)
            )
        self._conversion.units_copied += table.rows
        self._from_proven_files.append((begin, end))
        self._take_in(table, newest, end)

    def _convert_shares(self, begin: int, end: int) -> None:
        made = self._shared.make_tables(self._from_files, begin, end)
        if made.paths:
            self._rows.database.ingest(made.paths)
        self._conversion.units_copied += made.rows
        self._from_proven_files.append((begin, end))
        self._note_newest(made.written.newest, end)

    def _convert_log(self, begin: int, end: int) -> int:
        table = self._new_table()
        end, newest = self._from_log.write(begin, end, table)
        self._conversion.units_from_log += table.rows
        if self._from_log.goes_back:
            batch = self._rows.batch()
            for (topic, queue_id), offset in self._from_log.goes_back.items():
                keys = self._rows.keys(topic.encode(), queue_id)
                if offset:
                    batch.delete_units(keys, offset, OFFSET_MAX)
                else:
                    batch.delete_queue(keys)
            batch.write()
            self._rows.flush()
        self._take_in(table, newest, end)
        return end

    def _take_in_all(self, make: MakeTables, begin: int) -> int:
        """Take in the tables that others make; returns where the log ends."""
        end = self._survey.log_end
        directory = self._temporary / "tables"
        directory.mkdir(DIRECTORY_MODE)
        plan = TablesPlan(
            self._log.directory,
            begin,
            end,
            directory,
            self._delays_ms,
            dict(self._known.deleted),
            self._since,
        )
        at = begin
        for table in make(plan):
            assert table.begin == at, "the tables leave a part of the log out"
            if table.follows(self._ends):
                go_back(self._rows, table)
                if table.path is not None:
                    self._rows.database.ingest([table.path])
                self._conversion.units_from_log += table.rows
                self._note_newest(table.newest(), table.end)
            else:
                while at < table.end:
                    at = self._convert_from(at, table.end, from_log=True)
            at = table.end
            self._told(at)
        assert at == end, "the tables leave the end of the log out"
        return end

    def _take_in(self, table: SortedTable, newest: Newest, end: int) -> None:
        if table.rows:
            table.finish()
            self._rows.database.ingest([table.path])
        self._note_newest(newest, end)

    def _note_newest(self, newest: Newest, end: int) -> None:
        rows = self._rows
        batch = rows.batch()
        for (topic, queue_id), (position, offset) in newest.items():
            known = rows.max_row(topic.decode(), queue_id)
            if known is None or known.log_position < position:
                batch.put_max(topic, queue_id, position, offset)
        batch.set_watermark(end)
        batch.write()
        rows.flush()
        self._ends.update((name, offset) for name, (_, offset) in newest.items())

    def _continue_queues(self) -> None:
        """Continue queues whose messages are all gone where their files end."""
        batch = self._rows.batch()
        for queue in self._survey.queues.values():
            if queue.min < queue.end or queue.newest is None:
                continue
            newest = self._rows.max_row(queue.topic, queue.queue_id)
            if newest is None or newest.queue_offset < queue.end - 1:
                self.has_changed = True
                batch.put_max(
                    queue.topic.encode(),
                    queue.queue_id,
                    queue.newest.log_position,
                    queue.end - 1,
                )
        batch.write()
        self._rows.flush()
