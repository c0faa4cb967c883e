"""Which places in which queues a record has: one in its own queue, and one in each light queue.

A light queue (LMQ) is queue 0 of a topic whose name begins with ``%LMQ%``. A message names those
it belongs to in a property; the store adds its offsets there in another one, so that a redo finds
them. Source: RocketMQ 5.3.3, MultiDispatchUtils and LmqDispatch.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final

from lanemq.wire import (
    LMQ_PREFIX,
    RETRY_PREFIX,
    Property,
    SystemTopic,
    decode_properties,
    encode_properties,
    get_property,
)

from ._records import Record

LMQ_QUEUE_ID: Final = 0
SEPARATOR: Final = b","
NAMES: Final = Property.INNER_MULTI_DISPATCH.encode()
OFFSETS: Final = Property.INNER_MULTI_QUEUE_OFFSET.encode()
LMQ_PREFIX_DATA: Final = LMQ_PREFIX.encode()
SYSTEM_PREFIX: Final = "rmq_sys_"


class Place(NamedTuple):
    """A slot of a queue; ``queue_offset`` counts messages."""

    topic: str
    queue_id: int
    queue_offset: int


def light_queues(topic: str, properties: bytes) -> list[str]:
    """The names of the light queues that a message of ``topic`` asks for, in order."""
    if topic.startswith((RETRY_PREFIX, SYSTEM_PREFIX)) or topic == SystemTopic.SCHEDULE:
        return []
    names = get_property(properties, NAMES) or b""
    return [name.decode("utf-8", "replace") for name in names.split(SEPARATOR) if _is_light(name)]


def with_light_offsets(properties: bytes, offsets: Mapping[str, int]) -> bytes:
    """The properties, saying which place the message has in each of its light queues."""
    members = decode_properties(properties)
    names = members[Property.INNER_MULTI_DISPATCH].split(",")
    members[Property.INNER_MULTI_QUEUE_OFFSET] = ",".join(
        str(offsets[name]) if name in offsets else "" for name in names
    )
    return encode_properties(members)


def _is_light(name: bytes) -> bool:
    return name.startswith(LMQ_PREFIX_DATA) and b"/" not in name


def _light_places(record: Record) -> Iterator[Place]:
    names = get_property(record.properties, NAMES)
    offsets = get_property(record.properties, OFFSETS)
    if names is None or offsets is None or not light_queues(record.topic, record.properties):
        return
    pairs = zip(names.split(SEPARATOR), offsets.split(SEPARATOR), strict=False)
    for name, offset in pairs:
        if _is_light(name) and offset.isdigit():
            yield Place(name.decode("utf-8", "replace"), LMQ_QUEUE_ID, int(offset))


@final
class Places:
    """Finds them for what is dispatched again from the log."""

    def __init__(self, *, multi_dispatch: bool, deleted: Mapping[str, int]) -> None:
        self._multi_dispatch = multi_dispatch
        self._deleted = deleted

    def of(self, record: Record) -> Sequence[Place]:
        """None for what is in no queue, and for what was put before its topic was deleted."""
        if not record.is_queued:
            return ()
        places = [Place(record.topic, record.queue_id, record.queue_offset)]
        if self._multi_dispatch and NAMES in record.properties:
            places += _light_places(record)
        if self._deleted:
            places = [
                place for place in places if record.position >= self._deleted.get(place.topic, 0)
            ]
        return places
