"""Rows in RocksDB, or the log where those are damaged, to queue files.

Each queue's files get what the rows have, and what is behind the rows comes from the log. Slots
stay where they are: what is missing in both is blank. What is already right is only compared, so
that a conversion that was killed is run again and goes on.
"""

import logging
import os
import time
from pathlib import Path
from typing import Final, final

from lanemq.wire import LMQ_PREFIX

from .._clock import system_clock_ms
from .._config import DELAY_LEVELS, parse_delay_levels
from .._consume_queue import FileConsumeQueue
from .._errors import MessageIllegal, StoreCorrupted
from .._places import Places
from .._queues import check_names
from .._tags import TagsCodes
from ..rocks import QueueDatabase, QueueRows, RowsOfQueue, is_present
from ..tools._directory import look_into
from ..tools._findings import Progress
from ..tools._scan import LogScan
from ._conversion import Conversion
from ._file_merge import FileMerge, Merged, RowsStale
from ._file_redo import LogToFiles, queue_at
from ._log_units import NEVER
from ._marker import CrashMarker
from ._sides import KnownWatermarks, known_topics, locked
from ._survey import Survey, survey
from ._to_rocksdb import nobody

LOGGER = logging.getLogger(__name__)
TOLD_RECORDS: Final = 8192


def convert_to_files(
    root: Path,
    *,
    commit_log: Path | None = None,
    from_log: bool = False,
    delay_levels: str = DELAY_LEVELS,
    queue_file_bytes: int | None = None,
    progress: Progress = nobody,
) -> Conversion:
    """Give a store that no broker has open queue files with units for all its messages.

    Units that are there already stay where they are right; ``from_log`` makes all anew from the
    log. ``commit_log`` is where the log is if not inside; ``queue_file_bytes`` is the size of
    queue files where there are none yet (mappedFileSizeConsumeQueue). ``progress`` is told units,
    then bytes of the log. RocksDB is only read.
    Raises ``NotAStore``, ``StoreLocked``, ``StoreCorrupted`` and ``OSError``.
    """
    started_s = time.monotonic()
    with locked(root):
        store = look_into(root, commit_log=commit_log)
        conversion = Conversion("files")
        rows = None
        if is_present(store.consume_queue) and not from_log:
            try:
                rows = QueueRows(QueueDatabase(store.consume_queue, read_only=True))
            except StoreCorrupted as error:
                conversion.notes.append(f"the log is read instead of RocksDB: {error}")
        try:
            marker = CrashMarker(root)
            found = survey(store, rows, is_clean=marker.was_clean)
            known = KnownWatermarks(root)
            marker.begin()
            known.set_files(0)
            _ToFiles(
                found,
                rows,
                known,
                conversion,
                progress,
                delay_levels=delay_levels,
                queue_file_bytes=queue_file_bytes or store.queue_file_bytes,
            ).run(from_log=from_log)
            os.sync()
            known.set_files(found.log_end)
            marker.end()
        finally:
            if rows is not None:
                rows.close()
    conversion.seconds = time.monotonic() - started_s
    return conversion


@final
class _ToFiles:
    def __init__(
        self,
        found: Survey,
        rows: QueueRows | None,
        known: KnownWatermarks,
        conversion: Conversion,
        progress: Progress,
        *,
        delay_levels: str,
        queue_file_bytes: int,
    ) -> None:
        self._survey = found
        self._rows = rows
        self._conversion = conversion
        self._progress = progress
        self._file_bytes = queue_file_bytes
        self._topics = known_topics(found.store.config)
        self._queues: set[tuple[str, int]] = set()
        self._gaps = False
        self._done = self._total = 0
        self._oldest: dict[tuple[str, int], int] = {}
        self._trusted = found.log_begin
        cover = known.found.rocksdb if known.found is not None else None
        self._may_be_late = cover is None or cover.begin > found.log_begin
        """Whether rows may lack what is older than the first of a queue."""
        self._deleted = deleted = known.found.deleted if known.found is not None else {}
        self._redo = LogToFiles(
            self._open_queue,
            places=Places(multi_dispatch=True, deleted=deleted),
            tags=TagsCodes(parse_delay_levels(delay_levels)),
            since=self._since,
            log=found.store.log,
        )

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
        self._take_log(begin)
        self._redo.close()
        conversion.units_from_log = self._redo.written
        conversion.blank_units += self._redo.blanks
        conversion.queues = len(self._queues | self._redo.queues)

    def _open_queue(self, topic: str, queue_id: int) -> FileConsumeQueue:
        consume_queue = self._survey.store.consume_queue
        queue = queue_at(consume_queue, topic, queue_id, self._file_bytes)
        try:
            queue.recover(None)
        except StoreCorrupted as error:
            directory = consume_queue / topic / str(queue_id)
            target = self._survey.store.root / f"consumequeue.bad-{system_clock_ms()}"
            (target / topic).mkdir(parents=True, exist_ok=True)
            directory.rename(target / topic / str(queue_id))
            self._conversion.notes.append(f"{error}; the queue's files are in {target} now")
            queue = queue_at(consume_queue, topic, queue_id, self._file_bytes)
        known = self._survey.queues.get((topic, queue_id))
        if known is not None and known.end < queue.end and not self._survey.is_clean:
            queue.cut(known.end)  # what is behind may be torn
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
        view = RowsOfQueue(rows, topic, queue_id, log_begin=self._survey.log_begin)
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
            self._oldest[topic, queue_id] = 0  # neither tells what is older
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
                " of older messages, and `lanemq store convert --to rocksdb` removes them"
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

    def _rows_end(self, rows: QueueRows, topic: str, queue_id: int, view: RowsOfQueue) -> int:
        """Behind the last row of a message that the log has whole."""
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
        """Let a queue whose messages are all gone go on where its rows do."""
        queue = self._open_queue(topic, queue_id)
        queue.correct_min(self._survey.log_begin)
        if queue.min >= queue.end and queue.end < end:
            queue.restart_at(end)
            if queue.end < end:
                queue.append_blanks(end - queue.end)
            queue.write_out()
        queue.close()

    def _take_log(self, begin: int) -> None:
        found = self._survey
        total = found.log_end - begin
        records = LogScan(found.store.log, begin, found.log_end, check_crc=False)
        for number, record in enumerate(records if total > 0 else ()):
            self._redo.take(record)
            if number % TOLD_RECORDS == 0:
                self._progress("reading the log", record.position - begin, total)
