"""The start of the queue files: loads them, makes missing ones again, and lets them continue at the
offsets of the rows in RocksDB."""

from typing import TYPE_CHECKING, final

from lanemq.local import get_logger

from .._config import StoreConfig
from .._errors import StoreCorrupted
from .._store_parts import StoreParts
from ..checkpoint._watermarks import Watermarks
from ..derive._units import Derivation
from ..queues._slots import drop_torn_units, first_wrong_slot
from ._compensation import continue_files
from ._missing_units import MissingUnits
from ._plan import MissedBy, RedoFrom, StartPlan
from ._redo import FileRedo

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from ..queues.rocks._queue_rows import QueueRows
    from ..queues.rocks._writer import RocksIndex

LOGGER = get_logger(__name__)


@final
class FilesStart:
    """The start of the queue files; runs once. Raises ``StoreCorrupted``, ``StartRefused`` and
    ``OSError``."""

    def __init__(
        self,
        config: StoreConfig,
        plan: StartPlan,
        parts: StoreParts,
        *,
        derivation: Derivation,
        known: Watermarks | None,
    ) -> None:
        """Take the parts; ``known`` is what our last run left."""
        self._config = config
        self._plan = plan
        self._files = parts.files
        self._segments = parts.log.segments
        self._queues = parts.file_queues
        self._derivation = derivation
        self._known = known
        self._progress = parts.progress
        self._end = -1
        self._missing: MissingUnits | None = None
        self._asks_groups_later = False

    @property
    def _has_rocksdb(self) -> bool:
        return self._files.exists(self._queues.directory / "CURRENT")

    def load(self, drop_from: int | None) -> FileRedo:
        """Load the queues; returns their redo.

        ``drop_from``: position from which on a crash may have damaged them; None without a crash.
        """
        queues, known = self._queues, self._known
        queues.load(drop_from)
        missing = self._look_for_missing(is_clean=drop_from is None)
        if drop_from is not None:
            for queue in queues:
                drop_torn_units(queue, self._segments)
        watermark = queues.max_log_end()
        if self._plan.files_from is RedoFrom.NOTED and known is not None:
            watermark = min(watermark, known.files)
        elif self._has_rocksdb:
            watermark = min(watermark, self._before_wrong_slots())
        redo = FileRedo(
            queues,
            segments=self._segments,
            derivation=self._derivation,
            watermark=watermark,
        )
        self._mend_first(missing, redo)
        self._end = redo.watermark
        queues.correct_min(self._segments.begin)
        return redo

    def _before_wrong_slots(self) -> int:
        """Return the end of the last message before which all queues' units are in their slots.

        Where the store has a RocksDB another kind of broker may have come back from it to files.
        """
        watermark = self._queues.max_log_end()
        for queue in self._queues:
            wrong = first_wrong_slot(queue, self._segments)
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

    # Missing files

    def _look_for_missing(self, *, is_clean: bool) -> MissingUnits:
        """Look for queue files that are gone.

        Before anything is dropped that a loss of power tore, which is not a loss of files. Where
        Apache's may have used a RocksDB alone, groups may be beyond the files; but what is older
        than the newest message there has its unit. A kill leaves no digest; the bounds that the
        watermark left are true of the units before it. Of another broker's store only the groups
        tell then, once the files are brought up to the end of the log.
        """
        missing = MissingUnits(
            self._queues,
            segments=self._segments,
            derivation=self._derivation,
            files=self._files,
            config=self._config.root / "config",
        )
        is_ours = self._plan.missed_by is MissedBy.DIGEST
        missing.look_for_holes()
        if is_ours and self._known is not None:
            if is_clean:
                missing.compare(self._known.queues)
            else:
                missing.compare_bounds(self._known)
        elif self._has_rocksdb:
            missing.look_at_read_queues_only()
        elif is_clean:
            missing.ask_groups()
        self._asks_groups_later = not (is_clean or is_ours)
        return missing

    def _mend_first(self, missing: MissingUnits, redo: FileRedo) -> None:
        """Rebuild the units of queue files that are gone, and keep what goes on looking.

        Before anybody relies on the files: RocksDB takes no message whose queue has no file.
        """
        end = self._queues.max_log_end()
        if self._plan.missed_by is MissedBy.DIGEST and self._known is not None:
            end = self._known.files
        if missing.why:
            self._mend(missing, redo, end)
            redo.watermark = min(self._queues.max_log_end(), end)
        self._missing = None if self._plan.files_may_lack else missing

    @property
    def missing(self) -> MissingUnits | None:
        """The check of records that must have their units; None where files may lack some."""
        return self._missing

    def _mend(self, missing: MissingUnits, redo: FileRedo, end: int) -> None:
        allowed = self._config.allow_missing_queue_files or self._plan.files_may_lack
        missing.fix(redo, end, allowed=allowed)

    def fix(self, redo: FileRedo, log_end: int) -> None:
        """Rebuild what the walk over the log found missing."""
        if self._missing is not None:
            if self._asks_groups_later:
                self._missing.ask_groups()
            self._mend(self._missing, redo, log_end)
            self._missing.go_on()

    # The other index

    def go_on(self, rocks: "RocksIndex | None", log_end: int) -> None:
        """Continue queues where their rows end, if the plan says so, and set all for new
        messages."""
        if self._plan.reads_rows:
            return
        if self._plan.goes_on_as_rows:
            self._go_on_as_rows(rocks, log_end)
        self._queues.correct_min(self._segments.begin)
        for queue in self._queues:
            queue.next = queue.end

    def _go_on_as_rows(self, rocks: "RocksIndex | None", log_end: int) -> None:
        if rocks is not None:
            self._continue_with(rocks.rows, log_end)
            return
        if not self._has_rocksdb:
            return
        try:
            from ..queues.rocks._queue_rows import QueueRows
            from ..rocks import QueueDatabase

            database = QueueDatabase(self._queues.directory, read_only=True)
        except (ImportError, StoreCorrupted) as error:
            LOGGER.warning("queues go on where their files end: %s", error)
            return
        self._continue_with(QueueRows(database), log_end)
        database.close()

    def _continue_with(self, rows: "QueueRows", log_end: int) -> None:
        continue_files(
            self._queues,
            rows,
            files_end=self._end,
            log_end=log_end,
            deleted=self._progress.deleted,
        )
