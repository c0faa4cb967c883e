"""The start of a store: everything is loaded and made to agree before it is used.

Which index is brought up to date from where depends on who had the store before: see ``_plan``.
"""

from typing import final

from lanemq.local import get_logger

from .._config import Stage, StoreConfig
from .._store_parts import StoreParts
from ..checkpoint._checkpoint import Checkpoint
from ..checkpoint._watermarks import OpenWatermarks, Watermarks, lost_log
from ..derive._units import Derivation
from ..index._index import Index
from ..log._damage import KnownDamage
from ..queues._light_queues import SkippedLightQueues
from ..queues._queues import QueueTable
from ._authority import ALWAYS, KnownByFiles
from ._compensation import continue_rows
from ._files_start import FilesStart
from ._plan import DroppedFrom, FilesUse, LastUser, RedoFrom, RowsBy, StartPlan, plan_start
from ._recovery import Recovery, crash_start, normal_start
from ._redo import FileRedo, KeyRedo, RedoTarget
from ._rocks_startup import RocksStartup

LOGGER = get_logger(__name__)


def look_back(
    checkpoint: Checkpoint, progress: OpenWatermarks, stage: Stage
) -> tuple[StartPlan, Watermarks | None]:
    """Find out which broker used the store last; returns the plan for ``stage``, and what our last
    run left.

    A checkpoint that is newer than our watermarks was written by another broker since.
    """
    checkpoint.load()
    known = progress.load()
    if known is None:
        return plan_start(LastUser.OTHER, None, stage), None
    is_ours = checkpoint.latest_ms <= known.checkpoint_ms
    last = LastUser.OURS if is_ours else LastUser.OTHER_SINCE
    return plan_start(last, known.stage, stage), known


