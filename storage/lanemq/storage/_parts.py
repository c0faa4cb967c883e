"""What a store is made of: each part, and which others it works with."""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, final

from ._appender import Appender
from ._authority import KnownByFiles
from ._checkpoint import Checkpoint
from ._commit_log import CommitLog
from ._config import Stage, StoreConfig, parse_delay_levels
from ._files import Files
from ._flusher import Flusher
from ._housekeeping import Housekeeping
from ._index import Index
from ._places import Places
from ._queues import Queues, QueueTable
from ._reader import Reader
from ._retention import Retention
from ._rocks_follower import RocksFollower
from ._segments import Segments
from ._startup import Startup
from ._statistics import Counters
from ._tables import ConfigTables
from ._tags import TagsCodes
from ._watermarks import Progress, WatermarkFile

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from ._rocks_index import RocksIndex
    from .rocks import QueueRows

LOGGER = logging.getLogger(__name__)


@final
class Parts:
    """The parts of one store, joined; ``load`` makes them agree with what is on the disk."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        files: Files,
        clock_ms: Callable[[], int],
        rows: "QueueRows | None",
    ) -> None:
        self.config = config
        self.files = files
        root = config.root
        self.counters = Counters()
        self._checkpoint = Checkpoint(files, root / "checkpoint")
        self.log = CommitLog(
            Segments(files, config.commit_log_path, config.commit_log_file_bytes),
            tail_cache_bytes=config.tail_cache_bytes,
        )
        self.file_queues = QueueTable(
            files, root / "consumequeue", file_bytes=config.consume_queue_file_bytes
        )
        self.index = self._new_index(clock_ms) if config.index_enabled else None
        self.progress = Progress(WatermarkFile(files, root), config.stage)
        self._tags = TagsCodes(parse_delay_levels(config.delay_levels))
        self._places = Places(multi_dispatch=config.multi_dispatch, deleted=self.progress.deleted)
        self._known_by_files = KnownByFiles(self.file_queues)
        self.rocks = self._new_rocks(rows) if rows is not None else None
        self.queues: Queues = self.file_queues
        """Those that are read, and that give messages their offsets."""
        if self.rocks is not None and config.stage is Stage.ROCKSDB:
            self.queues = self.rocks.table
        self.appender = Appender(
            log=self.log,
            queues=self.queues,
            index=self.index,
            tags=self._tags,
            clock_ms=clock_ms,
            max_message_bytes=config.max_message_bytes,
            multi_dispatch=config.multi_dispatch,
            counters=self.counters,
        )
        if self.rocks is not None:
            self.appender.on_dispatch.append(self.rocks.offer)
        self.reader = Reader(
            log=self.log,
            queues=self.queues,
            index=self.index,
            counters=self.counters,
            cold_bytes=int(config.memory_bytes * config.cold_memory_ratio),
        )
        self.flusher = Flusher(
            self.log,
            last_store_ms=lambda: self.appender.last_store_ms,
            on_failure=self.appender.refuse,
            interval_s=config.flush_interval_s,
            least_bytes=config.flush_least_bytes,
            thorough_interval_s=config.flush_thorough_interval_s,
        )
        self.retention = Retention(
            config,
            files=files,
            log=self.log,
            queue_directory=root / "consumequeue",
            cleaners=self._cleaners(),
            index=self.index,
            clock_ms=clock_ms,
            flushed=lambda: self.flusher.flushed,
        )
        self.tables = ConfigTables(config, files, clock_ms)
        self.housekeeping = Housekeeping(
            config,
            appender=self.appender,
            log=self.log,
            queues=self.queues,
            rocks=self._new_follower(self.rocks) if self.rocks is not None else None,
            index=self.index,
            checkpoint=self._checkpoint,
            progress=self.progress,
            flusher=self.flusher,
            retention=self.retention,
            tables=self.tables,
        )
        """The tasks that ``open_store`` runs."""

    def _new_rocks(self, rows: "QueueRows") -> "RocksIndex":
        from ._rocks_index import RocksIndex
        from ._rocks_queues import RocksQueueTable
        from ._rocks_redo import RocksRedo

        redo = RocksRedo(rows, tags=self._tags, places=self._places, belongs=self._known_by_files)
        table = RocksQueueTable(rows, log_begin=lambda: self.log.segments.begin)
        return RocksIndex(rows, redo, table)

    def _new_follower(self, rocks: "RocksIndex") -> RocksFollower:
        return RocksFollower(rocks, self.log.segments, rate=self.config.rocksdb_backfill_rate)

    def _cleaners(self) -> list[Callable[[int], Awaitable[None]]]:
        cleaners: list[Callable[[int], Awaitable[None]]] = []
        if self.config.stage is not Stage.ROCKSDB:
            cleaners.append(self.file_queues.clean)
        if self.rocks is not None:
            cleaners.append(self.rocks.table.clean)
        return cleaners

    def _new_index(self, clock_ms: Callable[[], int]) -> Index:
        def on_full(end_ms: int) -> None:
            self._checkpoint.index_ms = end_ms

        return Index(
            self.files,
            self.config.root / "index",
            slots=self.config.max_hash_slots,
            entries=self.config.max_index_entries,
            clock_ms=clock_ms,
            on_full=on_full,
        )

    def load(self, *, clean: bool) -> None:
        """Read everything and make it agree; ``clean`` tells how the last run ended.

        Raises ``StoreCorrupted``, ``StartRefused``, ``ConfigInvalid``, ``OSError``.
        """
        startup = Startup(
            self.config,
            files=self.files,
            log=self.log,
            queues=self.file_queues,
            rocks=self.rocks,
            index=self.index,
            checkpoint=self._checkpoint,
            progress=self.progress,
            tags=self._tags,
            places=self._places,
            known_by_files=self._known_by_files,
        )
        startup.run(clean=clean)
        self.appender.start_at(self.log.end, startup.last_store_ms)
        self.flusher.start_at(
            self.log.end if startup.durable_to is None else startup.durable_to,
            startup.last_store_ms,
        )
        # After the queues, which may refuse the start: tables may be converted here.
        self.tables.load(after_crash=not clean)

    def close(self) -> None:
        """Let go of all files; nothing is made durable by it."""
        self.log.segments.close()
        self.file_queues.close()
        if self.index is not None:
            self.index.close()
        self._checkpoint.close()
        self.tables.close()
        if self.rocks is not None:
            try:
                self.rocks.rows.close()
            except OSError as error:  # what had to be durable is so, or the stop is not clean
                LOGGER.error("RocksDB could not be closed: %s", error)
