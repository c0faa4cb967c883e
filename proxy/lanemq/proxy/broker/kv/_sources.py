"""The brokers that may have the state with which a part of a log begins."""

from operator import itemgetter

from lanemq.wire.logical import Segment

from ...logical.rules import TopicMapping


def state_sources(mapping: TopicMapping, end: Segment) -> list[Segment]:
    """Return the segments whose brokers may have the state with which ``end`` begins, the latest
    first, one of each broker.

    A state at one position is the same wherever it is, but for those of brokers that were gone
    past: nothing is looked for behind a segment that did that.
    """
    order = end.delta, end.migration or 0
    sealed = [
        ((one.delta, one.migration or 0), one)
        for one in mapping.chain(end.logical_index)
        if one.delta >= 0 and one.is_sealed
    ]
    found: dict[str, Segment] = {}
    for place, segment in sorted(sealed, key=itemgetter(0), reverse=True):
        if place >= order:
            continue
        found.setdefault(segment.broker_name, segment)
        if segment.is_forced:
            break
    return list(found.values())
