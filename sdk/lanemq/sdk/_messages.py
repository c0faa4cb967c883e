"""Messages as applications see them."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, final

import msgspec

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.message import Property, StoredMessage, get_property

from ._namespace import out_of_namespace

SYSTEM_PROPERTIES: Final = frozenset(
    value for name, value in vars(Property).items() if not name.startswith("_")
)
"""Properties that clients and brokers set, or that have a field of their own."""
NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


@final
class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message to send.

    ``tags`` is what consumers filter by, ``keys`` what a message can be found by later;
    ``delay_level`` 1 to 18 holds it back by the broker's table (1s 5s 10s 30s 1m 2m 3m 4m 5m 6m
    7m 8m 9m 10m 20m 30m 1h 2h by default). ``flag`` is 32 bits of the application's own. With
    ``wait`` False the broker answers before disk or replica have the message.

    ``delay_s`` (seconds) or ``deliver_at_ms`` (since 1970) hold it back in place of a level.
    lanemq's brokers deliver to the millisecond, Apache's of 5.x up to a second late; to others,
    those of 4.x, such a message is not sent unless the option ``timers_at_any_broker`` says so.
    """

    topic: str
    body: bytes
    tags: str = ""
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = NO_PROPERTIES
    delay_level: int = 0
    flag: int = 0
    wait: bool = True
    delay_s: float | None = None
    deliver_at_ms: int | None = None

    def __reduce__(self) -> tuple[object, ...]:
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        return _message, (given | {"properties": dict(self.properties)},)

    def __repr__(self) -> str:
        shown = [f"topic={self.topic!r}", f"body={_shortened(self.body)}"]
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            if field.name not in ("topic", "body") and value != field.default:
                shown.append(f"{field.name}={value!r}")
        return f"Message({', '.join(shown)})"

    @property
    def is_delayed(self) -> bool:
        """True if it is held back in any of the three ways."""
        return bool(self.delay_level or self.delay_s is not None or self.deliver_at_ms is not None)


BODY_SHOWN: Final = 40


def _shortened(body: bytes) -> str:
    """Return a body as a repr shows it: whole if it is short, else its beginning and its size."""
    if not isinstance(body, bytes) or len(body) <= BODY_SHOWN:
        return repr(body)
    return f"{body[:BODY_SHOWN]!r}… of {len(body)} bytes"


def _message(fields: dict[str, Any]) -> Message:
    return Message(**fields)


class SendStatus(Enum):
    """The durability of a stored message when its broker answers."""

    OK = 0
    """Stored as safely as the broker is configured to store it."""
    FLUSH_DISK_TIMEOUT = 10
    """Stored; the disk did not confirm in time."""
    SLAVE_NOT_AVAILABLE = 11
    """Stored; there is no replica to copy it to."""
    FLUSH_SLAVE_TIMEOUT = 12
    """Stored; the replica did not confirm in time."""


@final
class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's answer to a send.

    ``message_id`` is the unique key, the same on every retry; ``offset_id`` names the place in
    the broker's log. For a batch both are joined by commas, and ``queue_offset`` (a count of
    messages) is that of the first. ``transaction_id`` is the broker's, if it gave one, and
    ``trace_on`` whether it wants its messages traced. With ``recall_handle`` a message that waits
    for its time can be taken back (`Producer.recall`); None where that cannot be.

    Of a logical queue, ``queue`` and ``queue_offset`` are the logical ones; ``origin`` and
    ``origin_offset`` say where the message really is (else ``origin`` is None). The logical
    offset may be -1: for a moment of a migration nobody knows it, and the message has it all
    the same.
    """

    status: SendStatus
    message_id: str
    offset_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region: str | None = None
    trace_on: bool = True
    origin: MessageQueue | None = None
    origin_offset: int | None = None
    recall_handle: str | None = None


class Outcome(Enum):
    """A listener's verdict on its messages. Returning None means ``SUCCESS``."""

    SUCCESS = "success"
    RETRY = "retry"
    """Deliver them again later; raising an exception means the same."""
    SUSPEND_CURRENT_QUEUE = "suspend current queue"
    """Orderly and staged listeners: try again in place after a pause, and let later messages wait.
    There ``RETRY`` and an exception mean the same."""


def is_success(result: object) -> bool:
    """Return whether a listener's result settles its messages."""
    return result is None or result is Outcome.SUCCESS


DELAY_LEVEL_MAX: Final = 18


