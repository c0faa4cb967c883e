"""Building the queue files of a conversion from rows, and from the log where rows are missing."""

from collections.abc import Iterator
from functools import partial
from typing import Final, final

from lanemq.local import get_logger
from lanemq.wire import LMQ_PREFIX

from ..._errors import MessageIllegal, StoreCorrupted
from ...derive._units import Derivation
from ...log._records import Record
from ...queues._queue_positions import QueuePositions
from ...queues._queues import check_names
from ...queues._tags import TagsCodes
from ...queues.files._consume_queue import FileConsumeQueue
from ...queues.rocks._queue_rows import QueueRows
from ...queues.rocks._rocks_units import RocksUnits
from ...tools.checks._findings import Progress
from ...tools.reading._scan import LogScan
from ...tools.reading._units import RowsUnits
from ...tools.rebuild._known_messages import KnownMessages
from ...tools.rebuild._losses import OpenUnits
from ..checks._conversion import Conversion
from ..checks._result_check import check_result
from ..checks._store_access import KnownWatermarks, known_topics, reads_rows
from ..checks._survey import Survey
from ..units._log_units import NEVER, Demands
from ._file_merge import FileMerge, Merged, RowsStale
from ._file_redo import LogToFiles, queue_at
from ._shadow import ResultFiles, ShadowFiles

LOGGER = get_logger(__name__)
TOLD_RECORDS: Final = 8192


