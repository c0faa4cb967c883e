"""What a broker learns from others about its logical queues, beside what it is told in a migration.

Copies may be old, so they only ever move on: a segment gets its place, opens, is sealed, expires.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from lanemq.wire.logical import Chain, LogicalQueues, Segment, SegmentState

from ._mapping import TopicMapping
from ._migration import is_older

_PROGRESS: Final[Mapping[SegmentState, int]] = {
    SegmentState.WRITE_ONLY: 0,
    SegmentState.NORMAL: 1,
    SegmentState.READ_ONLY: 2,
    SegmentState.EXPIRED: 3,
}


def progress(segment: Segment) -> tuple[bool, int]:
    """The later of two states of one segment has the greater one."""
    return segment.delta >= 0, _PROGRESS[segment.state]


def merged(mapping: TopicMapping, view: LogicalQueues) -> TopicMapping:
    """The mapping with what ``view`` says of other brokers' segments in its logical queues.

    ``view`` is a name server's, or that of one of those brokers. Nothing is taken away.
    """
    changed: list[Segment] = []
    for index in mapping.chains:
        for segment in view.get(index, Chain(index)):
            if mapping.is_own(segment) or segment.delta < 0:
                continue
            known = mapping.find(segment.key)
            if known is None or (
                progress(segment) > progress(known) and not is_older(segment, known)
            ):
                changed.append(segment)
    return mapping.put(*changed) if changed else mapping


def without_forgotten(mapping: TopicMapping, view: LogicalQueues) -> TopicMapping:
    """The mapping with copies expired that a name server does not list any more.

    Only where it lists all that this broker has in the logical queue, so that an answer of one
    that was just started takes nothing away.
    """
    changed: list[Segment] = []
    for index, chain in mapping.chains.items():
        listed = {segment.key for segment in view.get(index, Chain(index))}
        own = [segment for segment in chain if mapping.is_own(segment)]
        if not own or any(segment.key not in listed for segment in own):
            continue
        changed += [
            segment.with_state(SegmentState.EXPIRED)
            for segment in chain
            if segment.state is SegmentState.READ_ONLY and segment.key not in listed
        ]
    return mapping.put(*changed) if changed else mapping


def rivals(mapping: TopicMapping, view: LogicalQueues) -> list[tuple[Segment, Segment]]:
    """Own open segments, each with another broker's that seems to follow it and be open, too.

    A view may be old: whoever acts on it has to ask that broker first.
    """
    found = []
    for index, chain in mapping.chains.items():
        own = next((s for s in chain if s.state is SegmentState.NORMAL and mapping.is_own(s)), None)
        if own is None:
            continue
        others = (*chain, *view.get(index, Chain(index)))
        found += [
            (own, other)
            for other in others
            if other.state is SegmentState.NORMAL
            and not mapping.is_own(other)
            and other.delta >= own.delta
        ]
    return found


def destinations(mapping: TopicMapping, view: LogicalQueues) -> list[tuple[Segment, Segment]]:
    """Own open segments, each with another broker's that clients write to in its place.

    A name server shows a destination that has no place yet only while the source is away.
    """
    found = []
    for index, chain in mapping.chains.items():
        own, target = chain.normal, view.get(index, Chain(index)).write_only
        if own is None or target is None or target.delta >= 0:
            continue
        if mapping.is_own(own) and not mapping.is_own(target):
            found.append((own, target))
    return found


def is_superseded(own: Segment, rival: Segment, account: Chain) -> bool:
    """Whether ``rival`` took over from ``own`` while this broker was away.

    ``account`` is the chain as the broker of ``rival`` tells it now. At equal first offsets the
    one that the other broker holds for sealed has to give way.
    """
    now = account.find(rival.key)
    if now is None or now.state is not SegmentState.NORMAL:
        return False
    as_told = account.find(own.key)
    return now.delta > own.delta or (as_told is not None and as_told.is_sealed)


def superseded_end(own: Segment, others: Iterable[Segment], end_offset: int) -> tuple[int, int]:
    """Where an open segment, superseded by ``others``, has to end; and how much is cut off.

    Both are physical: an offset, and the number of messages from there to ``end_offset``. Those
    keep their place in the message queue, but their logical offsets were given to others.
    """
    begins = [other.delta for other in others if other.delta >= own.delta and other.key != own.key]
    limit = own.to_physical(min(begins)) if begins else end_offset
    end = max(own.offset_delta, min(end_offset, limit))
    return end, end_offset - end


def reopened(
    mapping: TopicMapping, source: Segment, target: Segment
) -> tuple[TopicMapping, Segment]:
    """The source of a migration that was called off goes on by itself, behind its end.

    What is sealed stays sealed: a new segment begins on the same message queue. Only one that
    was empty opens again, for nothing of it was ever given out.
    """
    if source.count:
        again = Segment(
            source.message_queue,
            logical_index=source.logical_index,
            delta=source.next_delta,
            offset_delta=source.offset_max,
            broker_address=source.broker_address,
        )
    else:
        again = replace(
            source,
            state=SegmentState.NORMAL,
            offset_max=-1,
            first_time_ms=-1,
            last_time_ms=-1,
        )
    return mapping.without(target.key).put(again), again
