"""Queue files, or the log where those are damaged, to rows in RocksDB.

It goes over the log in windows. The rows of a window become a sorted table that RocksDB takes in
as it is, and then the watermark moves behind the window. So the rows are a whole prefix at any
time, and a conversion that was killed goes on where it was: as a broker would.
"""

import logging
import shutil
import time
from pathlib import Path
from typing import Final, final

from lanemq.wire import LMQ_PREFIX

from .._clock import system_clock_ms
from .._config import DELAY_LEVELS, parse_delay_levels
from .._errors import StoreCorrupted
from .._places import Places
from .._tags import TagsCodes
from .._watermarks import RocksCover
from ..rocks import QueueDatabase, QueueRows, move_aside
from ..tools._directory import look_into
from ..tools._findings import Progress
from ._conversion import Conversion
from ._covered import covered
from ._file_units import FileQueue, FileUnits, Newest
from ._heads import LogMap, UnitsDamaged
from ._log_units import LogUnits
from ._sides import KnownWatermarks, known_topics, locked
from ._sorted_table import SortedTable
from ._survey import Survey, survey

LOGGER = logging.getLogger(__name__)
TEMPORARY: Final = "convert.tmp"
"""Where tables are made; of no use to anybody afterwards."""


def nobody(_what: str, _done: int, _of: int) -> None:
    """Tell nobody how far it is."""


def convert_to_rocksdb(
    root: Path,
    *,
    commit_log: Path | None = None,
    from_log: bool = False,
    delay_levels: str = DELAY_LEVELS,
    progress: Progress = nobody,
) -> Conversion:
    """Give a store that no broker has open a RocksDB with rows for all its messages.

    Rows that are there already stay where they are right; ``from_log`` makes all anew from the
    log. ``commit_log`` is where the log is if not inside; ``progress`` is told bytes of the log.
    Raises ``NotAStore``, ``StoreLocked``, ``StoreCorrupted`` and ``OSError``.
    """
    started_s = time.monotonic()
    with locked(root):
        store = look_into(root, commit_log=commit_log)
        conversion = Conversion("rocksdb")
        try:
            database = QueueDatabase(store.consume_queue)
        except StoreCorrupted as error:
            conversion.notes.append(str(error))
            conversion.moved_aside = move_aside(store.consume_queue, system_clock_ms())
            database = QueueDatabase(store.consume_queue)
        temporary = root / TEMPORARY
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        try:
            rows = QueueRows(database)
            found = survey(store, rows, is_clean=store.is_clean)
            _ToRocksDB(found, rows, conversion, temporary, progress, delay_levels=delay_levels).run(
                from_log=from_log
            )
        finally:
            database.close()
            shutil.rmtree(temporary, ignore_errors=True)
    conversion.seconds = time.monotonic() - started_s
    return conversion


