"""What is done before a store can be used: everything is loaded and made to agree.

Which index is brought up to date from where depends on who had the store before. After a run of
our own each continues at its watermark. Another process leaves its indexes as its kind does, and
the watermarks are older than that; ADR 007 says what can be trusted.
"""

import logging
from typing import TYPE_CHECKING, final

from ._authority import ALWAYS, KnownByFiles
from ._checkpoint import Checkpoint
from ._commit_log import CommitLog
from ._compensation import continue_files, continue_rows
from ._config import Stage, StoreConfig
from ._errors import StoreCorrupted
from ._files import Files
from ._index import Index
from ._places import Places
from ._queues import QueueTable
from ._recovery import Landmarks, Recovery, crash_start, normal_start
from ._redo import FileRedo, KeyRedo, RedoTarget
from ._rocks_startup import RocksStartup
from ._slots import drop_torn_units, first_wrong_slot
from ._tags import TagsCodes
from ._watermarks import Progress, Watermarks

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from ._rocks_index import RocksIndex
    from .rocks import QueueRows

LOGGER = logging.getLogger(__name__)


@final
class Startup:
    """Runs once. Raises ``StoreCorrupted``, ``StartRefused`` and ``OSError``.

    ``rocks`` is RocksDB where the settings ask for it.
    """

    def __init__(
        self,
        config: StoreConfig,
        *,
        files: Files,
        log: CommitLog,
        queues: QueueTable,
        rocks: "RocksIndex | None",
        index: Index | None,
        checkpoint: Checkpoint,
        progress: Progress,
        tags: TagsCodes,
        places: Places,
        known_by_files: KnownByFiles,
    ) -> None:
        self._config = config
        self._stage = config.stage
        self._files = files
        self._log = log
        self._queues = queues
        self._rocks = rocks
        self._index = index
        self._checkpoint = checkpoint
        self._progress = progress
        self._tags = tags
        self._places = places
        self._known_by_files = known_by_files
        self._known: Watermarks | None = None
        self._files_end = -1
        self.durable_to: int | None = None
        """The log may be lost from here on where the power fails; None if nothing is."""
        self.last_store_ms = 0
        """Store time of the last record that was looked at."""

    def run(self, *, clean: bool) -> None:
        """Leave log, queues and index loaded and in agreement."""
        segments = self._log.segments
        segments.load()
        self._checkpoint.load()
        self._known = self._progress.load()
        start = None
        if not clean and len(segments):
            start = crash_start(
                segments, self._checkpoint.recovery_ms(queues=self._stage is not Stage.ROCKSDB)
            )
            segments.mark_dirty(start)
            self.durable_to = start
        queues = self._queues if self._needs_files else None
        targets: list[RedoTarget] = []
        if queues is not None:
            file_redo = self._load_files(queues, start)
            self._files_end = file_redo.watermark
            queues.correct_min(segments.begin)
            if self._stage is Stage.ROCKSDB:
                self._progress.files = max(0, file_redo.watermark)
                self._known_by_files.until = self._progress.files
            else:
                self._known_by_files.until = ALWAYS
                targets.append(file_redo)
        rocks = self._prepare_rocks(queues)
        if self._rocks is not None and (
            self._stage is Stage.ROCKSDB
            or (rocks is not None and rocks.is_quick(self._progress.files))
        ):
            targets.append(self._rocks)
        if self._index is not None:
            targets.append(self._load_index(self._index, start))
        if not len(segments):
            self._finish_rocks(rocks, targets, queues, 0)
            return
        for target in targets:
            target.watermark = max(target.watermark, segments.begin)
        recovery = Recovery(
            segments,
            targets,
            files=self._files,
            save_to=self._config.root / "commitlog-cut",
            check_crc=self._config.check_crc_on_recovery,
        )
        landmarks: Landmarks = self._queues
        if self._stage is Stage.ROCKSDB and self._rocks is not None:
            landmarks = self._rocks.table
        if start is None:
            start = normal_start(segments, landmarks)
        log_end = recovery.run(start)
        self._log.start_at(log_end)
        self._progress.end_at(log_end)
        self.last_store_ms = recovery.last_store_ms
        self._finish_rocks(rocks, targets, queues, log_end)
        if self._stage is not Stage.ROCKSDB:
            if self._came_from_rocks:
                self._continue_files(log_end)
            self._queues.correct_min(segments.begin)
            for queue in self._queues:
                queue.next = queue.end

    # Who was here before

    @property
    def _is_foreign(self) -> bool:
        """Whether another process may have written to the store since we did."""
        return self._known is None or self._checkpoint.log_ms > self._known.checkpoint_ms

    @property
    def _came_from_rocks(self) -> bool:
        """Whether RocksDB may know more than the queue files."""
        return self._is_foreign or (self._known is not None and self._known.stage == Stage.ROCKSDB)

    @property
    def _needs_files(self) -> bool:
        """Whether the queue files have to be looked at."""
        if self._stage is not Stage.ROCKSDB or self._known is None or self._is_foreign:
            return True
        ours = self._known.rocksdb
        return (
            self._known.stage != Stage.ROCKSDB
            or ours is None
            or self._rocks is None
            or ours.identity != self._rocks.identity
        )

    # Queue files

    def _drop_from(self, crash_start: int | None, watermark: int) -> int | None:
        """From where on a crash may have left half of what an index has; None without a crash."""
        if crash_start is None:
            return None
        if self._known is None:
            return crash_start
        # What another process made of our store is durable up to where its kind begins a redo.
        return max(crash_start, watermark) if self._is_foreign else watermark

    def _load_files(self, queues: QueueTable, crash_start: int | None) -> FileRedo:
        segments, known = self._log.segments, self._known
        drop_from = self._drop_from(crash_start, self._progress.files)
        queues.load(drop_from)
        if drop_from is not None:
            for queue in queues:
                drop_torn_units(queue, segments)
        watermark = queues.max_log_end()
        if known is not None and (not self._is_foreign or known.stage == Stage.ROCKSDB):
            watermark = min(watermark, known.files)
        elif self._files.exists(queues.directory / "CURRENT"):
            watermark = min(watermark, self._before_wrong_slots())
        return FileRedo(
            queues, segments=segments, tags=self._tags, places=self._places, watermark=watermark
        )

    def _before_wrong_slots(self) -> int:
        """The end of the last message before which all queues' units are in their slots.

        Where the store has a RocksDB another kind of broker may have come back from it to files.
        """
        watermark = self._queues.max_log_end()
        for queue in self._queues:
            wrong = first_wrong_slot(queue, self._log.segments)
            if wrong is not None:
                before = queue.unit(wrong - 1) if wrong > queue.file_begin else None
                end = before.log_position + before.size_bytes if before is not None else 0
                watermark = min(watermark, end)
                LOGGER.warning(
                    "queue %d of %s has units in wrong slots from %d on",
                    queue.queue_id,
                    queue.topic,
                    wrong,
                )
        return watermark

    def _continue_files(self, log_end: int) -> None:
        queues = self._queues
        if self._rocks is not None:
            self._continue_with(self._rocks.rows, log_end)
            return
        if not self._files.exists(queues.directory / "CURRENT"):
            return
        try:
            from .rocks import QueueDatabase, QueueRows

            database = QueueDatabase(queues.directory, read_only=True)
        except (ImportError, StoreCorrupted) as error:
            LOGGER.warning("queues go on where their files end: %s", error)
            return
        self._continue_with(QueueRows(database), log_end)
        database.close()

    def _continue_with(self, rows: "QueueRows", log_end: int) -> None:
        continue_files(
            self._queues,
            rows,
            files_end=self._files_end,
            log_end=log_end,
            deleted=self._progress.deleted,
        )

    # RocksDB

    def _prepare_rocks(self, queues: QueueTable | None) -> RocksStartup | None:
        if self._rocks is None:
            return None
        rocks = RocksStartup(
            self._rocks,
            queues,
            config=self._config,
            known=self._known,
            is_foreign=self._is_foreign,
            log_begin=self._log.segments.begin,
        )
        rocks.prepare()
        return rocks

    def _finish_rocks(
        self,
        rocks: RocksStartup | None,
        targets: list[RedoTarget],
        queues: QueueTable | None,
        log_end: int,
    ) -> None:
        if self._rocks is None or rocks is None:
            return
        if self._rocks in targets:
            self._rocks.go_live(log_end)
        else:
            rocks.finish(log_end)
        if self._stage is not Stage.ROCKSDB:
            return
        if queues is not None:
            continue_rows(queues, self._rocks.rows)
            self._known_by_files.forget()
            queues.forget()
        if queues is not None or self._rocks.writer.has_written:
            self._rocks.table.load()

    # The key index

    def _load_index(self, index: Index, crash_start: int | None) -> KeyRedo:
        index.load(self._drop_from(crash_start, self._progress.index))
        if self._known is not None and not self._is_foreign:
            watermark = self._progress.index
            if index.newest[1] >= watermark > 0:
                index.cut(watermark)  # of a crash that was before the index was switched off
        elif crash_start is not None:
            watermark = crash_start
        elif self._stage is Stage.ROCKSDB and self._rocks is not None:
            watermark = self._rocks.watermark
        else:
            watermark = self._queues.max_log_end()
        return KeyRedo(index, max(watermark, self._progress.index))
