"""Options of clients. The defaults are the Java client's unless a field says otherwise."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from lanemq.local import user_path
from lanemq.wire import SystemTopic, topic_name_problem
from lanemq.wire.bodies import MessageModel

from ._codecs import CodecLike, DecodeErrors, as_codec
from ._errors import WrongValue
from ._interceptors import (
    ConsumeInterceptor,
    SendInterceptor,
    check_hooks,
    check_interceptors,
    outbound,
)
from ._messages import BODY_BYTES_MAX, Message
from ._values import check_fields
from .consumer._allocation import Allocate, allocate_averagely
from .consumer._queue_changes import QueueListener
from .consumer.group._offset_store import OffsetStore
from .consumer.pulls._flow import FlowLimits
from .net._acl import Credentials
from .net._identity import DEFAULT_INSTANCE
from .net._latency_faults import JAVA_PAUSES, SlowBrokerPauses
from .net._remoting import RemotingOptions
from .observe._consume_hooks import ConsumeHook
from .observe._send_hooks import SendHook
from .observe._statistics import StatisticsListener

PULL_SUSPEND_S_MAX: Final = 86_400.0


class ConsumeFrom(Enum):
    """The start of a group in a queue for which no offset was ever committed.

    A broker answers 0 for a queue so young that its first message is still in memory, and
    then that is where the group starts, whatever is chosen here. So it is with every client.
    """

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    """Start after the newest message."""
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    """Start at the oldest message that the broker still has."""
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
    """Start at the first message stored at a given time."""


class Compression(Enum):
    """The compression of long bodies.

    Brokers store them as they come: it is the consumers that have to know the kind. Java's do
    since 4.9.4, lanemq's all.
    """

    ZLIB = "ZLIB"
    """Known to every consumer and every broker."""
    LZ4 = "LZ4"
    """Takes the least processor time. Goes to brokers since 5.0; to others bodies go with zlib."""
    ZSTD = "ZSTD"
    """Smaller than zlib and faster. To brokers as LZ4."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientOptions:
    """Options that producers and consumers share."""

    instance: str = DEFAULT_INSTANCE
    """Sets apart two broadcasting consumers of one group and user on a machine: each needs a
    local offset file of its own. Another name than the default is part of the client's id, which
    tools show; the id is unique without it. Letters, digits, ``-`` and ``_``."""
    heartbeat_interval_s: float = 30.0
    """Seconds between two heartbeats; a broker forgets a client after 120."""
    route_refresh_s: float = 30.0
    """Seconds between two looks at the routes of the topics in use."""
    call_timeout_s: float = 3.0
    """Seconds to wait for answers other than to a send or a pull."""
    trace: bool = False
    """Record sends and consumption in ``trace_topic``: `mqadmin queryMsgTraceById` and dashboards
    read it."""
    trace_topic: str = SystemTopic.TRACE
    """Topic of the traces."""
    remoting: RemotingOptions = field(default_factory=RemotingOptions)
    """Limits of the connections."""
    telemetry: bool = False
    """Make OpenTelemetry spans and metrics of sends, polls and listeners' calls. Messages then
    carry their sender's context. Needs ``pip install 'lanemq[otel]'``."""
    namespace: str = ""
    """Prefix of topics and groups on their way to the brokers, as ``NS%topic``; it is taken away
    from what comes back. Letters, digits, ``-`` and ``_``."""
    credentials: Credentials | None = None
    """Sign every request, for servers with ``aclEnable=true``."""
    tls: ssl.SSLContext | None = None
    """TLS for every connection to name servers and brokers: the context names authorities and
    certificate, and says whether names are checked. Brokers are addressed as the name server lists
    them, mostly by IP address."""
    unit_name: str = ""
    """The unit to ask an HTTP endpoint for; without an endpoint it means nothing."""
    name_server_refresh_s: float = 120.0
    """Seconds between two questions to an HTTP endpoint."""
    require_route: bool = False
    """Fail to open, or to subscribe, where a topic has no route or no name server answers: the
    topics of subscriptions, and of a producer's ``topics``. False waits in the background."""
    logical_queues: bool = True
    """See the logical queues of topics that have them: queues that stay the same while brokers come
    and go. False sees what older clients see."""

    def __post_init__(self) -> None:
        periods = "heartbeat_interval_s", "route_refresh_s", "name_server_refresh_s"
        check_fields(self, positive=(*periods, "call_timeout_s"))
        if not self.instance.replace("-", "").replace("_", "").isalnum():
            raise ValueError(
                f"ClientOptions.instance: {self.instance!r} has other characters than letters,"
                " digits, - and _"
            )
        problem = topic_name_problem(self.trace_topic)
        if problem:
            raise WrongValue(f"ClientOptions.trace_topic: {problem}")
        if self.namespace and ("%" in self.namespace or topic_name_problem(self.namespace)):
            raise ValueError(f"ClientOptions.namespace: {self.namespace!r} is not a name")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerOptions:
    """Options of `open_producer`."""

    send_timeout_s: float = 3.0
    """Seconds for one send, all its attempts together."""
    retries: int = 2
    """Further attempts of a send after one that failed retriably, on another broker if there
    is one. A retried message may be stored twice."""
    retry_when_not_stored: bool = False
    """Count a status other than ``SendStatus.OK`` as a failure, too."""
    compress_from_bytes: int = 4096
    """Bodies at least this long are compressed."""
    compress_level: int = 5
    """Level of zlib, and of zstd: 0 to 9."""
    compression: Compression = Compression.ZLIB
    """The compression of those. Lz4 and zstd are for topics whose consumers know them; brokers
    before 5.0, and lanemq's, are sent zlib."""
    message_bytes_max: int = 4 << 20
    """Longest body that is sent, in bytes before compression; also of a whole batch."""
    default_topic: str = SystemTopic.AUTO_CREATE
    """The topic whose brokers take messages of a topic that does not exist yet."""
    default_topic_queues: int = 4
    """Queues that such a new topic gets on each broker."""
    timers_at_any_broker: bool = False
    """Let brokers before 5.0 have messages with ``delay_s`` or ``deliver_at_ms``: they do not know
    timers, and deliver at once. False refuses such a send."""
    avoid_slow_brokers: bool = False
    """Avoid a broker for a while after it was slow or failed (Java's
    ``sendLatencyFaultEnable``)."""
    slow_broker_pauses: SlowBrokerPauses = JAVA_PAUSES
    """Pauses in which it gets nothing: pairs of (latency from which on, pause), in seconds. A
    failure counts as a latency of 30."""
    hooks: tuple[SendHook, ...] = ()
    """Hooks called around every attempt to send."""
    interceptors: tuple[SendInterceptor, ...] = ()
    """Functions that may alter messages before they are encoded, called in this order."""
    codec: CodecLike = None
    """Encodes ``Message.body`` of every message; None takes bytes only."""
    client: ClientOptions = field(default_factory=ClientOptions)
    """Options that producers and consumers share."""

    def __post_init__(self) -> None:
        check_fields(
            self,
            positive=("send_timeout_s", "message_bytes_max", "default_topic_queues"),
            not_negative=("retries", "compress_from_bytes"),
        )
        check_hooks("ProducerOptions.hooks", self.hooks)
        if not 0 <= self.compress_level <= 9:
            raise ValueError("ProducerOptions.compress_level must be from 0 to 9")
        check_interceptors("ProducerOptions.interceptors", self.interceptors)
        as_codec(self.codec)
        if list(self.slow_broker_pauses) != sorted(self.slow_broker_pauses):
            raise ValueError("ProducerOptions.slow_broker_pauses must ascend")

    def outbound(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return messages as they are sent: intercepted, then encoded.

        Raises ``MessageRejected``, ``WrongUse``, and what interceptors raise.
        """
        if self.codec is None and not self.interceptors:
            return messages
        return [outbound(message, self.interceptors, self.codec) for message in messages]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerOptions:
    """Options of every kind of consumer."""

    message_model: MessageModel = MessageModel.CLUSTERING
    """The members of the group that get a message."""
    consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    """The start of a group without committed offsets."""
    consume_from_timestamp_ms: int | None = None
    """Milliseconds since 1970 for ``ConsumeFrom.TIMESTAMP``; None is half an hour ago."""
    allocate: Allocate = allocate_averagely
    """The division of the queues; all consumers of a group must agree."""
    flow: FlowLimits = field(default_factory=FlowLimits)
    """The limits of one queue, and of one topic, from which pulls pause."""
    on_queues_changed: QueueListener | None = None
    """A function, plain or async, called with changes of the assigned queues: new ones before their
    first message comes, revoked ones when nothing more of them is handed over. A queue is not read
    before it has returned. At the consumer's end, which gives up all queues, it is not called."""
    on_statistics: StatisticsListener | None = None
    """A function, plain or async, given `ConsumerStatistics` every ``statistics_interval_s``."""
    statistics_interval_s: float = 30.0
    """Seconds between two statistics, for ``on_statistics`` and the gauges of ``telemetry``."""
    rebalance_interval_s: float = 20.0
    """Seconds between two looks at the members of the group; a broker's notice comes sooner."""
    offset_persist_interval_s: float = 5.0
    """Seconds between two reports of progress."""
    pull_suspend_s: float = 15.0
    """Seconds that a broker may hold a pull which finds nothing."""
    pull_timeout_s: float = 30.0
    """Seconds after which a pull is given up."""
    pull_retry_delay_s: float = 1.0
    """Seconds to wait after a pull that failed (3 in 4.9.8, 1 in newer Java clients)."""
    codec: CodecLike = None
    """Decodes bodies: ``message.value`` is what it returns. None: the body as it is."""
    body_bytes_max: int = BODY_BYTES_MAX
    """Longest body, in bytes, to which a compressed one is unpacked: ``message.body`` of a longer
    one raises ``BodyNotRestored``."""
    offsets_dir: Path = field(default_factory=lambda: user_path("offsets"))
    """Folder of the local offset files of broadcasting consumers."""
    offset_store: OffsetStore | None = None
    """The keeper of the group's positions, such as a `lanemq.sdk.kv.KvOffsetStore`; None is
    the brokers of its queues. Not for broadcasting consumers, which have files."""
    client: ClientOptions = field(default_factory=ClientOptions)
    """Options that producers and consumers share."""

    def _check(self, *, positive: tuple[str, ...], not_negative: tuple[str, ...] = ()) -> None:
        pulls = "pull_batch", "pull_suspend_s", "pull_timeout_s", "pull_retry_delay_s"
        periods = "rebalance_interval_s", "offset_persist_interval_s", "statistics_interval_s"
        limits = *pulls, *periods, "body_bytes_max", *positive
        check_fields(self, positive=limits, not_negative=not_negative)
        if self.consume_from_timestamp_ms is not None:
            if self.consume_from is not ConsumeFrom.TIMESTAMP:
                raise WrongValue(
                    "consume_from_timestamp_ms needs consume_from=ConsumeFrom.TIMESTAMP, not"
                    f" ConsumeFrom.{self.consume_from.name}"
                )
            if self.consume_from_timestamp_ms < 0:
                raise WrongValue("consume_from_timestamp_ms must not be before 1970")
        if self.pull_suspend_s > PULL_SUSPEND_S_MAX:
            raise WrongValue(f"pull_suspend_s must be at most {PULL_SUSPEND_S_MAX:.0f}")
        if self.pull_timeout_s <= self.pull_suspend_s:
            raise ValueError("pull_timeout_s must be longer than pull_suspend_s")
        if self.offset_store and self.message_model is MessageModel.BROADCASTING:
            raise ValueError("offset_store is for clustering groups: all members share it")


@dataclass(frozen=True, kw_only=True, slots=True)
class PushOptions(ConsumerOptions):
    """Options of `open_push_consumer`."""

    pull_batch: int = 32
    """Messages asked for in one pull; a broker may bring fewer."""
    max_reconsume_times: int = 16
    """Deliveries after the first, before a message goes to the dead letter queue."""
    hooks: tuple[ConsumeHook, ...] = ()
    """Hooks called around every call of the listener."""
    interceptors: tuple[ConsumeInterceptor, ...] = ()
    """Functions that may alter messages once they are decoded, called in this order."""
    decode_errors: DecodeErrors = DecodeErrors.DEAD_LETTER
    """The fate of messages whose body ``codec`` cannot decode."""
    consume_timeout_s: float = 900.0
    """Seconds after which a listener that does not return is cancelled and its messages are
    delivered again."""
    consume_timeout_delay_level: int = 3
    """Delay level of that delivery (3 is 10 s)."""
    shutdown_grace_s: float = 10.0
    """Seconds that running listeners get to finish when the ``async with`` block ends. They
    get none when it is left by an error or a cancellation."""

    def __post_init__(self) -> None:
        self._check(
            positive=("consume_timeout_s",),
            not_negative=("max_reconsume_times", "shutdown_grace_s"),
        )
        check_hooks("PushOptions.hooks", self.hooks)
        check_interceptors("PushOptions.interceptors", self.interceptors)
        as_codec(self.codec)


@dataclass(frozen=True, kw_only=True, slots=True)
class LitePullOptions(ConsumerOptions):
    """Options of `open_lite_pull_consumer`."""

    pull_batch: int = 32
    """Messages asked for in one pull (10 in Java); a broker may bring fewer."""
    poll_messages_max: int = 32
    """Messages that one ``poll`` returns at most."""
    auto_commit: bool = True
    """Let ``poll`` commit what earlier polls returned, every ``offset_persist_interval_s``; the end
    of the ``async with`` block commits it all."""

    def __post_init__(self) -> None:
        self._check(positive=("poll_messages_max",))
        as_codec(self.codec)
