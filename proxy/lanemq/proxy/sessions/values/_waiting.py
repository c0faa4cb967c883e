"""The topic and queue that a message is for while it waits in a topic of the broker's own.

Source: RocketMQ 4.9.8, CommitLog.asyncPutMessage, TransactionalMessageBridge.
"""

from typing import Final

from lanemq.wire import INT32, SystemTopic, read_number
from lanemq.wire.message import Property, StoredMessage, get_property, set_property

_REAL_TOPIC: Final = Property.REAL_TOPIC.encode()
_REAL_QID: Final = Property.REAL_QID.encode()
_QUEUE_ID: Final = range(INT32[-1] + 1)
_SHOWN_CHARACTERS: Final = 128


def with_target(properties: bytes, topic: str, queue_id: int) -> bytes:
    """Return the properties of a message that is to reach this queue later."""
    properties = set_property(properties, _REAL_TOPIC, topic.encode())
    return set_property(properties, _REAL_QID, str(queue_id).encode())


def target_of(message: StoredMessage) -> tuple[str, int] | None:
    """Return the topic and queue that a waiting message is for; None where it does not say.

    None of these is for the topic of half messages: a delivery there would begin a transaction.
    """
    topic, queue_id = _said(message)
    if not topic or topic == SystemTopic.TRANSACTION_HALF:
        return None
    try:
        return topic, read_number(queue_id, _QUEUE_ID)
    except ValueError:
        return None


def no_target(message: StoredMessage) -> str:
    """Return why a message has no target, for those who have to look at it."""
    topic, queue_id = (text[:_SHOWN_CHARACTERS] for text in _said(message))
    return f"its REAL_TOPIC {topic!r} and REAL_QID {queue_id!r} name no queue that it may go to"


def stated_topic(message: StoredMessage) -> str:
    """Return the topic that a waiting message says it is for, whether there is such a queue or
    not; "" where it names none."""
    return _said(message)[0]


def _said(message: StoredMessage) -> tuple[str, str]:
    properties = message.properties_data
    topic = get_property(properties, _REAL_TOPIC) or b""
    queue_id = get_property(properties, _REAL_QID) or b""
    return topic.decode("utf-8", "replace"), queue_id.decode("latin-1")