@final
class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """A listener's ``Outcome.RETRY`` with details.

    Raises ``ValueError`` for values that make no sense.

    Source: RocketMQ 4.9.8, ConsumeConcurrentlyContext (delayLevelWhenNextConsume, ackIndex),
    ConsumeOrderlyContext (suspendCurrentQueueTimeMillis).
    """

    settled: int = 0
    """Number of messages, counted from the first, that are done with all the same."""
    delay_level: int = 0
    """Delay of the next delivery to a ``ConcurrentListener``, as a level of the broker's table, 1
    to 18; 0 is as for ``Outcome.RETRY``, later each time."""
    suspend_s: float | None = None
    """Seconds until an orderly or staged listener is handed the messages again; None is the
    listener's own ``suspend_s``."""

    def __post_init__(self) -> None:
        if self.settled < 0:
            raise ValueError(f"Retry.settled must not be negative: {self.settled}")
        if not 0 <= self.delay_level <= DELAY_LEVEL_MAX:
            raise ValueError(
                f"Retry.delay_level must be from 0 to {DELAY_LEVEL_MAX}, not {self.delay_level}"
            )
        if self.suspend_s is not None and not 0 <= self.suspend_s < float("inf"):
            raise ValueError(f"Retry.suspend_s must be seconds from 0 on, not {self.suspend_s}")


_RETRY_TOPIC = Property.RETRY_TOPIC.encode()


@final
class ReceivedMessage:
    """A message that came from a broker. Bodies and properties are decoded when first read.

    ``queue`` is where it was read: for a message that comes again that is a queue of the
    group's retry topic, while ``topic`` stays the one it was sent to. It may be a logical
    queue; ``origin`` is the real one, and ``queue_offset`` is of ``queue``.
    """

    __slots__ = (
        "_body",
        "_properties",
        "full_topic",
        "origin",
        "queue",
        "queue_offset",
        "retries_in_place",
        "size_bytes",
        "stored",
        "topic",
    )

    def __init__(
        self,
        stored: StoredMessage,
        queue: MessageQueue,
        namespace: str = "",
        origin: MessageQueue | None = None,
        shift: int = 0,
    ) -> None:
        self.stored = stored
        """The record as the broker keeps it."""
        self.queue = queue
        self.origin = queue if origin is None else origin
        """The place of the record."""
        self.queue_offset: int = stored.queue_offset + shift
        """Place in the queue; counts messages."""
        self.size_bytes: int = stored.size_bytes
        """Length of the stored record."""
        topic = stored.topic
        if topic.startswith("%RETRY%"):  # a dead letter keeps its own topic
            data = get_property(stored.properties_data, _RETRY_TOPIC)
            if data is not None:
                topic = data.decode("utf-8", "replace")
        self.full_topic: str = topic
        """The topic as brokers know it: with the namespace, if there is one."""
        self.topic: str = out_of_namespace(namespace, topic) if namespace else topic
        """The topic it was sent to."""
        self.retries_in_place = 0
        """Times an orderly or staged listener had it before, and asked for it again."""
        self._body: bytes | None = None
        self._properties: Mapping[str, str] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        names = ("origin", "queue_offset", "full_topic", "topic", "retries_in_place")
        rest = {name: getattr(self, name) for name in names}
        return ReceivedMessage, (self.stored, self.queue), (None, rest)

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same record, read from the same queue."""
        if not isinstance(other, ReceivedMessage):
            return NotImplemented
        return self.queue == other.queue and self.stored == other.stored

    def __hash__(self) -> int:
        return hash((self.queue, self.queue_offset))

    @property
    def body(self) -> bytes:
        """The body as it was sent.

        Raises ``lanemq.wire.RemoteProtocolError`` if it is compressed and cannot be restored.
        """
        if self._body is None:
            self._body = self.stored.decompressed_body()
        return self._body

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties, those of the system included."""
        if self._properties is None:
            self._properties = MappingProxyType(self.stored.properties)
        return self._properties

    @property
    def user_properties(self) -> Mapping[str, str]:
        """The properties that the sender's application set, without those of the system."""
        found = self.properties
        return {name: found[name] for name in found if name not in SYSTEM_PROPERTIES}

    @property
    def tags(self) -> str:
        return self.properties.get(Property.TAGS, "")

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.properties.get(Property.KEYS, "").split())

    @property
    def message_id(self) -> str:
        """The sender's unique key, or the offset id if the sender was too old to make one."""
        return self.properties.get(Property.UNIQ_KEY) or self.stored.offset_id

    @property
    def offset_id(self) -> str:
        """The id that names the broker and the place in its log."""
        return self.stored.offset_id

    @property
    def born_timestamp_ms(self) -> int:
        """The time it was sent, by the sender's clock, in milliseconds since 1970."""
        return self.stored.born_timestamp_ms

    @property
    def store_timestamp_ms(self) -> int:
        """The time it was stored, by the broker's clock, in milliseconds since 1970."""
        return self.stored.store_timestamp_ms

    @property
    def born_host(self) -> str:
        """The sender's address as the broker saw it, ``host:port``."""
        return str(self.stored.born_host)

    @property
    def reconsume_times(self) -> int:
        """The number of deliveries before, in place or through the retry topic."""
        return self.stored.reconsume_times + self.retries_in_place

    @property
    def flag(self) -> int:
        """32 bits of the application's own."""
        return self.stored.flag

    def __repr__(self) -> str:
        return (
            f"<ReceivedMessage {self.message_id} of {self.topic}, queue {self.queue.queue_id} at"
            f" {self.queue.broker_name}, offset {self.queue_offset}, {self.size_bytes} bytes>"
        )
