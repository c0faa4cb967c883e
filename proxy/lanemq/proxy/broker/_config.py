"""What a broker can be told, under Apache's names.

Every field is the Apache key of the same name in snake case, with Apache's unit and, unless
its text says otherwise, Apache's default.

Source: RocketMQ 4.9.8, BrokerConfig, MessageStoreConfig, NettyServerConfig.
"""

import dataclasses
import re
import socket
from pathlib import Path
from typing import final

from lanemq.storage import ConfigInvalid, FlushMode, StoreConfig, StoreType
from lanemq.wire import SystemTopic

from .._limits import Limits
from .._settings import ConfigError, Settings, setting
from ._apache_keys import APACHE_KEYS

_LEGAL_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_ANY_ADDRESS = ("", "0.0.0.0", "::")
_PAGE_BYTES = 4096
LOGICAL_ABOVE = 10


def _host_name() -> str:
    # The broker's name is a topic name as well, which a dot would spoil.
    return re.sub(r"[^a-zA-Z0-9_-]", "-", socket.gethostname()) or "broker"


def local_address() -> str:
    """The IPv4 address this machine uses towards the outside, or loopback if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))  # a route look-up; no packet leaves
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


@final
@dataclasses.dataclass(kw_only=True, slots=True)
class BrokerConfig(Settings):
    """The settings of one broker. Raises ``ConfigError`` for what cannot work."""

    # Who and where
    broker_cluster_name: str = setting("DefaultCluster")
    broker_name: str = dataclasses.field(default_factory=_host_name)
    """Default: the host's name."""
    broker_id: int = setting(0)
    """0, a master. lanemq does not replicate, so there is no other."""
    broker_role: str = setting("ASYNC_MASTER")
    bind_address: str = setting("0.0.0.0")
    """The address to listen on."""
    listen_port: int = setting(10911)
    """The main port; the VIP port is two below. 0 takes any free pair."""
    broker_ip1: str | None = setting(None, key="brokerIP1")
    """The address that clients are told. Default: ``bind_address``, or, where that means all
    addresses, the one this machine uses towards the outside."""
    namesrv_addr: str = setting("")
    """Name servers, ``host:port;host:port``."""

    # Registration
    register_name_server_period: int = setting(30_000)
    """Milliseconds between registrations, 10 s to 60 s."""
    register_broker_timeout_mills: int = setting(6000)
    """Milliseconds to wait for a name server."""
    force_register: bool = setting(True, changeable=True)
    """False asks a name server first, and registers only what it does not know."""
    compressed_register: bool = setting(False, changeable=True)

    # Topics and groups
    broker_permission: int = setting(6, changeable=True)
    """What the whole broker allows: 4 read, 2 write."""
    default_topic_queue_nums: int = setting(8)
    auto_create_topic_enable: bool = setting(True, changeable=True)
    cluster_topic_enable: bool = setting(True)
    broker_topic_enable: bool = setting(True)
    auto_create_subscription_group: bool = setting(True, changeable=True)
    trace_topic_enable: bool = setting(False)
    msg_trace_topic_name: str = setting(str(SystemTopic.TRACE))
    notify_consumer_ids_changed_enable: bool = setting(True, changeable=True)

    # Sending and pulling
    start_accept_send_request_time_stamp: int = setting(0, changeable=True)
    """Milliseconds since 1970 before which sends are refused."""
    max_message_size: int = setting(4 << 20)
    """Bytes of a body."""
    message_delay_level: str = setting("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
    region_id: str = setting("DefaultRegion")
    trace_on: bool = setting(True)
    """What TRACE_ON says in send answers."""
    long_polling_enable: bool = setting(True, changeable=True)
    short_polling_time_mills: int = setting(1000, changeable=True)
    """Milliseconds a pull is held without long polling."""
    max_transfer_bytes_on_message_in_memory: int = setting(256 << 10, changeable=True)
    max_transfer_count_on_message_in_memory: int = setting(32, changeable=True)
    max_transfer_bytes_on_message_in_disk: int = setting(64 << 10, changeable=True)
    max_transfer_count_on_message_in_disk: int = setting(8, changeable=True)
    access_message_in_memory_max_ratio: int = setting(40)
    """Percent of memory; a message further behind the log's end counts as on disk."""
    default_query_max_num: int = setting(32, changeable=True)
    """Messages of a query by key that names no limit."""
    enable_property_filter: bool = setting(True, changeable=True)
    """Whether subscriptions by SQL92 are taken. Apache's default is false."""
    filter_support_retry: bool = setting(False, changeable=True)
    """Whether they also judge the messages that come again."""

    # Logical queues
    logical_listen_port: int | None = setting(None)
    """The port where clients that do not know logical queues find them; its VIP port is two
    below. 0 takes any free pair, -1 opens none. Default: ten above ``listen_port``, or any where
    that is any."""
    forward_timeout: int = setting(3000, changeable=True)
    """Milliseconds to wait for a broker that a message is passed on to."""
    logical_queue_seal_timeout: int = setting(10_000, changeable=True)
    """Milliseconds that sealing a queue may wait for its writers and for the disk."""
    logical_queue_reconcile_interval: int = setting(3000)
    """Milliseconds between looks at migrations that others should have completed."""
    logical_queue_expired_keep_millis: int = setting(86_400_000, changeable=True)
    """Milliseconds that a segment without messages is kept before it is forgotten."""
    logical_queue_reuse_readable: bool = setting(False, changeable=True)
    """Whether tools may use a queue again that still has messages, as 5.0.0-PREVIEW's do."""
    logical_queue_physical_topics: str = setting("", changeable=True)
    """Topics, with commas between, that clients which do not know logical queues see as they
    are: the brokers' own queues, from which what cannot stay is passed on."""

    # The store
    store_path_root_dir: Path = setting(Path("lanemq-data"))  # noqa: RUF009 - a field
    """Default: ``lanemq-data`` in the current directory."""
    store_path_commit_log: Path | None = setting(None)  # noqa: RUF009 - a field
    store_type: StoreType = setting(StoreType.FILE)  # noqa: RUF009 - a field
    """``default`` keeps queues in files and tables in JSON, ``defaultRocksDB`` both in RocksDB."""
    rocksdb_cq_double_write_enable: bool | None = setting(None, key="rocksdbCQDoubleWriteEnable")
    """Whether queues in files are kept in RocksDB, too. Default: false."""
    rocksdb_cq_write_enable: bool | None = setting(None, key="rocksdbCQWriteEnable")
    """Another name of ``rocksdb_cq_double_write_enable``, which has the value."""
    rocksdb_cq_backfill_enable: bool = setting(True, key="rocksdbCQBackfillEnable")
    """Whether double writing brings older messages into RocksDB as well."""
    rocksdb_cq_backfill_rate: int = setting(20_000, key="rocksdbCQBackfillRate")
    """Messages per second that this takes from the log."""
    rocksdb_cq_allow_uncovered: bool = setting(False, key="rocksdbCQAllowUncovered")
    """Whether to start with RocksDB alone though messages cannot be read then."""
    transfer_metadata_json_to_rocksdb: bool = setting(True)
    """Whether a start with RocksDB takes over newer topics and groups. (5.3.1: false.)"""
    transfer_offset_json_to_rocksdb: bool = setting(True)
    """Whether a start with RocksDB takes over newer offsets. (5.3.1: false.)"""
    real_time_persist_rocksdb_config: bool = setting(True, key="realTimePersistRocksDBConfig")
    """Whether a change of a topic or a group is durable before it is answered."""
    export_json_on_shutdown: bool = setting(True)
    """Whether a broker with RocksDB alone writes the JSON files when it stops."""
    allow_stale_json_metadata: bool = setting(False)
    """Whether to start with JSON files though RocksDB has something newer."""
    config_manager_version: str | None = setting(None)
    """v1 starts beside ``config/rdb`` of a broker with v2, which lanemq cannot read."""
    enable_lmq: bool = setting(False)
    enable_multi_dispatch: bool = setting(False)
    """With ``enable_lmq``: messages go to light queues, too."""
    mapped_file_size_commit_log: int = setting(1 << 30)
    mapped_file_size_consume_queue: int = setting(6_000_000)
    message_index_enable: bool = setting(True)
    max_hash_slot_num: int = setting(5_000_000)
    max_index_num: int = setting(20_000_000)
    flush_disk_type: FlushMode = setting(FlushMode.ASYNC)  # noqa: RUF009 - a field
    sync_flush_timeout: int = setting(5000)
    """Milliseconds."""
    flush_interval_commit_log: int = setting(500)
    """Milliseconds."""
    flush_commit_log_least_pages: int = setting(4)
    flush_commit_log_thorough_interval: int = setting(10_000)
    """Milliseconds."""
    flush_interval_consume_queue: int = setting(1000)
    """Milliseconds."""
    flush_consume_queue_thorough_interval: int = setting(60_000)
    """Milliseconds."""
    flush_consumer_offset_interval: int = setting(5000)
    """Milliseconds."""
    flush_delay_offset_interval: int = setting(10_000)
    """Milliseconds."""
    file_reserved_time: int = setting(72)
    """Hours."""
    delete_when: str = setting("04")
    """Local hours, joined by ``;``."""
    clean_resource_interval: int = setting(10_000)
    """Milliseconds."""
    delete_commit_log_files_interval: int = setting(100)
    """Milliseconds."""
    clean_file_forcibly_enable: bool = setting(True)
    disk_max_used_space_ratio: int = setting(75)
    """Percent."""
    disk_space_clean_forcibly_ratio: int = setting(85)
    """Percent."""
    disk_space_warning_level_ratio: int = setting(90)
    """Percent."""
    check_crc_on_recover: bool = setting(True, key="checkCRCOnRecover")

    # The server
    server_channel_max_idle_time_seconds: int = setting(120)
    config_black_list: str = setting("configBlackList;brokerConfigPath")
    """Keys that UPDATE_BROKER_CONFIG must not touch, joined by ``;``."""

    @classmethod
    def other_apache_keys(cls) -> frozenset[str]:
        return APACHE_KEYS

    def check(self) -> None:
        for key, name in (
            ("brokerName", self.broker_name),
            ("brokerClusterName", self.broker_cluster_name),
        ):
            if not _LEGAL_NAME.fullmatch(name):
                raise ConfigError(f"{key} is {name!r}: only letters, digits, %, |, _ and - may be")
        if self.broker_id != 0 or self.broker_role != "ASYNC_MASTER":
            raise ConfigError(
                "lanemq does not replicate: brokerId must be 0 and brokerRole ASYNC_MASTER"
            )
        given = {self.rocksdb_cq_double_write_enable, self.rocksdb_cq_write_enable} - {None}
        if len(given) > 1:
            raise ConfigError(
                "rocksdbCQDoubleWriteEnable and rocksdbCQWriteEnable are two names of one "
                "switch, and have different values: give one of them"
            )
        self.rocksdb_cq_double_write_enable = True in given
        self.rocksdb_cq_write_enable = None
        if not (self.listen_port == 0 or 3 <= self.listen_port <= 65535):
            raise ConfigError(f"listenPort is {self.listen_port}: it must be 0 or 3 to 65535")
        if not 10_000 <= self.register_name_server_period <= 60_000:
            raise ConfigError("registerNameServerPeriod must be 10000 to 60000 (milliseconds)")
        if self.logical_queue_reconcile_interval < 100:
            raise ConfigError("logicalQueueReconcileInterval must be at least 100 (milliseconds)")
        try:
            self.store_config()
        except ConfigInvalid as error:
            raise ConfigError(str(error)) from error

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses in ``namesrv_addr``."""
        return tuple(part.strip() for part in self.namesrv_addr.split(";") if part.strip())

    @property
    def listens_everywhere(self) -> bool:
        """Whether ``bind_address`` means all addresses of this machine."""
        return self.bind_address in _ANY_ADDRESS

    @property
    def advertised_host(self) -> str:
        """The host that clients are told (see ``broker_ip1``), as a literal address.

        It goes into every stored record and message id, which have no room for a name.
        Raises ``ConfigError`` for a name that has no IPv4 address.
        """
        host = self.broker_ip1
        if not host:
            host = local_address() if self.listens_everywhere else self.bind_address
        if ":" in host:
            return host
        try:
            return socket.gethostbyname(host)
        except OSError as error:
            raise ConfigError(f"{host!r} has no IPv4 address: {error.strerror}") from error

    @property
    def blocked_keys(self) -> frozenset[str]:
        """The keys of ``config_black_list``."""
        return frozenset(
            {"configBlackList", "brokerConfigPath", *self.config_black_list.split(";")}
        )

    @property
    def logical_port(self) -> int | None:
        """What ``logical_listen_port`` comes to; None for no port."""
        if self.logical_listen_port is None:
            return self.listen_port + LOGICAL_ABOVE if self.listen_port else 0
        return None if self.logical_listen_port < 0 else self.logical_listen_port

    @property
    def physical_topics(self) -> frozenset[str]:
        """The topics in ``logical_queue_physical_topics``."""
        names = (name.strip() for name in self.logical_queue_physical_topics.split(","))
        return frozenset(filter(None, names))

    def limits(self) -> Limits:
        """The bounds that the broker's server puts on its peers."""
        return Limits(idle_s=float(self.server_channel_max_idle_time_seconds))

    def store_config(self) -> StoreConfig:
        """The store's share of the settings. Raises ``ConfigInvalid``."""
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
            config_manager_version=self.config_manager_version,
            multi_dispatch=self.enable_lmq and self.enable_multi_dispatch,
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
