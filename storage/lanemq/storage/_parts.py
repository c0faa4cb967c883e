"""The parts of a store, and their connections."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, final

from lanemq.local import get_logger
from lanemq.wire import SystemTopic
from lanemq.wire.logical import LOGICAL_QUEUES_MAP_MEMBER

from ._config import StoreConfig, parse_delay_levels
from ._statistics import Counters
from ._store_parts import StoreParts
from ._tables import ConfigTables
from .checkpoint._checkpoint import Checkpoint
from .checkpoint._watermarks import OpenWatermarks, WatermarkFile
from .derive._units import Derivation
from .disk._files import Files
from .index._index import Index
from .kv._kv import KvStates
from .log._commit_log import CommitLog
from .log._damage import KnownDamage
from .log._flusher import Flusher
from .log._segments import Segments
from .messages._appender import Appender
from .messages._extended import ExtendedUnits
from .messages._reader import Reader
from .queues._queue_positions import QueuePositions
from .queues._queues import Queues, QueueTable
from .queues._tags import TagsCodes
from .queues.rocks._follower import RocksFollower
from .start._authority import KnownByFiles
from .start._startup import Startup, look_back
from .tasks._housekeeping import Housekeeping
from .tasks._retention import Retention
from .timer._shape import TimerShape
from .timer._timers import Timers

if TYPE_CHECKING:  # the binding comes with the server, and is needed only where this is used
    from .queues.rocks._consume_queue import RocksQueueTable
    from .queues.rocks._queue_rows import QueueRows
    from .queues.rocks._writer import RocksIndex

LOGGER = get_logger(__name__)


@final
class Parts:
    """The connected parts of one store; ``load`` makes them agree with the disk."""

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
        self.damage = KnownDamage()
        self._checkpoint = Checkpoint(files, root / "checkpoint")
        self.log = CommitLog(
            Segments(
                files,
                config.commit_log_path,
                config.commit_log_file_bytes,
                setting="mappedFileSizeCommitLog",
            ),
            tail_cache_bytes=config.tail_cache_bytes,
        )
        self.file_queues = QueueTable(
            files, root / "consumequeue", file_bytes=config.consume_queue_file_bytes
        )
        self.index = self._new_index(clock_ms) if config.index_enabled else None
        self.progress = OpenWatermarks(WatermarkFile(files, root), config.stage)
        self._tags = TagsCodes(parse_delay_levels(config.delay_levels))
        self._derivation = self._new_derivation()
        self._known_by_files = KnownByFiles(self.file_queues)
        self.rocks = self._new_rocks(rows) if rows is not None else None
        self._shared = self._shared_parts()
        self.queues: Queues = self._shared.queues
        """The queues that are read, and that give messages their offsets."""
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
            self.appender.dispatcher.on_dispatch.append(self.rocks.offer)
        self.reader = Reader(
            log=self.log,
            queues=self.queues,
            counters=self.counters,
            cold_bytes=int(config.memory_bytes * config.cold_memory_ratio),
            damage=self.damage,
            extended=ExtendedUnits(self.log, self._tags),
        )
        self.flusher = Flusher(
            self.log,
            last_store_ms=lambda: self.appender.dispatcher.last_store_ms,
            on_failure=self.appender.refuse,
            interval_s=config.flush_interval_s,
            least_bytes=config.flush_least_bytes,
            thorough_interval_s=config.flush_thorough_interval_s,
        )
        self.timers = self._new_timers(clock_ms) if config.timers_enabled else None
        self.kv = self._new_kv(clock_ms) if config.kv_enabled else None
        self.retention = Retention(
            config,
            files=files,
            log=self.log,
            queue_directory=root / "consumequeue",
            cleaners=self._cleaners(),
            index=self.index,
            clock_ms=clock_ms,
            flushed=self._kept_from,
        )
        self.tables = ConfigTables(config, files, clock_ms)
        self.housekeeping = self._new_housekeeping()
        """The tasks that ``open_store`` runs."""

    def _new_derivation(self) -> Derivation:
        deleted = self.progress.deleted
        positions = QueuePositions(multi_dispatch=self.config.multi_dispatch, deleted=deleted)
        return Derivation(positions, self._tags)

    def _shared_parts(self) -> StoreParts:
        queues: QueueTable | RocksQueueTable = self.file_queues
        if self.rocks is not None and self.config.stage.reads_rows:
            queues = self.rocks.table
        return StoreParts(
            files=self.files,
            log=self.log,
            queues=queues,
            file_queues=self.file_queues,
            rocks=self.rocks,
            index=self.index,
            checkpoint=self._checkpoint,
            progress=self.progress,
        )

    def _new_housekeeping(self) -> Housekeeping:
        return Housekeeping(
            self.config,
            self._shared,
            appender=self.appender,
            follower=self._new_follower(self.rocks) if self.rocks is not None else None,
            kv=self.kv,
            timers=self.timers,
            flusher=self.flusher,
            retention=self.retention,
            tables=self.tables,
        )

    def _new_kv(self, clock_ms: Callable[[], int]) -> KvStates:
        kv = KvStates(
            self.config,
            files=self.files,
            clock_ms=clock_ms,
            log=self.log,
            reader=self.reader,
            flusher=self.flusher,
            dispatched_end=lambda: self.appender.dispatcher.dispatched_end,
        )
        self.appender.dispatcher.on_dispatch.append(kv.take)
        return kv

    def _new_timers(self, clock_ms: Callable[[], int]) -> Timers:
        # The log keeps a message longer than it waits for its time, or to be stored again.
        reserved_s = int(self.config.file_reserved_hours * 3600)
        roll_slots = max(2, min(self.config.timer_roll_slots, reserved_s * 2 // 3))
        shape = TimerShape(log_file_bytes=self.config.timer_log_file_bytes, roll_slots=roll_slots)
        return Timers(
            self.files,
            self.config.root,
            shape,
            message_at=self.reader.message_at,
            clock_ms=clock_ms,
        )

    def _kept_from(self) -> int:
        """Return the position from which on the log must stay, whatever its age."""
        flushed = self.flusher.flushed
        return flushed if self.kv is None else min(flushed, self.kv.needed_from)

    def _new_rocks(self, rows: "QueueRows") -> "RocksIndex":
        from .queues.rocks._consume_queue import RocksQueueTable
        from .queues.rocks._redo import RocksRedo
        from .queues.rocks._writer import RocksIndex

        redo = RocksRedo(rows, belongs=self._known_by_files)
        table = RocksQueueTable(rows, log_begin=lambda: self.log.segments.begin)
        return RocksIndex(rows, redo, table)

    def _new_follower(self, rocks: "RocksIndex") -> RocksFollower:
        rate = self.config.rocksdb_backfill_rate
        return RocksFollower(
            rocks, self.log.segments, self._derivation, rate=rate, damage=self.damage
        )

    def _cleaners(self) -> list[Callable[[int], Awaitable[None]]]:
        cleaners: list[Callable[[int], Awaitable[None]]] = []
        if self.config.stage.has_files:
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
        """Read everything and make it agree; ``clean`` says whether the last run ended cleanly.

        Raises ``StoreCorrupted``, ``StartRefused``, ``ConfigInvalid``, ``OSError``.
        """
        plan, known = look_back(self._checkpoint, self.progress, self.config.stage)
        startup = Startup(
            self.config,
            plan,
            self._shared,
            known=known,
            derivation=self._derivation,
            known_by_files=self._known_by_files,
            damage=self.damage,
        )
        startup.run(clean=clean)
        self.appender.dispatcher.start_at(self.log.end, startup.last_store_ms)
        self.flusher.start_at(
            self.log.end if startup.durable_to is None else startup.durable_to,
            startup.last_store_ms,
        )
        if self.kv is not None:
            self.kv.load(self.queues.keys())
        if self.timers is not None:
            self.timers.load(self.reader.bounds(SystemTopic.TIMER, 0), clean=clean)
        # After the queues, which may refuse the start: tables may be converted here.
        self.tables.load(after_crash=not clean)
        if self.kv is not None:
            mapped = self.tables.topics.member(LOGICAL_QUEUES_MAP_MEMBER)
            self.kv.kept.add_missing(mapped if isinstance(mapped, dict) else {})

    def close(self) -> None:
        """Close all files, without making anything durable."""
        self.log.segments.close()
        self.file_queues.close()
        if self.index is not None:
            self.index.close()
        self._checkpoint.close()
        self.tables.close()
        if self.timers is not None:
            self.timers.close()
        if self.kv is not None:
            try:
                self.kv.close()
            except OSError as error:
                LOGGER.error("the keys could not be closed: %s", error)
        if self.rocks is not None:
            try:
                self.rocks.rows.close()
            except OSError as error:  # everything necessary is durable, or the stop is not clean
                LOGGER.error("RocksDB could not be closed: %s", error)