@final
class Startup:
    """The start of a store; runs once. Raises ``StoreCorrupted``, ``StartRefused`` and ``OSError``.

    ``plan`` and ``known`` are what ``look_back`` found.
    """

    def __init__(
        self,
        config: StoreConfig,
        plan: StartPlan,
        parts: StoreParts,
        *,
        known: Watermarks | None,
        derivation: Derivation,
        known_by_files: KnownByFiles,
        damage: KnownDamage,
    ) -> None:
        self._config = config
        self._plan = plan
        self._known = known
        self._parts = parts
        self._rocks = parts.rocks
        self._progress = parts.progress
        self._derivation = derivation
        self._known_by_files = known_by_files
        self._damage = damage
        self._crash_start: int | None = None
        self._file_redo: FileRedo | None = None
        self._files_start = FilesStart(config, plan, parts, derivation=derivation, known=known)
        self._rocks_start: RocksStartup | None = None
        self.durable_to: int | None = None
        """Position from which on a loss of power may take the log; None if it takes nothing."""
        self.last_store_ms = 0
        """Store time of the last record that was looked at."""

    def run(self, *, clean: bool) -> None:
        """Load log, queues and index, and make them agree."""
        segments = self._parts.log.segments
        segments.load()
        if not clean and len(segments):
            self._crash_start = self.durable_to = crash_start(
                segments, self._parts.checkpoint.recovery_ms(queues=not self._plan.reads_rows)
            )
            segments.mark_dirty(self._crash_start)
        elif len(segments) and self._plan.proves_log:
            gone = lost_log(self._known, segments.begin)
            if gone:
                LOGGER.warning("%s; put them back if nobody removed them on purpose", gone)
        queues = self._parts.file_queues if self._needs_files else None
        targets = self._load(queues)
        if not len(segments):
            self._finish_rocks(targets, queues, 0)
            return
        for target in targets:
            target.watermark = max(target.watermark, segments.begin)
        lights = SkippedLightQueues(is_on=self._config.multi_dispatch)
        log_end = self._recover(targets, queues, lights, clean=clean)
        self._parts.log.start_at(log_end)
        self._progress.end_at(log_end)
        if self._file_redo is not None:
            self._files_start.fix(self._file_redo, log_end)
        self._finish_rocks(targets, queues, log_end)
        self._files_start.go_on(self._rocks, log_end)
        lights.tell(self._parts.queues, self._config.root)

    @property
    def _needs_files(self) -> bool:
        """True if the queue files have to be loaded."""
        ours = self._known.rocksdb if self._known is not None else None
        is_same = (
            ours is not None and self._rocks is not None and ours.identity == self._rocks.identity
        )
        return not (self._plan.files_use is FilesUse.SKIPPED and is_same)

    def _load(self, queues: QueueTable | None) -> list[RedoTarget]:
        """Load the indexes; returns those that the walk over the log brings up to date."""
        targets: list[RedoTarget] = []
        if queues is not None:
            file_redo = self._files_start.load(self._drop_from(self._progress.files))
            if self._plan.reads_rows:
                self._progress.files = max(0, file_redo.watermark)
                self._progress.queues = queues.digest()
                self._known_by_files.until = self._progress.files
            else:
                self._known_by_files.until = ALWAYS
                targets.append(file_redo)
                self._file_redo = file_redo
        if self._rocks is not None:
            rocks = self._rocks_start = RocksStartup(
                self._rocks,
                queues,
                config=self._config,
                plan=self._plan,
                known=self._known,
                log_begin=self._parts.log.segments.begin,
            )
            rocks.prepare()
            if self._plan.rows_by is RowsBy.START or rocks.is_quick(self._progress.files):
                targets.append(self._rocks)
        if self._parts.index is not None:
            targets.append(self._load_index(self._parts.index))
        return targets

    def _recover(
        self,
        targets: list[RedoTarget],
        queues: QueueTable | None,
        lights: SkippedLightQueues,
        *,
        clean: bool,
    ) -> int:
        """Walk over the log; returns where it ends."""
        segments = self._parts.log.segments
        recovery = Recovery(
            segments,
            targets,
            self._derivation,
            files=self._parts.files,
            save_to=self._config.root / "commitlog-cut",
            check_crc=self._config.check_crc_on_recovery,
            proven_end=self._proven_end(queues, clean=clean),
            damage=self._damage,
            missing=self._files_start.missing,
            lights=lights,
        )
        start = self._crash_start
        if start is None:
            start = normal_start(segments, self._parts.queues)
        log_end = recovery.run(start)
        if self._config.check_crc_on_recovery:
            self._damage.unchecked_end = start
        self.last_store_ms = recovery.last_store_ms
        return log_end

    def _proven_end(self, queues: QueueTable | None, *, clean: bool) -> int:
        """Return the position up to which the log was whole once, whatever is there now.

        After a clean stop all units are of whole records; after a crash only a watermark proves
        anything, which becomes durable after the log.
        """
        if not clean:
            known = self._known
            if known is None or not self._plan.proves_log:
                return 0
            in_rocks = known.rocksdb.end if known.rocksdb is not None else 0
            return max(known.files, known.index, in_rocks)
        ends = [queues.max_log_end() if queues is not None else 0]
        if self._rocks is not None:
            ends.append(self._rocks.table.max_log_end())
        return max(ends)

    def _drop_from(self, watermark: int) -> int | None:
        """Return the position from which on a crash may have damaged an index; None without a
        crash."""
        if self._crash_start is None:
            return None
        if self._plan.dropped_from is DroppedFrom.REDO:
            return self._crash_start
        is_noted = self._plan.dropped_from is DroppedFrom.NOTED
        return watermark if is_noted else max(self._crash_start, watermark)

    def _finish_rocks(
        self, targets: list[RedoTarget], queues: QueueTable | None, log_end: int
    ) -> None:
        if self._rocks is None or self._rocks_start is None:
            return
        if self._rocks in targets:
            self._rocks.go_live(log_end)
        else:
            self._rocks_start.finish(log_end)
        if not self._plan.reads_rows:
            return
        if queues is not None:
            continue_rows(queues, self._rocks.rows)
            self._known_by_files.forget()
            queues.forget()
        if queues is not None or self._rocks.writer.has_written:
            self._rocks.table.load()

    def _load_index(self, index: Index) -> KeyRedo:
        index.load(self._drop_from(self._progress.index))
        if self._plan.keys_from is RedoFrom.NOTED:
            watermark = self._progress.index
            if index.newest[1] >= watermark > 0:
                index.cut(watermark)  # of a crash that was before the index was switched off
        elif self._crash_start is not None:
            watermark = self._crash_start
        elif self._plan.reads_rows and self._rocks is not None:
            watermark = self._rocks.watermark
        else:
            watermark = self._parts.file_queues.max_log_end()
        return KeyRedo(index, max(watermark, self._progress.index))
