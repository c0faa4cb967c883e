"""Messages that the harness sends and drivers report, in one shape for all clients."""

import msgspec


class Outgoing(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message to send."""

    topic: str
    body: bytes
    tags: str | None = None
    keys: str | None = None
    """Separated by blanks, as on the wire."""
    flag: int = 0
    properties: dict[str, str] = {}
    delay_level: int = 0


class Sent(msgspec.Struct, frozen=True):
    """The result of a send, as the client reported it."""

    status: str
    """Java's names: ``SEND_OK`` and so on."""
    message_id: str
    """The unique key where the client makes one, else the offset id."""
    offset_id: str
    queue_id: int
    queue_offset: int
    broker_name: str = ""
    """The broker's name, only from Java clients and the SDK."""
    origin_broker: str | None = None
    """The broker that really has the message, where it was read from a logical queue."""
    origin_queue_id: int | None = None
    transaction_id: str | None = None
    """The id of a half message; the offset id where the client makes no unique key."""


class Reply(msgspec.Struct, frozen=True):
    """The reply to a request, as the client handed it to its application."""

    body: bytes
    properties: dict[str, str]


class Received(msgspec.Struct, frozen=True):
    """A message as a client handed it to its application."""

    topic: str
    body: bytes
    flag: int
    properties: dict[str, str]
    queue_id: int
    queue_offset: int
    reconsume_times: int
    message_id: str
    offset_id: str
    born_timestamp_ms: int
    store_timestamp_ms: int
    tags: str | None = None
    keys: str | None = None
    broker_name: str = ""
    """The name of the queue's broker; only from Java clients and the SDK."""


class Pulled(msgspec.Struct, frozen=True):
    """The result of one pull; offsets count messages."""

    status: str
    """Java's names: ``FOUND``, ``NO_NEW_MSG``, ``NO_MATCHED_MSG``, ``OFFSET_ILLEGAL``."""
    next_offset: int
    min_offset: int
    max_offset: int
    messages: list[Received]


class Delivery(msgspec.Struct, frozen=True):
    """One call of a consumer's listener."""

    message: Received
    succeeded: bool
    """The listener's answer."""
    at_s: float
    """Time when the harness heard of it, on trio's clock."""
