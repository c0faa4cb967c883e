"""Messages as applications see them."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import final

import msgspec

from lanemq.wire import (
    MessageQueue,
    Property,
    StoredMessage,
    get_property,
)

from ._namespace import out_of_namespace

NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


@final
class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message to send.

    ``tags`` is what consumers filter by, ``keys`` what a message can be found by later;
    ``delay_level`` 1 to 18 holds it back by the broker's table (1s 5s 10s 30s 1m 2m 3m 4m 5m 6m
    7m 8m 9m 10m 20m 30m 1h 2h by default). ``flag`` is 32 bits of the application's own. With
    ``wait`` False the broker answers before disk or replica have the message.

    ``delay_s`` (seconds) or ``deliver_at_ms`` (since 1970) hold it back to the millisecond, in
    place of a level. Apache brokers of 5.x know these timers; brokers that do not, those of 4.x
    and lanemq's, deliver the message at once.
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

    @property
    def is_delayed(self) -> bool:
        """Whether it is held back in any of the three ways."""
        return bool(self.delay_level or self.delay_s is not None or self.deliver_at_ms is not None)


class SendStatus(Enum):
    """How safe a stored message is when its broker answers."""

    OK = 0
    """As safe as the broker is configured to make it."""
    FLUSH_DISK_TIMEOUT = 10
    """Stored; the disk did not confirm in time."""
    SLAVE_NOT_AVAILABLE = 11
    """Stored; there is no replica to copy it to."""
    FLUSH_SLAVE_TIMEOUT = 12
    """Stored; the replica did not confirm in time."""


@final
class SendResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker said to a send.

    ``message_id`` is the unique key, the same on every retry; ``offset_id`` names the place in
    the broker's log. For a batch both are joined by commas, and ``queue_offset`` (a count of
    messages) is that of the first. ``transaction_id`` is the broker's, if it gave one, and
    ``trace_on`` whether it wants its messages traced.

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


class Outcome(Enum):
    """What a listener says about its messages. Returning None means ``SUCCESS``."""

    SUCCESS = "success"
    RETRY = "retry"
    """Deliver them again later; raising an exception means the same."""
    SUSPEND_CURRENT_QUEUE = "suspend current queue"
    """For orderly and staged listeners: try again in place after a pause, and let what has to
    come later wait. There ``RETRY`` and an exception mean the same."""


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
        """Where the record lies."""
        self.queue_offset: int = stored.queue_offset + shift
        """Place in the queue; counts messages."""
        self.size_bytes: int = stored.size_bytes
        """Length of the stored record."""
        topic = stored.topic
        if topic.startswith("%RETRY%"):  # a dead letter stays under its own
            data = get_property(stored.properties_data, _RETRY_TOPIC)
            if data is not None:
                topic = data.decode("utf-8", "replace")
        self.full_topic: str = topic
        """The topic as brokers know it: with the namespace, if there is one."""
        self.topic: str = out_of_namespace(namespace, topic) if namespace else topic
        """The topic it was sent to."""
        self.retries_in_place = 0
        """How often an orderly or staged listener had it before, and asked for it again."""
        self._body: bytes | None = None
        self._properties: Mapping[str, str] | None = None

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
        """When it was sent, by the sender's clock, in milliseconds since 1970."""
        return self.stored.born_timestamp_ms

    @property
    def store_timestamp_ms(self) -> int:
        """When it was stored, by the broker's clock, in milliseconds since 1970."""
        return self.stored.store_timestamp_ms

    @property
    def born_host(self) -> str:
        """The sender's address as the broker saw it, ``host:port``."""
        return str(self.stored.born_host)

    @property
    def reconsume_times(self) -> int:
        """How often it was delivered before, in place or through the retry topic."""
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