@final
class _ToRocksDB:
    def __init__(
        self,
        found: Survey,
        rows: QueueRows,
        conversion: Conversion,
        temporary: Path,
        progress: Progress,
        *,
        delay_levels: str,
    ) -> None:
        self._survey = found
        self._log = found.store.log
        self._rows = rows
        self._conversion = conversion
        self._temporary = temporary
        self._progress = progress
        self._known = KnownWatermarks(found.store.root)
        self._topics = known_topics(found.store.config)
        self._queues: set[tuple[bytes, int]] = set()
        self._from_files = FileUnits(
            found.store,
            [FileQueue(queue.topic, queue.queue_id, queue.end) for queue in found.queues.values()],
        )
        deleted = self._known.found.deleted if self._known.found is not None else {}
        self._from_log = LogUnits(
            self._log,
            places=Places(multi_dispatch=True, deleted=deleted),
            tags=TagsCodes(parse_delay_levels(delay_levels)),
            since=self._since,
        )

    def _since(self, topic: str, queue_id: int) -> int:
        # Queue files that were written all the time do not have what was deleted.
        queue = self._survey.queues.get((topic, queue_id))
        if queue is None:
            is_known = topic in self._topics or topic.startswith(LMQ_PREFIX)
            return 0 if is_known else self._survey.files_end
        return queue.oldest.log_position if queue.oldest is not None else 0

    def run(self, *, from_log: bool) -> None:
        found, rows, conversion = self._survey, self._rows, self._conversion
        cover = self._known.found.rocksdb if self._known.found is not None else None
        may_be_late = cover is None or cover.begin > found.log_begin
        self._known.set_rocksdb(None)
        rows.truncate(found.log_end)
        self._remove_deleted()
        kept = covered(found, rows, may_be_late=may_be_late)
        begin = found.log_begin if from_log else max(found.log_begin, kept.end)
        batch = rows.batch()
        for topic, queue_id in kept.stale:
            batch.delete_queue(rows.keys(topic.encode(), queue_id))
        batch.set_watermark(begin)
        batch.write()
        rows.flush()
        conversion.log_begin, conversion.log_end = found.log_begin, found.log_end
        conversion.began_at = at = begin
        while at < found.log_end:
            at = self._convert_from(at, from_log=from_log)
            self._told(at)
        self._continue_queues()
        conversion.queues = len(self._queues)
        identity = (found.store.consume_queue / "IDENTITY").read_text().strip()
        self._known.set_rocksdb(RocksCover(identity=identity, begin=0, end=found.log_end))

    def _remove_deleted(self) -> None:
        deleted = self._known.found.deleted if self._known.found is not None else {}
        for topic, position in deleted.items():
            for bounds in list(self._rows.queues(topic)):
                if bounds.max is not None and bounds.max.log_position < position:
                    self._rows.delete_queue(topic, bounds.queue_id)

    def _told(self, at: int) -> None:
        begin = self._survey.log_begin
        self._progress("converting", at - begin, self._survey.log_end - begin)

    def _convert_from(self, begin: int, *, from_log: bool) -> int:
        """Convert a window; where the next one begins."""
        log, found = self._log, self._survey
        if log.start_of(begin) not in log.starts:
            return next((start for start in log.starts if start > begin), found.log_end)
        end = min(log.end_of(begin), found.log_end)
        if begin < found.files_end and not from_log:
            end = min(end, found.files_end)
            try:
                self._convert_files(begin, end)
            except UnitsDamaged as error:
                LOGGER.warning("the log from %d to %d is read itself: %s", begin, end, error)
            else:
                return end
        return self._convert_log(begin, end)

    def _new_table(self) -> SortedTable:
        return SortedTable(self._temporary / "units.sst")

    def _convert_files(self, begin: int, end: int) -> None:
        table = self._new_table()
        log = LogMap(self._log, self._log.start_of(begin))
        try:
            newest = self._from_files.write(
                begin, end, log, table, lambda done: self._told(begin + done)
            )
        finally:
            log.close()
        self._conversion.units_copied += table.rows
        self._take_in(table, newest, end)

    def _convert_log(self, begin: int, end: int) -> int:
        table = self._new_table()
        end, newest = self._from_log.write(begin, end, table)
        self._conversion.units_from_log += table.rows
        if self._from_log.made_anew:
            batch = self._rows.batch()
            for topic, queue_id in self._from_log.made_anew:
                batch.delete_queue(self._rows.keys(topic.encode(), queue_id))
            batch.write()
            self._rows.flush()
        self._take_in(table, newest, end)
        return end

    def _take_in(self, table: SortedTable, newest: Newest, end: int) -> None:
        rows = self._rows
        if table.rows:
            table.finish()
            rows.database.ingest([table.path])
        batch = rows.batch()
        for (topic, queue_id), (position, offset) in newest.items():
            known = rows.max_row(topic.decode(), queue_id)
            if known is None or known.log_position < position:
                batch.put_max(topic, queue_id, position, offset)
        batch.set_watermark(end)
        batch.write()
        rows.flush()
        self._queues |= newest.keys()

    def _continue_queues(self) -> None:
        """Let queues whose messages are all gone go on where their files do."""
        batch = self._rows.batch()
        for queue in self._survey.queues.values():
            if queue.min < queue.end or queue.newest is None:
                continue
            newest = self._rows.max_row(queue.topic, queue.queue_id)
            if newest is None or newest.queue_offset < queue.end - 1:
                batch.put_max(
                    queue.topic.encode(),
                    queue.queue_id,
                    queue.newest.log_position,
                    queue.end - 1,
                )
        batch.write()
        self._rows.flush()
