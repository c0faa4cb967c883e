"""What is done before a store can be used: everything is loaded and made to agree.

Which index is brought up to date from where depends on who had the store before. After a run of
our own each continues at its watermark. Another process leaves its indexes as its kind does, and
the watermarks are older than that; the decision record on watermarks says what can then be trusted.
"""

import logging
from pathlib import Path
from typing import final

from ._checkpoint import Checkpoint
from ._commit_log import CommitLog
from ._config import Stage
from ._files import Files
from ._index import Index
from ._places import Places
from ._queues import QueueTable
from ._recovery import Recovery, crash_start, normal_start
from ._redo import FileRedo, KeyRedo, RedoTarget
from ._slots import drop_torn_units, first_wrong_slot
from ._tags import TagsCodes
from ._watermarks import Progress, Watermarks

LOGGER = logging.getLogger(__name__)


@final
class Startup:
    """Runs once. Raises ``StoreCorrupted`` and ``OSError``."""

    def __init__(
        self,
        *,
        files: Files,
        root: Path,
        stage: Stage,
        log: CommitLog,
        queues: QueueTable,
        index: Index | None,
        checkpoint: Checkpoint,
        progress: Progress,
        tags: TagsCodes,
        places: Places,
        check_crc: bool,
    ) -> None:
        self._files = files
        self._root = root
        self._stage = stage
        self._log = log
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._progress = progress
        self._tags = tags
        self._places = places
        self._check_crc = check_crc
        self._known: Watermarks | None = None
        self.durable_to: int | None = None
        """The log may be lost from here on where the power fails; None if nothing is."""
        self.last_store_ms = 0
        """Store time of the last record that was looked at."""

    @property
    def _is_foreign(self) -> bool:
        """Whether another process may have written to the store since we did."""
        return self._known is None or self._checkpoint.log_ms > self._known.checkpoint_ms

    def run(self, *, clean: bool) -> None:
        """Leave log, queues and index loaded and in agreement."""
        segments = self._log.segments
        segments.load()
        self._checkpoint.load()
        self._known = self._progress.load()
        start = None
        if not clean and len(segments):
            start = crash_start(segments, self._checkpoint.recovery_ms)
            segments.mark_dirty(start)
            self.durable_to = start
        targets: list[RedoTarget] = [self._load_files(start)]
        if self._index is not None:
            targets.append(self._load_index(self._index, start))
        if not len(segments):
            return
        for target in targets:
            target.watermark = max(target.watermark, segments.begin)
        recovery = Recovery(
            segments,
            targets,
            files=self._files,
            save_to=self._root / "commitlog-cut",
            check_crc=self._check_crc,
        )
        if start is None:
            start = normal_start(segments, self._queues)
        self._log.start_at(recovery.run(start))
        self.last_store_ms = recovery.last_store_ms
        self._queues.correct_min(segments.begin)
        for queue in self._queues:
            queue.next = queue.end

    # Watermarks

    def _drop_from(self, crash_start: int | None, watermark: int) -> int | None:
        """From where on a crash may have left half of what an index has; None without a crash."""
        if crash_start is None:
            return None
        if self._known is None:
            return crash_start
        # What another process made of our store is durable up to where its kind begins a redo.
        return max(crash_start, watermark) if self._is_foreign else watermark

    def _load_files(self, crash_start: int | None) -> FileRedo:
        queues, segments, known = self._queues, self._log.segments, self._known
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
                LOGGER.warning(
                    "queue %d of %s has units in wrong slots, from %d on",
                    queue.queue_id,
                    queue.topic,
                    wrong,
                )
                before = queue.unit(wrong - 1) if wrong > queue.file_begin else None
                end = before.log_position + before.size_bytes if before is not None else 0
                watermark = min(watermark, end)
        return watermark

    def _load_index(self, index: Index, crash_start: int | None) -> KeyRedo:
        index.load(self._drop_from(crash_start, self._progress.index))
        if self._known is not None and not self._is_foreign:
            watermark = self._progress.index
        elif crash_start is not None:
            watermark = crash_start
        else:
            watermark = self._queues.max_log_end()
        return KeyRedo(index, max(watermark, self._progress.index))
