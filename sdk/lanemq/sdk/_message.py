"""Messages to send, and the answers to sends."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, final

import msgspec

from lanemq.wire.bodies import MessageQueue

NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


@final
class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message to send.

    ``tags`` is what consumers filter by, ``keys`` what a message can be found by later;
    ``delay_level`` 1 to 18 holds it back by the broker's table (1s 5s 10s 30s 1m 2m 3m 4m 5m 6m
    7m 8m 9m 10m 20m 30m 1h 2h by default). ``body`` is bytes, or what the producer's ``codec``
    encodes. ``flag`` is 32 bits of the application's own. With
    ``wait`` False the broker answers before disk or replica have the message.

    ``delay_s`` (seconds) or ``deliver_at_ms`` (since 1970) hold it back in place of a level.
    lanemq's brokers deliver to the millisecond, Apache's of 5.x up to a second late; to others,
    those of 4.x, such a message is not sent unless the option ``timers_at_any_broker`` says so.
    """

    topic: str
    body: Any
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


def _shortened(body: object) -> str:
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
