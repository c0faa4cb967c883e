"""The positions of a record: one in its own queue, and one in each light queue.

A light queue (LMQ) is queue 0 of a topic whose name begins with ``%LMQ%``. A message names those
it belongs to in a property; the store adds its offsets there in another one, so that a redo finds
them. Source: RocketMQ 5.3.3, MultiDispatchUtils and LmqDispatch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final

from lanemq.wire import LMQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, SysFlag, SystemTopic
from lanemq.wire.message import (
    Property,
    get_property,
    remove_property,
    set_property,
)

from ..log._records import UNQUEUED, Record

LMQ_QUEUE_ID: Final = 0
SEPARATOR: Final = b","
NAMES: Final = Property.INNER_MULTI_DISPATCH.encode()
OFFSETS: Final = Property.INNER_MULTI_QUEUE_OFFSET.encode()
LMQ_PREFIX_DATA: Final = LMQ_PREFIX.encode()
LIGHT_QUEUES_MAX: Final = 64
"""Most light queues of one message: each gets a unit, and a new one its files, in one turn."""
UNDECIDED: Final = (SystemTopic.TRANSACTION_HALF, SystemTopic.TRANSACTION_CHECK_MAX_TIME)
"""The topics of messages whose transaction has not been committed."""
UNPLACED: Final = UNQUEUED | SysFlag.INNER_BATCH
"""Bits of the sysFlag of records without a position: of those in no queue, and of those that hold
several messages, whose queues are of another kind."""


class QueuePosition(NamedTuple):
    """The position of a message in one queue; ``queue_offset`` counts messages."""

    topic: str
    queue_id: int
    queue_offset: int


def light_queues(topic: str, properties: bytes) -> list[str]:
    """Return the names of the light queues that a new message of ``topic`` asks for, in order.

    It goes into the first ``LIGHT_QUEUES_MAX`` of them; one of a transaction goes into none before
    it is committed.
    """
    if topic in UNDECIDED or not _may_have_lights(topic):
        return []
    names = get_property(properties, NAMES) or b""
    return [name.decode("utf-8", "replace") for name in names.split(SEPARATOR) if _is_light(name)]


def _may_have_lights(topic: str) -> bool:
    """Return whether records of a topic may be in light queues; Apache's half messages are."""
    is_own = topic.startswith((RETRY_PREFIX, SYSTEM_TOPIC_PREFIX)) or topic == SystemTopic.SCHEDULE
    return not is_own


def with_light_offsets(properties: bytes, offsets: Mapping[str, int]) -> bytes:
    """Return the properties with the message's offset in each of its light queues.

    Without any they say nothing of offsets: what they said was another's, as dispatch from the
    log would believe it. All other bytes stay, whatever they are.
    """
    if not offsets:
        return remove_property(properties, OFFSETS)
    names = (get_property(properties, NAMES) or b"").split(SEPARATOR)
    found = (offsets.get(name.decode("utf-8", "replace"), "") for name in names)
    return set_property(properties, OFFSETS, ",".join(map(str, found)).encode())


def cut_to_lights(properties: bytes, names: Iterable[str]) -> bytes:
    """Return the properties of a message that asks for no light queues but these."""
    return set_property(properties, NAMES, ",".join(names).encode())


def _is_light(name: bytes) -> bool:
    return name.startswith(LMQ_PREFIX_DATA) and b"/" not in name


def light_positions(topic: str, properties: bytes) -> Iterator[QueuePosition]:
    """Iterate over a message's positions in light queues, as its properties say."""
    names = get_property(properties, NAMES)
    offsets = get_property(properties, OFFSETS)
    if names is None or offsets is None or not _may_have_lights(topic):
        return
    pairs = zip(names.split(SEPARATOR), offsets.split(SEPARATOR), strict=False)
    for name, offset in pairs:
        if _is_light(name) and offset.isdigit():
            yield QueuePosition(name.decode("utf-8", "replace"), LMQ_QUEUE_ID, int(offset))


@final
class QueuePositions:
    """The lookup of queue positions for records that are dispatched again from the log."""

    def __init__(self, *, multi_dispatch: bool, deleted: Mapping[str, int]) -> None:
        self._multi_dispatch = multi_dispatch
        self._deleted = deleted

    def is_single(self, record: Record) -> bool:
        """Return whether a record's only position is known to be the one in its own queue.

        It is so for nearly all records, which saves ``of`` for them.
        """
        return not (
            record.sys_flag & UNPLACED
            or self._deleted
            or (self._multi_dispatch and NAMES in record.properties)
        )

    def of(self, record: Record) -> Sequence[QueuePosition]:
        """Return the positions of a record; none for one that is ``UNPLACED``, and for one put
        before its topic was deleted."""
        if record.sys_flag & UNPLACED:
            return ()
        positions = [QueuePosition(record.topic, record.queue_id, record.queue_offset)]
        if self._multi_dispatch and NAMES in record.properties:
            positions += light_positions(record.topic, record.properties)
        if self._deleted:
            positions = [
                one for one in positions if record.position >= self._deleted.get(one.topic, 0)
            ]
        return positions
