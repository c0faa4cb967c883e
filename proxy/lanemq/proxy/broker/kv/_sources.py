"""The brokers of the parts of a partition's log, and those that may have the state before one."""

from operator import attrgetter

from lanemq.storage.kv import KvMeta
from lanemq.wire.logical import Segment

from ...logical.rules._mapping import TopicMapping


def state_sources(mapping: TopicMapping, end: Segment) -> list[Segment]:
    """Return the segments whose brokers may have the state with which ``end`` begins, the latest
    first, one of each broker.

    A state at one position is the same wherever it is, but for those of brokers that were gone
    past: nothing is looked for behind a segment that did that.
    """
    earlier = [
        segment
        for segment in mapping.chain(end.logical_index)
        if segment.delta >= 0 and segment.is_sealed and segment.order < end.order
    ]
    found: dict[str, Segment] = {}
    for segment in sorted(earlier, key=attrgetter("order"), reverse=True):
        found.setdefault(segment.broker_name, segment)
        if segment.is_forced:
            break
    return list(found.values())


def beginning(mapping: TopicMapping, last: Segment) -> Segment | None:
    """Return the segment with which a log began whose last part is ``last``, all in one queue.

    A migration that was called off leaves more than one segment in a queue. None where a part of
    the log was elsewhere.
    """
    position = 0
    run = _run(mapping, last)
    for segment in run:
        if segment.delta != position or segment.is_forced:
            return None
        position = segment.next_delta
    return run[0]


def goes_on_from(mapping: TopicMapping, last: Segment, position: int) -> bool:
    """Return whether a log whose last part is ``last`` is in that one queue from ``position`` on.

    Not so where it went past a broker meanwhile.
    """
    run = [one for one in _run(mapping, last) if one is last or one.next_delta > position]
    at = run[0].delta
    if not 0 <= at <= position:
        return False
    for segment in run:
        if segment.delta != at or segment.is_forced:
            return False
        at = segment.next_delta
    return True


def _run(mapping: TopicMapping, last: Segment) -> list[Segment]:
    """Return the parts of a log that are in one queue, up to ``last``, as they follow."""
    shift = last.shift
    before = [
        segment
        for segment in mapping.of_queue(last.queue_id)
        if segment is not last
        and segment.is_sealed
        and segment.logical_index == last.logical_index
        and segment.delta >= 0
        and segment.next_delta <= last.delta
        and segment.shift == shift
    ]
    return [*sorted(before, key=attrgetter("delta", "next_delta")), last]


def sealed_at(mapping: TopicMapping, index: int, meta: KvMeta) -> int:
    """Return the end of the part of a partition's log that a state follows here.

    The log may have been at other brokers since, whose records never come here. 0 where nothing
    is known of that part any more.
    """
    followed = [
        segment.next_delta
        for segment in mapping.of_queue(meta.queue_id)
        if segment.is_sealed and segment.logical_index == index and segment.shift == meta.shift
    ]
    return max(followed, default=0)
