"""The settings of a broker's store, under Apache's names; see ``BrokerConfig``.

Source: RocketMQ 4.9.8, MessageStoreConfig; 5.3.x for RocksDB.
"""

import dataclasses
from pathlib import Path
from typing import Final

from lanemq.storage import ConfigInvalid, FlushMode, KvEngine, StoreConfig, StoreType

from ..._settings import ConfigError, Settings, setting

DEFAULT_STORE: Final = Path("lanemq-data")
_PAGE_BYTES = 4096


# No slots here: those of two bases cannot become those of one class.
@dataclasses.dataclass(kw_only=True)
class StoreSettings(Settings):
    """The settings of the store of one broker."""

    store_path_root_dir: Path = setting(DEFAULT_STORE)
    """Default: ``lanemq-data`` in the current directory."""
    store_path_commit_log: Path | None = setting(None)
    store_type: StoreType = setting(StoreType.FILE)
    """``default`` keeps queues in files and tables in JSON, ``defaultRocksDB`` both in RocksDB."""
    rocksdb_cq_double_write_enable: bool | None = setting(None, key="rocksdbCQDoubleWriteEnable")
    """Keep queues in RocksDB beside their files. Default: false."""
    rocksdb_cq_write_enable: bool | None = setting(None, key="rocksdbCQWriteEnable")
    """Another name of ``rocksdb_cq_double_write_enable``, which has the value."""
    rocksdb_cq_backfill_enable: bool = setting(True, key="rocksdbCQBackfillEnable")
    """Let double writing bring older messages into RocksDB as well."""
    rocksdb_cq_backfill_rate: int = setting(20_000, key="rocksdbCQBackfillRate", least=1)
    """Messages per second that this takes from the log."""
    rocksdb_cq_allow_uncovered: bool = setting(False, key="rocksdbCQAllowUncovered")
    """Start with RocksDB alone even if messages cannot be read then."""
    transfer_metadata_json_to_rocksdb: bool = setting(True)
    """Let a start with RocksDB take over newer topics and groups. (5.3.1: false.)"""
    transfer_offset_json_to_rocksdb: bool = setting(True)
    """Let a start with RocksDB take over newer offsets. (5.3.1: false.)"""
    real_time_persist_rocksdb_config: bool = setting(True, key="realTimePersistRocksDBConfig")
    """Make a change of a topic or a group durable before it is answered."""
    export_json_on_shutdown: bool = setting(True)
    """Let a broker with RocksDB alone write the JSON files when it stops."""
    allow_stale_json_metadata: bool = setting(False)
    """Start with JSON files even if RocksDB has something newer."""
    allow_missing_queue_files: bool = setting(False)
    """Start even if queue files are gone, with their messages."""
    config_manager_version: str | None = setting(None)
    """v1 starts beside ``config/rdb`` of a broker with v2, which lanemq cannot read."""
    kv_enable: bool = setting(True)
    """Keep keys and values."""
    kv_engine: KvEngine = setting(KvEngine.ROCKSDB)
    """``rocksdb``, or ``memory`` for small states."""
    kv_memory_max_bytes: int = setting(256 << 20, least=1 << 20)
    """Bytes of keys and values beyond which writes are refused, with ``kvEngine=memory``."""
    kv_history_revisions: int = setting(0, least=0)
    """Number of the latest revisions of a partition of keys whose history is kept; 0: any."""
    kv_history_seconds: int = setting(0, least=0)
    """Age up to which the history of a partition of keys is kept; 0: any."""
    enable_lmq: bool = setting(False)
    enable_multi_dispatch: bool = setting(False)
    """Put messages into light queues, too; needs ``enable_lmq``."""
    timer_wheel_enable: bool = setting(True)
    """Accept messages with timers; false refuses them."""
    mapped_file_size_timer_log: int = setting(100 << 20, least=4096)
    timer_roll_window_slot: int = setting(2 * 24 * 3600, least=2)
    """Seconds after which a message with a timer is stored again. At most two thirds of
    ``file_reserved_time``."""
    timer_flush_interval_ms: int = setting(1000, least=1)
    """Milliseconds."""
    mapped_file_size_commit_log: int = setting(1 << 30, least=64 << 10)
    """At least 64 KiB, which hold any properties, a topic's name and a small body."""
    mapped_file_size_consume_queue: int = setting(6_000_000, least=1)
    message_index_enable: bool = setting(True)
    max_hash_slot_num: int = setting(5_000_000, least=1)
    max_index_num: int = setting(20_000_000, least=2)
    """Entries of a file of the index, the first of which is not used."""
    flush_disk_type: FlushMode = setting(FlushMode.ASYNC)
    sync_flush_timeout: int = setting(5000)
    """Milliseconds."""
    flush_interval_commit_log: int = setting(500, least=1)
    """Milliseconds."""
    flush_commit_log_least_pages: int = setting(4)
    flush_commit_log_thorough_interval: int = setting(10_000)
    """Milliseconds."""
    flush_interval_consume_queue: int = setting(1000, least=1)
    """Milliseconds."""
    flush_consume_queue_thorough_interval: int = setting(60_000, least=1)
    """Milliseconds."""
    flush_consumer_offset_interval: int = setting(5000, least=1)
    """Milliseconds."""
    flush_delay_offset_interval: int = setting(10_000, least=1)
    """Milliseconds."""
    file_reserved_time: int = setting(72, changeable=True)
    """Hours."""
    delete_when: str = setting("04", changeable=True)
    """Local hours, joined by ``;``."""
    clean_resource_interval: int = setting(10_000, least=1)
    """Milliseconds."""
    delete_commit_log_files_interval: int = setting(100, changeable=True)
    """Milliseconds."""
    clean_file_forcibly_enable: bool = setting(True, changeable=True)
    disk_max_used_space_ratio: int = setting(75, changeable=True, most=100)
    """Percent."""
    disk_space_clean_forcibly_ratio: int = setting(85, changeable=True, most=100)
    """Percent."""
    disk_space_warning_level_ratio: int = setting(90, changeable=True, most=100)
    """Percent."""
    check_crc_on_recover: bool = setting(True, key="checkCRCOnRecover")
    max_message_size: int = setting(4 << 20, least=1)
    """Bytes of a body."""
    message_delay_level: str = setting("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
    access_message_in_memory_max_ratio: int = setting(40, most=100)
    """Percent of memory; a message further behind the log's end counts as on disk."""

    def check_store(self) -> None:
        """Raise ``ConfigError`` for settings with which no store can be opened."""
        given = {self.rocksdb_cq_double_write_enable, self.rocksdb_cq_write_enable} - {None}
        if len(given) > 1:
            raise ConfigError(
                "rocksdbCQDoubleWriteEnable and rocksdbCQWriteEnable are two names of one "
                "switch, and have different values: give one of them"
            )
        self.rocksdb_cq_double_write_enable = True in given
        self.rocksdb_cq_write_enable = None
        try:
            self.store_config()
        except ConfigInvalid as error:
            raise ConfigError(str(error)) from error

    def store_config(self) -> StoreConfig:
        """Return the store's share of the settings. Raises ``ConfigInvalid``."""
        return StoreConfig(
            root=self.store_path_root_dir,
            commit_log_directory=self.store_path_commit_log,
            store_type=self.store_type,
            rocksdb_double_write=bool(self.rocksdb_cq_double_write_enable),
            rocksdb_backfill=self.rocksdb_cq_backfill_enable,
            rocksdb_backfill_rate=self.rocksdb_cq_backfill_rate,
            allow_uncovered=self.rocksdb_cq_allow_uncovered,
            transfer_metadata=self.transfer_metadata_json_to_rocksdb,
            transfer_offsets=self.transfer_offset_json_to_rocksdb,
            persist_metadata_at_once=self.real_time_persist_rocksdb_config,
            export_json_on_close=self.export_json_on_shutdown,
            allow_stale_json=self.allow_stale_json_metadata,
            allow_missing_queue_files=self.allow_missing_queue_files,
            config_manager_version=self.config_manager_version,
            kv_enabled=self.kv_enable,
            kv_engine=self.kv_engine,
            kv_memory_max_bytes=self.kv_memory_max_bytes,
            kv_history_revisions=self.kv_history_revisions,
            kv_history_seconds=self.kv_history_seconds,
            multi_dispatch=self.enable_lmq and self.enable_multi_dispatch,
            timers_enabled=self.timer_wheel_enable,
            timer_log_file_bytes=self.mapped_file_size_timer_log,
            timer_roll_slots=self.timer_roll_window_slot,
            timer_flush_interval_s=self.timer_flush_interval_ms / 1000,
            commit_log_file_bytes=self.mapped_file_size_commit_log,
            consume_queue_file_bytes=self.mapped_file_size_consume_queue,
            index_enabled=self.message_index_enable,
            max_hash_slots=self.max_hash_slot_num,
            max_index_entries=self.max_index_num,
            flush=self.flush_disk_type,
            flush_interval_s=self.flush_interval_commit_log / 1000,
            flush_least_bytes=self.flush_commit_log_least_pages * _PAGE_BYTES,
            flush_thorough_interval_s=self.flush_commit_log_thorough_interval / 1000,
            queue_flush_interval_s=self.flush_interval_consume_queue / 1000,
            queue_thorough_interval_s=self.flush_consume_queue_thorough_interval / 1000,
            offsets_persist_interval_s=self.flush_consumer_offset_interval / 1000,
            delay_offsets_persist_interval_s=self.flush_delay_offset_interval / 1000,
            file_reserved_hours=self.file_reserved_time,
            delete_when=self.delete_when,
            clean_interval_s=self.clean_resource_interval / 1000,
            delete_pause_s=self.delete_commit_log_files_interval / 1000,
            clean_forcibly=self.clean_file_forcibly_enable,
            disk_max_used_ratio=self.disk_max_used_space_ratio / 100,
            disk_clean_forcibly_ratio=self.disk_space_clean_forcibly_ratio / 100,
            disk_full_ratio=self.disk_space_warning_level_ratio / 100,
            max_message_bytes=self.max_message_size,
            delay_levels=self.message_delay_level,
            check_crc_on_recovery=self.check_crc_on_recover,
            cold_memory_ratio=self.access_message_in_memory_max_ratio / 100,
            sync_flush_timeout_s=self.sync_flush_timeout / 1000,
        )
