"""Start-up: find the end of the log, and make queues and index agree with it.

Source: RocketMQ 4.9.8, CommitLog.recoverNormally and recoverAbnormally, and the check of the
dispatch position in DefaultMessageStore.start. Deviations, all of them on the safe side:

* redo starts at the first record without a unit (``>=`` the end of the last one that has a
  unit; 5.3.3 tests ``>`` and loses one record),
* after a crash units and index entries behind the start of the redo are dropped first, so that
  no half-written one survives,
* a gap in a queue is closed with units of older records, or with units that stand for messages
  that are gone; the reference lets every later message move up into the wrong place,
* without any log file the queues are moved aside, not removed.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import final

from lanemq.wire import LMQ_PREFIX

from ._checkpoint import Checkpoint
from ._commit_log import CommitLog
from ._consume_queue import FileConsumeQueue
from ._cut import cut_log
from ._errors import MessageIllegal
from ._files import Files
from ._index import Index
from ._layouts import BLANK_SIZE
from ._queues import ConsumeQueue, QueueTable
from ._records import LogWalk, Record, check_record
from ._segments import Segments
from ._tags import TagsCodes

LOGGER = logging.getLogger(__name__)
NORMAL_FILES = 3
NORMAL_BYTES = 128 << 20
TORN_UNITS_MAX = 2


def normal_start(segments: Segments, queues: QueueTable) -> int:
    """Where the check of a log begins that was closed cleanly.

    The reference takes the third last file; here it is not more than the last 128 MiB, so that
    a start takes a second at most. A message of those is found with the help of the queues.
    """
    start = segments.starts[-NORMAL_FILES:][0]
    wanted = queues.max_log_end() - NORMAL_BYTES
    return max(start, queues.first_message_from(wanted)) if wanted > start else start


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
    """Runs once, before the store is used. Raises ``StoreCorrupted`` and ``OSError``."""

    def __init__(
        self,
        *,
        files: Files,
        root: Path,
        log: CommitLog,
        queues: QueueTable,
        index: Index | None,
        checkpoint: Checkpoint,
        tags: TagsCodes,
        check_crc: bool,
        now_ms: int,
    ) -> None:
        self._files = files
        self._root = root
        self._log = log
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._tags = tags
        self._check_crc = check_crc
        self._now_ms = now_ms
        self._redo_from = 0
        self._older: dict[tuple[str, int], dict[int, Record]] | None = None
        self.durable_to: int | None = None
        """The log may be lost from here on where the power fails; None if nothing is."""
        self.redone = 0
        """Records dispatched."""
        self.last_store_ms = 0
        """Store time of the last record that was looked at."""

    def run(self, *, clean: bool) -> None:
        """Leave log, queues and index loaded and in agreement."""
        segments = self._log.segments
        segments.load()
        self._checkpoint.load()
        if not len(segments):
            self._move_aside()
        redo_position = None
        if not clean and len(segments):
            redo_position = crash_start(segments, self._checkpoint.recovery_ms)
            segments.mark_dirty(redo_position)
            self.durable_to = redo_position
        self._queues.load(redo_position)
        if redo_position is not None:
            for queue in self._queues:
                self._drop_torn_units(queue)
        if self._index is not None:
            self._index.load(redo_position)
        if not len(segments):
            return
        start = redo_position
        if start is None:
            start = normal_start(segments, self._queues)
        self._redo(start)
        self._queues.correct_min(segments.begin)
        for queue in self._queues:
            queue.next = queue.end

    def _move_aside(self) -> None:
        for directory in (self._queues.directory, self._root / "index"):
            if self._files.entries(directory):
                target = directory.with_name(f"{directory.name}.aside-{self._now_ms}")
                LOGGER.warning("there is no commit log: %s is moved to %s", directory, target)
                self._files.move(directory, target)
        self._checkpoint.log_ms = self._checkpoint.queue_ms = self._checkpoint.index_ms = 0

    def _drop_torn_units(self, queue: FileConsumeQueue) -> None:
        """Drop a last unit that does not name a message of its queue: a crash may have torn it.

        Nothing behind a torn unit was kept, for that lies behind the start of the redo.
        """
        segments = self._log.segments
        for _ in range(TORN_UNITS_MAX):
            unit = queue.unit(queue.end - 1) if queue.end > queue.file_begin else None
            if unit is None or unit.size_bytes == BLANK_SIZE or queue.topic.startswith(LMQ_PREFIX):
                return
            if unit.log_position < segments.begin:
                return  # too old to be looked at, and to be torn
            data = segments.read(unit.log_position, unit.size_bytes)
            found = check_record(data, 0, unit.log_position, len(data), check_crc=False)
            if (
                isinstance(found, Record)
                and (found.topic, found.queue_id) == (queue.topic, queue.queue_id)
                and found.queue_offset == queue.end - 1
            ):
                return
            queue.cut(queue.end - 1)

    def _redo(self, start: int) -> None:
        segments = self._log.segments
        indexed_end = self._queues.max_log_end()
        self._redo_from = max(indexed_end, segments.begin)
        if self._redo_from < start:
            for record in self._walk_over_damage(self._redo_from, start):
                self._dispatch(record)
        walk = LogWalk(segments, start, check_crc=self._check_crc)
        for record in walk:
            self.last_store_ms = record.store_timestamp_ms
            if record.position >= self._redo_from:
                self._dispatch(record)
        if indexed_end > walk.end:
            dropped = self._queues.truncate(walk.end)
            LOGGER.warning("%d queue units lay behind the end of the log, %d", dropped, walk.end)
        if self._index is not None and self._index.newest[1] >= walk.end > 0:
            self._index.drain()
            self._index.cut(walk.end)
        cut_log(
            segments,
            walk.end,
            why=walk.why,
            files=self._files,
            save_to=self._root / "commitlog-cut",
        )
        self._log.start_at(walk.end)
        LOGGER.info("the log ends at %d; %d records were dispatched again", walk.end, self.redone)

    def _walk_over_damage(self, begin: int, end: int) -> Iterator[Record]:
        """Records of files that recovery does not check: what is broken costs a file's rest."""
        segments, position = self._log.segments, begin
        while position < end:
            walk = LogWalk(segments, position, check_crc=False, end=end)
            yield from walk
            if walk.end >= end:
                break
            position = next((start for start in segments.starts if start > walk.end), end)
            LOGGER.warning(
                "no record at %d of the log (%s): dispatch goes on at %d",
                walk.end,
                walk.why,
                position,
            )

    def _dispatch(self, record: Record) -> None:
        self.redone += 1
        if record.is_queued:
            try:
                self._put_unit(record)
            except MessageIllegal as error:
                LOGGER.warning("the record at %d has no queue: %s", record.position, error)
        if self._index is not None:
            self._index.submit(
                record.topic,
                record.position,
                record.store_timestamp_ms,
                record.sys_flag,
                record.properties,
            )

    def _put_unit(self, record: Record) -> None:
        queue = self._queues.make(record.topic, record.queue_id)
        if record.end <= queue.log_end or record.queue_offset < queue.end:
            return  # it is there
        if record.queue_offset > queue.end:
            self._close_gap(queue, record.queue_offset)
        self._append(queue, record)

    def _append(self, queue: ConsumeQueue, record: Record) -> None:
        code = self._tags.code(record.topic, record.properties, record.store_timestamp_ms)
        queue.append(record.position, record.size_bytes, code)

    def _close_gap(self, queue: ConsumeQueue, offset: int) -> None:
        if self._older is None:
            self._older = self._records_without_unit()
        older = self._older.get((queue.topic, queue.queue_id), {})
        missing, found = offset - queue.end, 0
        if queue.end == 0:
            first = min((known for known in older if known < offset), default=offset)
            queue.begin_at(first)
        while queue.end < offset:
            record = older.get(queue.end)
            if record is None:
                queue.append_blanks(1)
            else:
                found += 1
                self._append(queue, record)
        LOGGER.warning(
            "queue %d of %s lacked %d units before %d: %d were found in the log",
            queue.queue_id,
            queue.topic,
            missing,
            offset,
            found,
        )

    def _records_without_unit(self) -> dict[tuple[str, int], dict[int, Record]]:
        older: dict[tuple[str, int], dict[int, Record]] = {}
        for record in self._walk_over_damage(self._log.segments.begin, self._redo_from):
            queue = self._queues.find(record.topic, record.queue_id)
            end = queue.end if queue is not None else 0
            if record.is_queued and record.queue_offset >= end:
                key = record.topic, record.queue_id
                older.setdefault(key, {})[record.queue_offset] = record
        return older
