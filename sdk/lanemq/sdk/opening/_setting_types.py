"""Generated from the options of lanemq.sdk by sdk/tools/generate_faces.py."""

import ssl
from pathlib import Path
from typing import TypedDict

from lanemq.wire.bodies import MessageModel

from .._codecs import CodecLike, DecodeErrors
from .._interceptors import (
    ConsumeInterceptor,
    SendInterceptor,
)
from .._options import ClientOptions, Compression, ConsumeFrom
from ..consumer._allocation import Allocate
from ..consumer._queue_changes import QueueListener
from ..consumer.group._offset_store import OffsetStore
from ..consumer.pulls._flow import FlowLimits
from ..net._acl import Credentials
from ..net._latency_faults import SlowBrokerPauses
from ..net._remoting import RemotingOptions
from ..observe._consume_hooks import ConsumeHook
from ..observe._send_hooks import SendHook
from ..observe._statistics import StatisticsListener


class RemotingSettings(TypedDict, total=False):
    """The fields of `RemotingOptions`, as keywords."""

    connect_timeout_s: float
    frame_bytes_max: int


class ClientSettings(RemotingSettings, total=False):
    """The fields of `ClientOptions`, as keywords."""

    instance: str
    heartbeat_interval_s: float
    route_refresh_s: float
    call_timeout_s: float
    trace: bool
    trace_topic: str
    remoting: RemotingOptions
    telemetry: bool
    namespace: str
    credentials: Credentials | None
    tls: ssl.SSLContext | None
    unit_name: str
    name_server_refresh_s: float
    require_route: bool
    logical_queues: bool


class ProducerSettings(ClientSettings, total=False):
    """The fields of `ProducerOptions`, as keywords."""

    send_timeout_s: float
    retries: int
    retry_when_not_stored: bool
    compress_from_bytes: int
    compress_level: int
    compression: Compression
    message_bytes_max: int
    default_topic: str
    default_topic_queues: int
    timers_at_any_broker: bool
    avoid_slow_brokers: bool
    slow_broker_pauses: SlowBrokerPauses
    hooks: tuple[SendHook, ...]
    interceptors: tuple[SendInterceptor, ...]
    codec: CodecLike
    client: ClientOptions


class ConsumerSettings(ClientSettings, total=False):
    """The fields of `ConsumerOptions`, as keywords."""

    message_model: MessageModel
    consume_from: ConsumeFrom
    consume_from_timestamp_ms: int | None
    allocate: Allocate
    flow: FlowLimits
    on_queues_changed: QueueListener | None
    on_statistics: StatisticsListener | None
    statistics_interval_s: float
    rebalance_interval_s: float
    offset_persist_interval_s: float
    pull_suspend_s: float
    pull_timeout_s: float
    pull_retry_delay_s: float
    codec: CodecLike
    body_bytes_max: int
    offsets_dir: Path
    offset_store: OffsetStore | None
    client: ClientOptions


class PushSettings(ConsumerSettings, total=False):
    """The fields of `PushOptions`, as keywords."""

    pull_batch: int
    max_reconsume_times: int
    hooks: tuple[ConsumeHook, ...]
    interceptors: tuple[ConsumeInterceptor, ...]
    decode_errors: DecodeErrors
    consume_timeout_s: float
    consume_timeout_delay_level: int
    shutdown_grace_s: float


class LitePullSettings(ConsumerSettings, total=False):
    """The fields of `LitePullOptions`, as keywords."""

    pull_batch: int
    poll_messages_max: int
    auto_commit: bool
