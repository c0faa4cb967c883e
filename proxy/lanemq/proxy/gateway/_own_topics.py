"""Requests by which a client's message would come into a topic of the proxies' own. All pure.

Source: RocketMQ 4.9.8 and 5.3.3, SendMessageProcessor, ReplyMessageProcessor,
MessageExtBatchEncoder.
"""

from collections.abc import Mapping
from typing import Final

from lanemq.wire import RequestCode
from lanemq.wire.frame import Frame
from lanemq.wire.message import Property

from .order import OWN_PREFIX

Code = RequestCode
_LONG: Final = ("topic", "properties", "batch")
_SHORT: Final = ("b", "i", "m")
_FIELDS: Final[Mapping[int, tuple[str, str, str]]] = {
    Code.SEND_MESSAGE: _LONG,
    Code.SEND_MESSAGE_V2: _SHORT,
    Code.SEND_BATCH_MESSAGE: _SHORT,
    Code.SEND_REPLY_MESSAGE: _LONG,
    Code.SEND_REPLY_MESSAGE_V2: _SHORT,
    Code.END_TRANSACTION: _LONG,
}
"""The requests -> the names of their fields for the topic, the properties, and whether the body has
many messages."""
_LATER: Final = f"{Property.REAL_TOPIC}\x01{OWN_PREFIX}"
"""In properties: a message that waits, for a timer or its transaction, goes there at last."""
_LATER_DATA: Final = _LATER.encode()


def own_topic(frame: Frame) -> str:
    """Return the topic of the proxies' own that a request has a message for, or only its beginning;
    "" where there is none.

    A batch is searched, and not read: brokers read those, too, whose sizes are wrong.
    """
    names = _FIELDS.get(frame.code)
    if names is None:
        return ""
    topic, properties, batch = names
    fields = frame.fields
    named = fields.get(topic, "")
    if named.startswith(OWN_PREFIX):
        return named
    if _LATER in fields.get(properties, ""):
        return OWN_PREFIX
    is_batch = frame.code == Code.SEND_BATCH_MESSAGE or fields.get(batch, "").lower() == "true"
    return OWN_PREFIX if is_batch and _LATER_DATA in frame.body else ""