@final
class FilesBuild:
    """One conversion: ``run`` builds, ``check`` compares; what replaces anything comes after."""

    def __init__(
        self,
        found: Survey,
        rows: QueueRows | None,
        files: ShadowFiles,
        known: KnownWatermarks,
        conversion: Conversion,
        progress: Progress,
        *,
        delays_ms: tuple[int, ...],
    ) -> None:
        self._survey = found
        self._rows = rows
        self._files = files
        self._conversion = conversion
        self._progress = progress
        self._file_bytes = found.store.queue_file_bytes
        self._topics = known_topics(found.store.config)
        self._queues: set[tuple[str, int]] = set()
        self._trimmed: set[tuple[str, int]] = set()
        self._gaps = False
        self._done = self._total = 0
        self._oldest: dict[tuple[str, int], int] = {}
        self._trusted = found.log_begin
        cover = known.found.rocksdb if known.found is not None else None
        self._may_be_late = cover is None or cover.begin > found.log_begin
        """True if messages older than a queue's first row may lack rows."""
        self._deleted = known.deleted
        positions = QueuePositions(multi_dispatch=True, deleted=known.deleted)
        derivation = Derivation(positions, TagsCodes(delays_ms))
        self._known_messages = KnownMessages(found.store.queue, rows)
        self._demands = Demands(derivation, self._since, self._known_messages)
        self._redo = LogToFiles(self._open_queue, self._demands, log=found.store.log)

    def _since(self, topic: str, queue_id: int) -> int:
        # An index that was written all the time does not have what was deleted.
        try:
            check_names(topic, queue_id)
        except MessageIllegal as error:
            LOGGER.warning("some messages have no queue: %s", error)
            return NEVER
        oldest = self._oldest.get((topic, queue_id))
        if oldest is not None:
            return oldest
        if (topic, queue_id) in self._survey.queues:
            return 0
        is_known = topic in self._topics or topic.startswith(LMQ_PREFIX)
        return 0 if is_known else max(self._trusted, self._survey.files_end)

    def run(self, *, from_log: bool) -> None:
        found, conversion = self._survey, self._conversion
        conversion.log_begin, conversion.log_end = found.log_begin, found.log_end
        for queue in found.queues.values():
            if queue.oldest is not None:
                self._oldest[queue.topic, queue.queue_id] = queue.oldest.log_position
            is_sound = queue.min == queue.end or (queue.oldest and queue.newest)
            self._gaps |= not is_sound
            newest = queue.newest.log_position if queue.newest is not None else NEVER
            if newest < self._deleted.get(queue.topic, 0):
                self._empty(queue.topic, queue.queue_id, 0)
            elif from_log:
                self._empty(queue.topic, queue.queue_id, queue.min)
        if self._rows is not None:
            self._trusted = min(self._rows.watermark() or 0, found.log_end)
            self._take_rows(self._rows)
        begin = found.log_begin if self._gaps else max(self._trusted, found.log_begin)
        conversion.began_at = begin
        self._redo.run(self._records(begin))
        conversion.units_from_log = self._redo.written
        conversion.blank_units += self._redo.blanks
        conversion.queues = len(self._queues | self._redo.queues)

    def check(self, rows: QueueRows | None) -> None:
        """Compare the result with the log, and with what brokers read before.

        Reports messages that are in the log only. Raises ``ResultRefused``, and ``OSError``.
        """
        found, store = self._survey, self._survey.store
        result = ResultFiles(self._files, self._file_bytes)
        before: OpenUnits = store.queue
        if rows is not None and reads_rows(store, rows, found):
            before = partial(RowsUnits, rows)
        names = set(result.names()) | set(found.queues)
        if rows is not None:
            names |= set(rows.stored_queues())
        self._conversion.unplaced, self._conversion.damaged = check_result(
            found,
            names,
            before=before,
            after=result.queue,
            deleted=self._deleted,
            demands=self._demands,
            progress=self._progress,
        )
        self._known_messages.close()

    def _open_queue(self, topic: str, queue_id: int) -> FileConsumeQueue:
        queue = queue_at(self._files, topic, queue_id, self._file_bytes)
        try:
            queue.recover(None)
        except StoreCorrupted as error:
            self._files.begin_anew(self._files.directory / topic / str(queue_id))
            self._conversion.notes.append(f"{error}; the queue's files were made again")
            queue = queue_at(self._files, topic, queue_id, self._file_bytes)
        if (topic, queue_id) not in self._trimmed:  # later units are of this conversion
            self._trimmed.add((topic, queue_id))
            known = self._survey.queues.get((topic, queue_id))
            if known is not None and known.end < queue.end and not self._survey.is_clean:
                queue.cut(known.end)  # units behind may be torn
            queue.truncate(self._survey.log_end)
        return queue

    def _empty(self, topic: str, queue_id: int, offset: int) -> None:
        queue = self._open_queue(topic, queue_id)
        if offset == 0:
            queue.clear()
        elif offset < queue.end:
            queue.cut(offset)
        queue.close()

    def _take_rows(self, rows: QueueRows) -> None:
        bounds = [
            found
            for found in rows.queues()
            if found.max is not None and found.max.log_position >= self._deleted.get(found.topic, 0)
        ]
        self._total = sum(found.max.queue_offset + 1 for found in bounds if found.max is not None)
        for queue in bounds:
            self._take_queue(rows, queue.topic, queue.queue_id)
            self._done += queue.max.queue_offset + 1 if queue.max is not None else 0
            self._progress("converting", self._done, self._total)

    def _take_queue(self, rows: QueueRows, topic: str, queue_id: int) -> None:
        view = RocksUnits(rows, topic, queue_id, log_begin=self._survey.log_begin)
        begin, end = view.min, self._rows_end(rows, topic, queue_id, view)
        first = rows.unit(topic, queue_id, begin) if begin < end else None
        if first is None:
            self._continue(topic, queue_id, end)
            return
        known = self._oldest.get((topic, queue_id))
        if known is not None:
            self._oldest[topic, queue_id] = min(first.log_position, known)
        elif (topic, queue_id) not in self._survey.queues and not (self._may_be_late and begin):
            self._oldest[topic, queue_id] = first.log_position
        else:
            self._oldest[topic, queue_id] = 0  # neither side shows the older messages
        queue = self._open_queue(topic, queue_id)
        if self._may_be_late and 0 < begin < (queue.file_begin if queue.end else begin + 1):
            # Older messages that the rows lack need slots before them: all comes from the log.
            queue.clear()
            queue.close()
            self._gaps = True
            self._oldest[topic, queue_id] = 0
            return
        merge = FileMerge(
            queue,
            rows,
            begin,
            end,
            log=self._survey.store.log,
            progress=lambda at: self._progress("converting", self._done + at, self._total),
        )
        try:
            merged = merge.run()
        except RowsStale:
            self._conversion.notes.append(
                f"queue {queue_id} of {topic} was deleted and made again: its rows in RocksDB are"
                " of older messages, and `convert_to_rocksdb` removes them"
            )
            merged, self._gaps = Merged(), True
            self._oldest[topic, queue_id] = known if known is not None else 0
        finally:
            queue.close()
        self._conversion.units_copied += merged.written
        self._conversion.blank_units += merged.blanks
        self._gaps |= bool(merged.gaps)
        if merged.written:
            self._queues.add((topic, queue_id))

    def _rows_end(self, rows: QueueRows, topic: str, queue_id: int, view: RocksUnits) -> int:
        """Return the offset behind the last row whose message the log has whole."""
        end = view.end
        while end > view.min:
            offset = rows.previous_unit(topic.encode(), queue_id, end - 1)
            row = rows.unit(topic, queue_id, offset) if offset is not None else None
            self._gaps |= offset != end - 1
            if offset is None or row is None:
                return view.min
            if row.log_position + row.size_bytes <= self._survey.log_end:
                return offset + 1
            end = offset
        return end

    def _continue(self, topic: str, queue_id: int, end: int) -> None:
        """Continue a queue whose messages are all gone where its rows end."""
        queue = self._open_queue(topic, queue_id)
        queue.correct_min(self._survey.log_begin)
        if queue.min >= queue.end and queue.end < end:
            queue.restart_at(end)
            if queue.end < end:
                queue.append_blanks(end - queue.end)
            queue.write_out()
        queue.close()

    def _records(self, begin: int) -> Iterator[Record]:
        found = self._survey
        total = found.log_end - begin
        records = LogScan(found.store.log, begin, found.log_end, check_crc=False)
        for number, record in enumerate(records if total > 0 else ()):
            yield record
            if number % TOLD_RECORDS == 0:
                self._progress("reading the log", record.position - begin, total)
