"""Options of clients. The defaults are the Java client's unless a field says otherwise."""

import ssl
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from lanemq.wire import SystemTopic, topic_name_problem

from ._acl import Credentials
from ._allocation import Allocate, allocate_averagely
from ._consume_hooks import ConsumeHook
from ._flow import FlowLimits
from ._latency_faults import JAVA_PAUSES, SlowBrokerPauses
from ._remoting import RemotingOptions
from ._send_hooks import SendHook


class MessageModel(Enum):
    """Who of a group gets a message."""

    CLUSTERING = "CLUSTERING"
    """One of its consumers; offsets are kept at the broker."""
    BROADCASTING = "BROADCASTING"
    """Every consumer; offsets are kept in a local file, and nothing is delivered again."""


class ConsumeFrom(Enum):
    """Where a group starts in a queue for which no offset was ever committed.

    A broker answers 0 for a queue so young that its first message is still in memory, and
    then that is where the group starts, whatever is chosen here. So it is with every client.
    """

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    """After the newest message."""
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    """At the oldest message that the broker still has."""
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
    """At the first message stored at a given time."""


def _positive(owner: object, *names: str) -> None:
    for name in names:
        if getattr(owner, name) <= 0:
            raise ValueError(f"{type(owner).__name__}.{name} must be positive")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientOptions:
    """What producers and consumers share."""

    instance: str = "default"
    """Sets apart two broadcasting consumers of one group and user on a machine: each needs a
    local offset file of its own. Letters, digits, ``-`` and ``_``."""
    heartbeat_interval_s: float = 30.0
    """Seconds between two heartbeats; a broker forgets a client after 120."""
    route_refresh_s: float = 30.0
    """Seconds between two looks at the routes of the topics in use."""
    call_timeout_s: float = 3.0
    """Seconds to wait for answers other than to a send or a pull."""
    trace: bool = False
    """Whether what is sent and consumed is recorded in ``trace_topic``, where
    `mqadmin queryMsgTraceById` and dashboards find it."""
    trace_topic: str = SystemTopic.TRACE
    """Topic of the traces."""
    remoting: RemotingOptions = field(default_factory=RemotingOptions)
    """Limits of the connections."""
    telemetry: bool = False
    """Whether sends, polls and calls of listeners make OpenTelemetry spans and metrics, and
    messages carry their sender's context. Needs ``pip install 'lanemq[otel]'``."""
    namespace: str = ""
    """Put before the names of topics and groups on their way to the brokers, as ``NS%topic``,
    and taken away from what comes back. Letters, digits, ``-`` and ``_``."""
    credentials: Credentials | None = None
    """Sign every request, for servers with ``aclEnable=true``."""
    tls: ssl.SSLContext | None = None
    """Have every connection to name servers and brokers protected, as this context says: its
    authorities, its certificate, and whether names are checked. Brokers are addressed as the
    name server lists them, mostly by IP address."""
    unit_name: str = ""
    """The unit to ask an HTTP endpoint for; without an endpoint it means nothing."""
    name_server_refresh_s: float = 120.0
    """Seconds between two questions to an HTTP endpoint."""
    logical_queues: bool = True
    """Whether topics with logical queues show these: queues that stay the same while brokers
    come and go. Without it the client sees what older ones see."""

    def __post_init__(self) -> None:
        _positive(
            self,
            "heartbeat_interval_s",
            "route_refresh_s",
            "call_timeout_s",
            "name_server_refresh_s",
        )
        if not self.instance.replace("-", "").replace("_", "").isalnum():
            raise ValueError(
                f"ClientOptions.instance: {self.instance!r} has other characters than letters,"
                " digits, - and _"
            )
        if self.namespace and ("%" in self.namespace or topic_name_problem(self.namespace)):
            raise ValueError(f"ClientOptions.namespace: {self.namespace!r} is no name")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerOptions:
    """Options of `open_producer`."""

    send_timeout_s: float = 3.0
    """Seconds for one send, all its attempts together."""
    retries: int = 2
    """Further attempts of a send after one that failed retriably, on another broker if there
    is one. A retried message may be stored twice."""
    retry_when_not_stored: bool = False
    """Whether a status other than ``SendStatus.OK`` counts as failed too."""
    compress_from_bytes: int = 4096
    """Bodies at least this long are compressed with zlib."""
    compress_level: int = 5
    """zlib's level, 0 to 9."""
    message_bytes_max: int = 4 << 20
    """Longest body that is sent, in bytes before compression; also of a whole batch."""
    default_topic: str = SystemTopic.AUTO_CREATE
    """The topic whose brokers take messages of a topic that does not exist yet."""
    default_topic_queues: int = 4
    """Queues that such a new topic gets on each broker."""
    avoid_slow_brokers: bool = False
    """Whether a broker that was slow, or failed, is left aside for a while (Java's
    ``sendLatencyFaultEnable``)."""
    slow_broker_pauses: SlowBrokerPauses = JAVA_PAUSES
    """How long it is left aside: pairs of (latency from which on, pause), in seconds. A failure
    counts as a latency of 30."""
    hooks: tuple[SendHook, ...] = ()
    """Told of every attempt to send."""
    client: ClientOptions = field(default_factory=ClientOptions)
    """What producers and consumers share."""

    def __post_init__(self) -> None:
        _positive(self, "send_timeout_s", "message_bytes_max", "default_topic_queues")
        if self.retries < 0:
            raise ValueError("ProducerOptions.retries must not be negative")
        if not 0 <= self.compress_level <= 9:
            raise ValueError("ProducerOptions.compress_level must be from 0 to 9")
        if list(self.slow_broker_pauses) != sorted(self.slow_broker_pauses):
            raise ValueError("ProducerOptions.slow_broker_pauses must ascend")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerOptions:
    """What every kind of consumer has."""

    message_model: MessageModel = MessageModel.CLUSTERING
    """Who of the group gets a message."""
    consume_from: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    """Where a group without committed offsets starts."""
    consume_from_timestamp_ms: int | None = None
    """Milliseconds since 1970 for ``ConsumeFrom.TIMESTAMP``; None is half an hour ago."""
    allocate: Allocate = allocate_averagely
    """How the queues are divided; all consumers of a group must agree."""
    flow: FlowLimits = field(default_factory=FlowLimits)
    """What one queue may hold before its pulls pause."""
    rebalance_interval_s: float = 20.0
    """Seconds between two looks at who is in the group; a broker's notice comes sooner."""
    offset_persist_interval_s: float = 5.0
    """Seconds between two reports of progress."""
    pull_suspend_s: float = 15.0
    """Seconds that a broker may hold a pull which finds nothing."""
    pull_timeout_s: float = 30.0
    """Seconds after which a pull is given up."""
    pull_retry_delay_s: float = 1.0
    """Seconds to wait after a pull that failed (3 in 4.9.8, 1 in newer Java clients)."""
    offsets_dir: Path = field(default_factory=lambda: Path.home() / ".lanemq" / "offsets")
    """Folder of the local offset files of broadcasting consumers."""
    client: ClientOptions = field(default_factory=ClientOptions)
    """What producers and consumers share."""

    def _check(self) -> None:
        _positive(
            self,
            "rebalance_interval_s",
            "offset_persist_interval_s",
            "pull_suspend_s",
            "pull_timeout_s",
            "pull_retry_delay_s",
        )
        if self.pull_timeout_s <= self.pull_suspend_s:
            raise ValueError("pull_timeout_s must be longer than pull_suspend_s")


