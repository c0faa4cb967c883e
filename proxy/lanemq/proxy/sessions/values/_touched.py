"""The objects that a stored message belongs to; who touches the message needs the right to them.

They are what the record says, whatever a request says about it. A message that waits in a topic of
the broker's own belongs to the topic that it is for.
"""

from typing import Final

from lanemq.wire import SystemTopic
from lanemq.wire.message import Property, StoredMessage, decode_message

from ...acl import Touched, produces_as, reads_of
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


def touched_by_record(record: bytes) -> tuple[Touched, ...]:
    """Return the objects that it touches to read a record. Raises ``RemoteProtocolError``."""
    return touched_by_reading(decode_message(record))


def owner_of(message: StoredMessage) -> str:
    """Return the topic that a message belongs to."""
    topic = message.topic
    return (stated_topic(message) or topic) if topic in _WAITING else topic
