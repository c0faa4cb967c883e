"""Segments of logical queues, for tests that say in a word where they lie."""

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import Segment, SegmentState


def at(
    place: str,
    delta: int,
    begin: int = 0,
    end: int = -1,
    state: SegmentState | None = None,
    *,
    index: int = 0,
) -> Segment:
    """Return a segment of topic T; ``place`` is as in ``broker1/0``, open unless it has an end."""
    broker, queue_id = place.split("/")
    state = state or (SegmentState.NORMAL if end < 0 else SegmentState.READ_ONLY)
    return Segment(MessageQueue("T", broker, int(queue_id)), index, delta, state, begin, end)