@dataclass(frozen=True, kw_only=True, slots=True)
class PushOptions(ConsumerOptions):
    """Options of `open_push_consumer`."""

    pull_batch: int = 32
    """Messages asked for in one pull; a broker may bring fewer."""
    max_reconsume_times: int = 16
    """Deliveries after the first, before a message goes to the dead letter queue."""
    hooks: tuple[ConsumeHook, ...] = ()
    """Told of every call of the listener."""
    consume_timeout_s: float = 900.0
    """Seconds after which a listener that does not return is cancelled and its messages are
    delivered again."""
    consume_timeout_delay_level: int = 3
    """Delay level of that delivery (3 is 10 s)."""
    shutdown_grace_s: float = 10.0
    """Seconds that running listeners get to finish when the ``async with`` block ends. They
    get none when it is left by an error or a cancellation."""

    def __post_init__(self) -> None:
        self._check()
        _positive(self, "pull_batch", "consume_timeout_s")
        if self.max_reconsume_times < 0 or self.shutdown_grace_s < 0:
            raise ValueError("max_reconsume_times and shutdown_grace_s must not be negative")


@dataclass(frozen=True, kw_only=True, slots=True)
class LitePullOptions(ConsumerOptions):
    """Options of `open_lite_pull_consumer`."""

    pull_batch: int = 32
    """Messages asked for in one pull (10 in Java); a broker may bring fewer."""
    poll_messages_max: int = 32
    """Messages that one ``poll`` returns at most."""
    auto_commit: bool = True
    """Whether ``poll`` commits what earlier polls returned, every
    ``offset_persist_interval_s``; the end of the ``async with`` block commits it all."""

    def __post_init__(self) -> None:
        self._check()
        _positive(self, "pull_batch", "poll_messages_max")
