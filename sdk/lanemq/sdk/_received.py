"""Messages that came from a broker."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, final

from lanemq.wire import RemoteProtocolError, SysFlag
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.message import BodyTooLong, Property, StoredMessage, get_property

from ._codecs import Codec
from ._errors import BodyNotRestored, DecodingFailed
from ._namespace import out_of_namespace

SYSTEM_PROPERTIES: Final = frozenset(
    value for name, value in vars(Property).items() if not name.startswith("_")
)
"""Properties that clients and brokers set, or that have a field of their own."""
BODY_BYTES_MAX: Final = 16 << 20
"""The longest body that is unpacked, unless a consumer has another limit: as long as a frame, and
so as long as any that is not compressed can be."""
UNSET: Final = object()
"""Stands for a value that is not decoded yet."""

_RETRY_TOPIC = Property.RETRY_TOPIC.encode()


@final
class ReceivedMessage:
    """A message that came from a broker. Bodies and properties are decoded when first read.

    ``queue`` is where it was read: for a message that comes again that is a queue of the
    group's retry topic, while ``topic`` stays the one it was sent to. It may be a logical
    queue; ``origin`` is the real one, and ``queue_offset`` is of ``queue``.
    """

    __slots__ = (
        "_bad_body",
        "_body",
        "_body_bytes_max",
        "_codec",
        "_properties",
        "_value",
        "failure",
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
        body_bytes_max: int = BODY_BYTES_MAX,
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
        self.failure: str | None = None
        """The reason in one line why the listener's last call did not finish it; None before."""
        self._codec: Codec | None = None
        self._value: Any = UNSET
        self._body: bytes | None = None
        self._bad_body: str | None = None  # what kept the body from being unpacked
        self._body_bytes_max = body_bytes_max
        self._properties: Mapping[str, str] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        names = ("origin", "queue_offset", "full_topic", "topic", "retries_in_place", "failure")
        rest = {name: getattr(self, name) for name in (*names, "_body_bytes_max")}
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

        Raises ``BodyNotRestored`` if it is compressed and damaged, or longer than
        ``body_bytes_max`` of its consumer.
        """
        body = self._body  # kept at hand: the core may forget it while another thread reads it
        if body is None:
            self._unpack()
            body = self._body
            if body is None:
                reason = self._bad_body or "it was forgotten"
                raise BodyNotRestored(repr(self), self.queue, self.queue_offset, reason)
        return body

    @property
    def _is_packed(self) -> bool:
        """True for a compressed body that nobody has tried to unpack yet."""
        return (
            self._body is None
            and self.stored.sys_flag & SysFlag.COMPRESSED != 0
            and self._bad_body is None
        )

    @property
    def _unpacked_bytes(self) -> int:
        """The bytes that the unpacked body takes, beside the stored one."""
        body = self._body
        return 0 if body is None or body is self.stored.body else len(body)

    def _unpack(self) -> int:
        """Unpack the body, and return its length, or that of what was unpacked in vain."""
        if self._bad_body is not None:
            return 0
        limit = self._body_bytes_max
        try:
            body = self._body = self.stored.decompressed_body(max_bytes=limit)
        except BodyTooLong:
            self._bad_body = (
                f"it unpacks to more than body_bytes_max, {limit} bytes: open the consumer with a"
                " greater one, or abandon the message"
            )
            return limit
        except RemoteProtocolError as error:
            self._bad_body = str(error)
            return 0
        return len(body)

    def _unpack_within(self, most_bytes: int) -> int | None:
        """Unpack the body if that takes ``most_bytes`` at most; return them, or else None."""
        if self._body_bytes_max <= most_bytes:
            return self._unpack()
        try:
            body = self._body = self.stored.decompressed_body(max_bytes=most_bytes)
        except RemoteProtocolError:  # ``_unpack`` finds the reason: another limit, another error
            return None
        return len(body)

    def _note_failure(self, reason: str) -> None:
        """Note why the listener did not finish it, and forget what was unpacked.

        The consumer keeps it until it comes again, and with it as many others as have failed.
        """
        self.failure = reason
        if self._body is not self.stored.body:
            self._body, self._value = None, UNSET

    @property
    def value(self) -> Any:  # noqa: ANN401 - of the codec
        """The body as the consumer's codec decodes it; without a codec the body itself.

        Raises ``DecodingFailed``.
        """
        value = self._value
        if value is UNSET:
            codec = self._codec
            try:
                value = self._value = self.body if codec is None else codec.decode(self.body)
            except Exception as error:  # the codec's own, and damaged bodies
                raise DecodingFailed(f"{self!r} cannot be decoded: {error}") from error
        return value

    def altered(
        self,
        *,
        value: Any = UNSET,  # noqa: ANN401 - of the codec
        body: bytes | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> "ReceivedMessage":
        """Return a copy with another value, body or properties, for interceptors.

        Without ``value``, that of a new ``body`` is decoded from it.
        """
        copy = ReceivedMessage(self.stored, self.queue, origin=self.origin)
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        if body is not None:
            copy._body, copy._value = body, UNSET
        if value is not UNSET:
            copy._value = value
        if properties is not None:
            copy._properties = MappingProxyType(dict(properties))
        return copy

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
