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
    run, position = [*sorted(before, key=attrgetter("delta", "next_delta")), last], 0
    for segment in run:
        if segment.delta != position or segment.is_forced:
            return None
        position = segment.next_delta
    return run[0]


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
