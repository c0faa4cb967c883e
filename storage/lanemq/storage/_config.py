"""The settings of a store."""

import enum
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from ._errors import ConfigInvalid

QUEUE_UNIT_BYTES = 20
DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
HOUR_DIGITS = 2
DELAY_DIGITS = 9
DELAY_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@final
class FlushMode(enum.Enum):
    """The promise of an acknowledgement: on the disk, or soon. Source: RocketMQ 4.9.8,
    FlushDiskType."""

    ASYNC = "ASYNC_FLUSH"
    """Synced soon after: a kill of the process loses nothing, a loss of power up to ten seconds."""
    SYNC = "SYNC_FLUSH"
    """Synced before the answer; one fsync serves all who wait for it."""


RUN_TIME_FIELDS: Final = (
    "file_reserved_hours",
    "delete_when",
    "delete_pause_s",
    "clean_forcibly",
    "disk_max_used_ratio",
    "disk_clean_forcibly_ratio",
    "disk_full_ratio",
)
"""Settings that an open store takes over."""


@final
class StoreType(enum.Enum):
    """The kind of storage of queues and tables. Source: RocketMQ 5.3.3, StoreType."""

    FILE = "default"
    """Queues in files, tables in JSON."""
    ROCKSDB = "defaultRocksDB"
    """Queues and tables in RocksDB."""

    @classmethod
    def _missing_(cls, value: object) -> "StoreType | None":
        """Find a member without regard to case, as the broker does: both spellings are in use."""
        text = str(value).lower()
        return next((member for member in cls if member.value.lower() == text), None)


@final
class KvEngine(enum.Enum):
    """The engine that keeps the states of the key-value store."""

    ROCKSDB = "rocksdb"
    """Keeps the state on the disk; on a simulated disk in memory."""
    MEMORY = "memory"
    """Keeps the state in memory, written to a file from time to time: for small states."""


