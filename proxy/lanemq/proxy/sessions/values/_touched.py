"""The objects that a stored message belongs to; who touches the message needs the right to them.

They are what the record says, whatever a request says about it. A message that waits in a topic of
the broker's own belongs to the topic that it is for.
"""

from itertools import islice
from typing import Final

from lanemq.storage import LIGHT_QUEUES_MAX, light_positions
from lanemq.wire import SystemTopic
from lanemq.wire.message import Property, StoredMessage, decode_message

from ...acl import Rights, Touched, produces_as, reads_of
from ._waiting import stated_topic

_WAITING: Final = frozenset(
    {
        SystemTopic.SCHEDULE,
        SystemTopic.TIMER,
        SystemTopic.TRANSACTION_HALF,
        SystemTopic.TRANSACTION_CHECK_MAX_TIME,
    }
)
HALVES: Final = frozenset({SystemTopic.TRANSACTION_HALF, SystemTopic.TRANSACTION_CHECK_MAX_TIME})


def touched_by_reading(message: StoredMessage) -> tuple[Touched, ...]:
    """Return the objects that it touches to read a message."""
    topic = owner_of(message)
    group = message.properties.get(Property.PGROUP) if message.topic in HALVES else None
    read = reads_of(topic)
    return (read,) if group is None else (read, produces_as(group))


def may_read(rights: Rights, message: StoredMessage) -> bool:
    """Return whether a sender may read a message, by what it belongs to or as a reader of a light
    queue that has it."""
    if rights.may(*touched_by_reading(message)):
        return True
    lights = islice(light_positions(message.topic, message.properties_data), LIGHT_QUEUES_MAX)
    return any(rights.may(reads_of(light.topic)) for light in lights)


def require_reading(rights: Rights, message: StoredMessage) -> None:
    """Check that a sender may read a message, as ``may_read``. Raises ``Refused``."""
    if rights.are_limited and not may_read(rights, message):
        rights.require(*touched_by_reading(message))


def may_read_record(rights: Rights, record: bytes) -> bool:
    """Return whether a sender may read a record, as ``may_read``.

    Raises ``RemoteProtocolError`` for one that cannot be read.
    """
    return not rights.are_limited or may_read(rights, decode_message(record))


def require_reading_record(rights: Rights, record: bytes) -> None:
    """Check that a sender may read a record; as ``require_reading``.

    Also raises ``RemoteProtocolError`` for one that cannot be read.
    """
    if rights.are_limited:
        require_reading(rights, decode_message(record))


def owner_of(message: StoredMessage) -> str:
    """Return the topic that a message belongs to."""
    topic = message.topic
    return (stated_topic(message) or topic) if topic in _WAITING else topic
