"""The segments to which a listener sends messages of a logical queue. All functions are pure."""

from lanemq.wire.logical import Chain, Segment

from ...rules._mapping import TopicMapping
from ..brokers._routes import TopicView


def own_open_end(view: TopicView, mapping: TopicMapping, index: int) -> Segment | None:
    """Return the segment of ``tail``, if it is open on the broker of ``mapping``, and that broker
    stores the messages of its message queue in it.
    """
    chain = view.chain(index)
    segment = tail(chain) if chain is not None else None
    if segment is None or segment.broker_name != mapping.broker_name:
        return None
    own = mapping.latest(segment.queue_id)
    if own is None or own.key != segment.key or own.delta < 0:
        return None
    return own


def tail(chain: Chain) -> Segment | None:
    """Return the segment to ask: the tail, or where the queue ends while it takes no messages.

    The broker there knows more.
    """
    return chain.tail or (chain.placed[-1] if chain.placed else None)


def reachable_tail(chain: Chain, unreachable: set[str]) -> Segment | None:
    """Return ``tail``, or the segment to which an operator has moved the queue of a lost broker."""
    segment = chain.tail_without(unreachable.__contains__) or tail(chain)
    return None if segment is None or segment.broker_name in unreachable else segment