class Stage(enum.IntEnum):
    """A step of the upgrade of a store; any may follow any other."""

    FILES = 1
    """Queues in files."""
    BOTH = 2
    """Queues in files, which are read, and in RocksDB."""
    ROCKSDB = 3
    """Queues and tables in RocksDB."""

    @property
    def has_files(self) -> bool:
        """True if queues are written to files."""
        return self is not Stage.ROCKSDB

    @property
    def has_rows(self) -> bool:
        """True if queues are written to RocksDB."""
        return self is not Stage.FILES

    @property
    def reads_rows(self) -> bool:
        """True if RocksDB has the tables, and queues are read from it."""
        return self is Stage.ROCKSDB


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Parse the delays of levels 1, 2, ... in milliseconds from a text such as ``1s 5s 1m 2h``.

    Raises ``ConfigInvalid`` naming the part that is not a number, of up to nine digits, with one
    of the units s, m, h, d.
    """
    delays = []
    for part in text.split():
        number, unit = part[:-1], part[-1]
        is_number = number.isascii() and number.isdigit() and len(number) <= DELAY_DIGITS
        if not is_number or unit not in DELAY_UNITS_MS:
            raise ConfigInvalid(f"messageDelayLevel has {part!r}: not a number with s, m, h or d")
        delays.append(int(number) * DELAY_UNITS_MS[unit])
    if not delays:
        raise ConfigInvalid(
            f"messageDelayLevel is {text!r}: it has no delay; leave it out for Apache's levels"
        )
    return tuple(delays)


def physical_memory_bytes() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@final
@dataclass(frozen=True, kw_only=True)
class StoreConfig:
    """The settings of a store. The name in a broker's configuration file is in brackets.

    Raises ``ConfigInvalid`` for a value out of range.
    Source: RocketMQ 4.9.8, MessageStoreConfig.
    """

    root: Path
    """The store directory [storePathRootDir]; made where it is missing."""
    commit_log_directory: Path | None = None
    """Directory of the log, if not ``root / "commitlog"`` [storePathCommitLog]."""
    commit_log_file_bytes: int = 1 << 30
    """Size of every log file [mappedFileSizeCommitLog]."""
    consume_queue_file_bytes: int = 300_000 * QUEUE_UNIT_BYTES
    """Size of every queue file, rounded up to whole units [mappedFileSizeConsumeQueue]."""
    store_type: StoreType = StoreType.FILE
    """[storeType]"""
    rocksdb_double_write: bool = False
    """Keep queues in RocksDB beside their files; has no effect where RocksDB keeps them alone
    [rocksdbCQDoubleWriteEnable]."""
    rocksdb_backfill: bool = True
    """Let double writing bring older messages into RocksDB as well, in the background
    [rocksdbCQBackfillEnable]."""
    rocksdb_backfill_rate: int = 20_000
    """Messages per second that this takes from the log, beside as many as arrive meanwhile
    [rocksdbCQBackfillRate]."""
    allow_uncovered: bool = False
    """Let a store start with RocksDB alone though this makes messages unreadable
    [rocksdbCQAllowUncovered]."""
    transfer_metadata: bool = True
    """Let a start with RocksDB take over topics and groups from JSON files that are newer
    [transferMetadataJsonToRocksdb]."""
    transfer_offsets: bool = True
    """The same as ``transfer_metadata`` for the offsets of consumers
    [transferOffsetJsonToRocksdb]."""
    persist_metadata_at_once: bool = True
    """Make a change of a topic or a group in RocksDB durable before it is answered; False: within
    ``offsets_persist_interval_s`` [realTimePersistRocksDBConfig]."""
    export_json_on_close: bool = True
    """Write the JSON files when a store with RocksDB alone is closed: the next start may be one
    with files [exportJsonOnShutdown]."""
    allow_stale_json: bool = False
    """Let a start use JSON files though RocksDB has something newer [allowStaleJsonMetadata]."""
    allow_missing_queue_files: bool = False
    """Let a start go on without queue files that were there at the last stop, though the log no
    longer has all of their messages [allowMissingQueueFiles]."""
    config_manager_version: str | None = None
    """"v1" starts beside databases of ``config/rdb``, which lanemq does not read; None refuses
    to [configManagerVersion]."""
    kv_enabled: bool = True
    """Keep keys and values [kvEnable]."""
    kv_engine: KvEngine = KvEngine.ROCKSDB
    """[kvEngine]"""
    kv_memory_max_bytes: int = 256 << 20
    """Bytes of memory beyond which writes are refused, with ``KvEngine.MEMORY``
    [kvMemoryMaxBytes]."""
    kv_history_revisions: int = 0
    """Latest revisions of a partition whose history is kept; 0 is any [kvHistoryRevisions]."""
    kv_history_seconds: int = 0
    """Age up to which the history of a partition is kept; 0 is any [kvHistorySeconds]."""
    timers_enabled: bool = True
    """Keep an index of timers [timerWheelEnable]."""
    timer_log_file_bytes: int = 100 << 20
    """Size of every file of the timer log [mappedFileSizeTimerLog]."""
    timer_roll_slots: int = 2 * 86_400
    """Seconds after which a message with a timer is stored again [timerRollWindowSlot]."""
    timer_flush_interval_s: float = 1.0
    """Time between two syncs of the index of timers [timerFlushIntervalMs]."""
    multi_dispatch: bool = False
    """Put messages into light queues (LMQ), too [enableLmq with enableMultiDispatch]."""
    index_enabled: bool = True
    """Keep an index by which messages are found by key [messageIndexEnable]."""
    max_hash_slots: int = 5_000_000
    """Slots of an index file [maxHashSlotNum]."""
    max_index_entries: int = 20_000_000
    """Entries of an index file, one of them unused [maxIndexNum]."""
    flush: FlushMode = FlushMode.ASYNC
    """The promise to producers [flushDiskType]. The callers of the store keep it: before they
    answer, they wait for ``Store.flushed`` with ``SYNC``, and not with ``ASYNC``."""
    flush_interval_s: float = 0.5
    """Time between two looks at the dirty log [flushIntervalCommitLog]."""
    flush_least_bytes: int = 4 * 4096
    """Fewer bytes than this stay dirty until ``flush_thorough_interval_s``
    [flushCommitLogLeastPages]."""
    flush_thorough_interval_s: float = 10.0
    """The longest time that a log byte stays dirty [flushCommitLogThoroughInterval]."""
    queue_flush_interval_s: float = 1.0
    """Time between two writes of the queues' tails [flushIntervalConsumeQueue]."""
    queue_thorough_interval_s: float = 60.0
    """Time between two syncs of queues and index, each ended by a checkpoint
    [flushConsumeQueueThoroughInterval]."""
    offsets_persist_interval_s: float = 5.0
    """[flushConsumerOffsetInterval]"""
    delay_offsets_persist_interval_s: float = 10.0
    """[flushDelayOffsetInterval]"""
    file_reserved_hours: float = 72
    """Age at which a log file may go [fileReservedTime]."""
    delete_when: str = "04"
    """Local hours in which aged files go, joined by ``;`` [deleteWhen]."""
    clean_interval_s: float = 10.0
    """[cleanResourceInterval]"""
    first_clean_s: float = 60.0
    """Time from opening to the first cleaning."""
    delete_pause_s: float = 0.1
    """Pause between two removals [deleteCommitLogFilesInterval]."""
    clean_forcibly: bool = True
    """Remove young files, too, when the disk is too full [cleanFileForciblyEnable]."""
    disk_max_used_ratio: float = 0.75
    """Used share of the disk above which aged files are removed at any hour
    [diskMaxUsedSpaceRatio]."""
    disk_clean_forcibly_ratio: float = 0.85
    """Used share of the disk above which young files are removed, too
    [diskSpaceCleanForciblyRatio]."""
    disk_full_ratio: float = 0.90
    """Used share of the disk above which messages are refused [diskSpaceWarningLevelRatio]."""
    max_message_bytes: int = 4 << 20
    """Limit of a body, and of an encoded batch [maxMessageSize]."""
    delay_levels: str = DELAY_LEVELS
    """[messageDelayLevel]"""
    check_crc_on_recovery: bool = True
    """[checkCRCOnRecover]"""
    tail_cache_bytes: int = 8 << 20
    """Memory that keeps the newest bytes of the log for readers."""
    cold_memory_ratio: float = 0.40
    """Share of memory; a message further behind the end of the log is cold
    [accessMessageInMemoryMaxRatio]."""
    memory_bytes: int = field(default_factory=physical_memory_bytes)
    """Bytes of memory of this machine."""
    sync_flush_timeout_s: float = 5.0
    """Seconds that a caller should wait for ``Store.flushed`` [syncFlushTimeout]."""

    def __post_init__(self) -> None:
        queue_bytes = -(-self.consume_queue_file_bytes // QUEUE_UNIT_BYTES) * QUEUE_UNIT_BYTES
        object.__setattr__(self, "consume_queue_file_bytes", queue_bytes)
        object.__setattr__(self, "root", Path(self.root))
        positive = (
            "commit_log_file_bytes",
            "consume_queue_file_bytes",
            "max_hash_slots",
            "max_index_entries",
            "flush_interval_s",
            "queue_flush_interval_s",
            "queue_thorough_interval_s",
            "offsets_persist_interval_s",
            "delay_offsets_persist_interval_s",
            "clean_interval_s",
            "rocksdb_backfill_rate",
            "max_message_bytes",
            "tail_cache_bytes",
            "kv_memory_max_bytes",
        )
        for name in positive:
            if getattr(self, name) <= 0:
                raise ConfigInvalid(f"{name} is {getattr(self, name)}: it must be above 0")
        if self.config_manager_version not in (None, "v1"):
            raise ConfigInvalid(
                f"configManagerVersion is {self.config_manager_version!r}: lanemq keeps its "
                "configuration in JSON files or in the databases of v1, it has no v2"
            )
        for hour in self.delete_hours:
            if not 0 <= hour <= 23:
                raise ConfigInvalid(f"deleteWhen is {self.delete_when!r}: hours are 0 to 23")
        parse_delay_levels(self.delay_levels)

    def adopt(self, other: "StoreConfig") -> None:
        """Take over the settings of ``other`` that hold for an open store: those of cleaning.

        All parts of a store have this one object, and look at it whenever they clean.
        """
        for name in RUN_TIME_FIELDS:
            object.__setattr__(self, name, getattr(other, name))

    @property
    def delete_hours(self) -> tuple[int, ...]:
        """The hours of ``delete_when``. Raises ``ConfigInvalid`` for one that is not a number."""
        parts = [part.strip() for part in self.delete_when.split(";") if part.strip()]
        for part in parts:
            if not (part.isascii() and part.isdigit() and len(part) <= HOUR_DIGITS):
                raise ConfigInvalid(f"deleteWhen is {self.delete_when!r}: {part!r} is not an hour")
        return tuple(int(part) for part in parts)

    @property
    def stage(self) -> Stage:
        """The step of the upgrade that the settings ask for."""
        if self.store_type is StoreType.ROCKSDB:
            return Stage.ROCKSDB
        return Stage.BOTH if self.rocksdb_double_write else Stage.FILES

    @property
    def commit_log_path(self) -> Path:
        return self.commit_log_directory or self.root / "commitlog"
