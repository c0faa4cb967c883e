"""The segments to which a listener sends messages of a logical queue. All functions are pure."""

from typing import Final

from lanemq.wire.logical import Segment, SendTo

from ...rules._mapping import TopicMapping
from ..brokers._views import TopicView

SEND_TO: Final = SendTo(asks_closed_end=True)
"""The sends of a listener: where a queue takes no messages, the broker of its last segment knows
more."""


def own_open_end(view: TopicView, mapping: TopicMapping, index: int) -> Segment | None:
    """Return the segment to send to, if it is open on the broker of ``mapping``, and that broker
    stores the messages of its message queue in it.
    """
    chain = view.chain(index)
    segment = SEND_TO.end(chain, set()) if chain is not None else None
    if segment is None or segment.broker_name != mapping.broker_name:
        return None
    own = mapping.latest(segment.queue_id)
    if own is None or own.key != segment.key or own.delta < 0:
        return None
    return own
