"""The room that a message's properties need for what the broker adds to them later.

A message that was taken is stored again when it is given back, when its timer or its delay is over,
and whenever its producer is asked for the outcome of its transaction. Each time properties are
added, and properties have at most ``MAX_PROPERTIES_BYTES``. What would not fit then is refused when
it is sent: later there is nobody to be told.
"""

from collections.abc import Mapping
from typing import Final

from lanemq.storage import LIGHT_QUEUES_MAX
from lanemq.wire import LMQ_PREFIX, RETRY_PREFIX, Refused, ResponseCode
from lanemq.wire.message import MAX_PROPERTIES_BYTES, Property

_TOPIC_BYTES: Final = 255
_ID_BYTES: Final = 56
_NUMBER_BYTES: Final = 20
_SEPARATORS_BYTES: Final = 2


def _bytes_of(values: Mapping[str, int], given: Mapping[str, str] | None = None) -> int:
    """Return the bytes of properties, from their names and the most bytes of their values, beyond
    those of the ones that are ``given``: they are replaced."""
    bytes_of_all = 0
    for name, most in values.items():
        old = (given or {}).get(name)
        size_bytes = len(name) + most + _SEPARATORS_BYTES
        bytes_of_all += size_bytes if old is None else max(0, most - len(old.encode()))
    return bytes_of_all


_BACK: Final = {
    Property.RETRY_TOPIC: _TOPIC_BYTES,
    Property.ORIGIN_MESSAGE_ID: _ID_BYTES,
    Property.DELAY: 2,
    Property.REAL_TOPIC: _TOPIC_BYTES,
    Property.REAL_QID: 4,
}
_HALF: Final = {
    Property.TRANSACTION_CHECK_TIMES: 10,
    Property.TRAN_PREPARED_QUEUE_OFFSET: _NUMBER_BYTES,
}
_TIMED: Final = {
    Property.TIMER_OUT_MS: _NUMBER_BYTES,
    Property.TIMER_ENQUEUE_MS: _NUMBER_BYTES,
    Property.TIMER_DEQUEUE_MS: _NUMBER_BYTES,
    Property.TIMER_ROLL_TIMES: 10,
}
_LIGHT: Final = _NUMBER_BYTES + 1
_LIGHTS: Final = {Property.INNER_MULTI_QUEUE_OFFSET: LIGHT_QUEUES_MAX * _LIGHT}

QUICK_BYTES_MAX: Final = MAX_PROPERTIES_BYTES - _bytes_of(_BACK | _HALF | _TIMED | _LIGHTS)
"""Properties of as many bytes leave room whatever they say."""


def check_length(properties: str) -> None:
    """Raise ``Refused`` (MESSAGE_ILLEGAL) for properties that no record has room for, before
    anything in them is looked for: that takes as long as they are."""
    if len(properties) > MAX_PROPERTIES_BYTES:
        remark = (
            f"the message is illegal: properties of {len(properties)} characters, at most "
            f"{MAX_PROPERTIES_BYTES} bytes fit: move data into the body"
        )
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark)


def check_room(
    topic: str,
    properties_bytes: int,
    properties: Mapping[str, str],
    *,
    is_half: bool = False,
    is_timed: bool = False,
) -> None:
    """Raise ``Refused`` (MESSAGE_ILLEGAL) for a message for ``topic`` whose properties leave no
    room.

    What comes to a retry topic has been given back already. Whether another broker took a message
    before does not count: only the message says so.
    """
    if properties_bytes <= QUICK_BYTES_MAX:
        return
    values: dict[str, int] = {}
    if not topic.startswith(RETRY_PREFIX):
        values |= _BACK | {Property.RETRY_TOPIC: len(topic.encode())}
    if is_half:
        values |= _HALF
    if is_timed:
        values |= _TIMED
    if is_half or is_timed:
        lights = properties.get(Property.INNER_MULTI_DISPATCH, "").count(LMQ_PREFIX)
        values[Property.INNER_MULTI_QUEUE_OFFSET] = min(lights, LIGHT_QUEUES_MAX) * _LIGHT
    added = _bytes_of(values, properties)
    most = MAX_PROPERTIES_BYTES - added
    if properties_bytes > most:
        remark = (
            f"the message is illegal: properties of {properties_bytes} bytes, at most {most} are "
            f"taken with topic {topic}, so that {added} are left for what the broker adds later: "
            "move data into the body"
        )
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, remark)
