"""The start with RocksDB: finding what it has, and choosing how it gets the rest."""

from typing import Final, final

from lanemq.local import get_logger

from .._config import StoreConfig
from ..checkpoint._watermarks import Watermarks
from ..queues._queues import QueueTable
from ..queues.rocks._cover import RocksCover
from ..queues.rocks._writer import RocksIndex
from ._plan import RowsBy, StartPlan
from ._rocks_cover import ForeignRows, check_covered

LOGGER = get_logger(__name__)
REDO_BYTES_MAX = 64 << 20
COUNT_FROM_BYTES: Final = 256 << 20


@final
class RocksStartup:
    """The start of RocksDB; runs once. ``queues`` are the queue files, if loaded; positions are the
    log's."""

    def __init__(
        self,
        index: RocksIndex,
        queues: QueueTable | None,
        *,
        config: StoreConfig,
        plan: StartPlan,
        known: Watermarks | None,
        log_begin: int,
    ) -> None:
        self._index = index
        self._queues = queues
        self._config = config
        self._known = known
        self._plan = plan
        self._log_begin = log_begin
        self._starts_at_end = False

    @property
    def _ours(self) -> RocksCover | None:
        """The notes of our last run on this database; None for another one."""
        ours = self._known.rocksdb if self._known is not None else None
        return ours if ours is not None and ours.identity == self._index.identity else None

    def prepare(self) -> None:
        """Find out which part of the log RocksDB has. Raises ``StartRefused``."""
        index, log_begin = self._index, self._log_begin
        for topic, position in (self._known.deleted if self._known is not None else {}).items():
            self._remove_deleted(topic, position)
        index.table.load()
        ours = self._ours
        if ours is not None:
            index.begin, index.filled = ours.begin, ours.filled
            index.watermark = self._trusted_end(ours.end)
        else:
            self._look()
        if index.begin <= max(log_begin, index.filled):
            index.begin = index.filled = 0
        index.watermark = max(index.watermark, index.begin, log_begin)
        if self._plan.reads_rows:
            if self._queues is not None:
                check_covered(
                    self._queues,
                    begin=index.begin,
                    filled=index.filled,
                    allowed=self._config.allow_uncovered,
                )
        else:
            index.fills = self._config.rocksdb_backfill
            index.filled = max(index.filled, log_begin) if index.begin else 0

    def _remove_deleted(self, topic: str, log_position: int) -> None:
        rows = self._index.rows
        for bounds in list(rows.queues(topic)):
            if bounds.max is not None and bounds.max.log_position < log_position:
                rows.delete_queue(topic, bounds.queue_id)

    def _trusted_end(self, end: int) -> int:
        """Return the watermark to trust: our own, whatever another process wrote."""
        index = self._index
        written = index.rows.watermark()
        if written is None:
            return self._log_begin
        if self._plan.counts_rows and written - end > COUNT_FROM_BYTES:
            # Another broker used the store for long: counting is faster than writing all rows.
            foreign = ForeignRows(index.rows, self._queues, log_begin=self._log_begin)
            foreign.look()
            end = max(end, foreign.end)
        end = min(written, end)
        if self._plan.cuts_rows and end <= index.table.newest_position <= end + COUNT_FROM_BYTES:
            # Rows that a crash left behind the watermark; the log may have been cut and have
            # grown again since, and they would name messages that are no longer there.
            index.rows.truncate(end)
            index.table.load()
        return end

    def _look(self) -> None:
        index = self._index
        if index.rows.watermark() is None and next(index.rows.queues(), None) is None:
            index.begin = index.watermark = self._log_begin
            self._starts_at_end = (
                self._plan.may_begin_rows_late and not self._config.rocksdb_backfill
            )
            return
        foreign = ForeignRows(index.rows, self._queues, log_begin=self._log_begin)
        foreign.look()
        index.begin, index.watermark = foreign.begin, foreign.end
        LOGGER.info("RocksDB has all from %d to %d of the log", index.begin, index.watermark)

    def is_quick(self, log_end: int) -> bool:
        """Return whether double writing may bring RocksDB up to date before the store is used.

        ``log_end`` is where the log ended, at least, when the watermarks were written.
        """
        return (
            self._plan.rows_by is RowsBy.START_IF_LITTLE
            and self._ours is not None
            and not self._index.is_filling
            and log_end - self._index.watermark <= REDO_BYTES_MAX
        )

    def finish(self, log_end: int) -> None:
        """Set the end of the log; double writing follows it in the background."""
        index = self._index
        if self._starts_at_end:
            index.begin = index.watermark = log_end
        index.truncate(log_end)
        index.begin = min(index.begin, log_end)
        index.watermark = min(index.watermark, log_end)
        index.offered_end = log_end
        index.is_live = not index.is_filling and index.watermark >= log_end
