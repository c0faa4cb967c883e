"""The JSON of a segment as it mostly is, read and written without a look at its declaration.

A topic that was migrated often has hundreds of segments, and its mapping is read and written with
each of its changes.
"""

from typing import Any, Final

import msgspec

from .._errors import RemoteProtocolError
from .._numbers import INT64
from ..bodies._queues import MessageQueue
from ._segment_state import SegmentState

STATES: Final = {state.value: state for state in SegmentState}
_NUMBERS: Final = (
    "logicalQueueIndex",
    "logicalQueueDelta",
    "offsetDelta",
    "offsetMax",
    "firstMsgTimeMillis",
    "lastMsgTimeMillis",
)
_ONLY_INT: Final = {int}
_ENCODER: Final = msgspec.json.Encoder()

Arguments = tuple[
    MessageQueue, int, int, SegmentState, int, int, int, int, str | None, int | None, bool | None
]
"""The fields of a segment in the order of their declaration."""


def read_arguments(value: object) -> Arguments | None:
    """Return the fields of the segment in a value of ``fastjson.loads``.

    None where members lack or have another form than lanemq writes: ``Body.from_json`` knows what
    they stand for, or what is wrong.
    """
    if not isinstance(value, dict):
        return None
    get = value.get
    state, queue, address = get("state"), get("messageQueue"), get("brokerAddr")
    numbers: list[Any] = [get(name) for name in _NUMBERS]
    migration, is_forced = get("lanemqMigration"), get("lanemqForced")
    counted = numbers if migration is None else [*numbers, migration]
    if (
        {*map(type, counted)} != _ONLY_INT
        or min(counted) not in INT64
        or max(counted) not in INT64
        or not isinstance(state, str)
        or state not in STATES
        or not (address is None or isinstance(address, str))
        or not (is_forced is None or isinstance(is_forced, bool))
        or queue is None
    ):
        return None
    try:
        message_queue = MessageQueue.from_json(queue)
    except RemoteProtocolError:
        return None
    index, delta, first, end, first_ms, last_ms = numbers
    return (
        message_queue,
        index,
        delta,
        STATES[state],
        first,
        end,
        first_ms,
        last_ms,
        address,
        migration,
        is_forced,
    )


def compact(members: dict[str, object], queue: MessageQueue) -> bytes:
    """Write the members of a segment of ``queue`` as ``fastjson.dumps`` does."""
    given = {name: value for name, value in members.items() if value is not None}
    given["messageQueue"] = {
        "brokerName": queue.broker_name,
        "queueId": queue.queue_id,
        "topic": queue.topic,
    }
    return _ENCODER.encode(given)
