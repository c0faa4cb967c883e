"""Merging of others' views into a broker's mapping, beside the steps of a migration.

Copies may be old, so they only ever move on: a segment gets its place, opens, is sealed, expires.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from lanemq.wire.logical import Chain, LogicalQueues, Segment, SegmentKey, SegmentState

from ._mapping import TopicMapping
from ._migration import is_older

_PROGRESS: Final[Mapping[SegmentState, int]] = {
    SegmentState.WRITE_ONLY: 0,
    SegmentState.NORMAL: 1,
    SegmentState.READ_ONLY: 2,
    SegmentState.EXPIRED: 3,
}


def progress(segment: Segment) -> tuple[bool, int]:
    """Return a key by which the later of two states of one segment is the greater."""
    return segment.delta >= 0, _PROGRESS[segment.state]


def merged(mapping: TopicMapping, view: LogicalQueues) -> TopicMapping:
    """Return the mapping updated by ``view`` for other brokers' segments in its logical queues.

    ``view`` is a name server's, or that of one of those brokers. Nothing is taken away.
    """
    told = [
        segment
        for index in mapping.queues
        if index in view
        for segment in view[index]
        if segment.delta >= 0 and not mapping.is_own(segment)
    ]
    known = mapping.find_all(segment.key for segment in told)
    changed = [
        segment
        for segment in told
        if (before := known.get(segment.key)) is None or is_newer(segment, before)
    ]
    return mapping.put(*changed) if changed else mapping


def is_newer(segment: Segment, known: Segment) -> bool:
    """Return whether a copy has to replace the known one.

    A segment that never had a message may be the destination of another migration later.
    """
    if (segment.migration or 0) > (known.migration or 0) and known.is_empty:
        return True
    return progress(segment) > progress(known) and not is_older(segment, known)


def unlisted(mapping: TopicMapping, view: LogicalQueues) -> list[Segment]:
    """Return the copies of others' sealed segments that a name server does not list.

    Only if it lists all that this broker has in the logical queue: others know less. It may have
    just started all the same, so this is no proof that nobody has the messages.
    """
    found: list[Segment] = []
    for index, chain in mapping.queues.items():
        sealed = chain.all_of(SegmentState.READ_ONLY)
        if not sealed:
            continue
        listed = {segment.key for segment in view.get(index, ())}
        own = [segment for segment in chain if mapping.is_own(segment)]
        if own and all(segment.key in listed for segment in own):
            found += [segment for segment in sealed if segment.key not in listed]
    return found


def with_expired(mapping: TopicMapping, gone: Iterable[SegmentKey]) -> TopicMapping:
    """Return the mapping in which these sealed segments are expired."""
    found = mapping.find_all(gone).values()
    changed = [s.with_state(SegmentState.EXPIRED) for s in found if s.is_sealed]
    return mapping.put(*changed) if changed else mapping


def rivals(mapping: TopicMapping, view: LogicalQueues) -> list[tuple[Segment, Segment]]:
    """Iterate over own open segments, each with another broker's open one that seems to follow it.

    A view may be old: before acting on it, ask that broker.
    """
    found = []
    for index, chain in mapping.queues.items():
        others = (*chain, *view.get(index, ()))
        if all(map(mapping.is_own, others)):  # most are
            continue
        own = next((s for s in chain if s.state is SegmentState.NORMAL and mapping.is_own(s)), None)
        if own is None:
            continue
        found += [
            (own, other)
            for other in others
            if other.state is SegmentState.NORMAL
            and not mapping.is_own(other)
            and other.delta >= own.delta
        ]
    return found


def is_settled(mapping: TopicMapping) -> bool:
    """Return whether nothing in a mapping tells of a migration under way, or of a rival."""
    chains = mapping.queues.values()
    return not any(chain.write_only for chain in chains) and not rivals(mapping, LogicalQueues())


def destinations(mapping: TopicMapping, view: LogicalQueues) -> list[tuple[Segment, Segment]]:
    """Iterate over own open segments, each with another broker's that clients write to in its
    place.

    A name server shows a destination that has no place yet only while the source is away.
    """
    found = []
    for index, chain in mapping.queues.items():
        listed = view.get(index)
        target = listed.write_only if listed is not None else None
        if target is None or target.delta >= 0:
            continue
        own = chain.normal
        if own is not None and mapping.is_own(own) and not mapping.is_own(target):
            found.append((own, target))
    return found


def is_superseded(own: Segment, rival: Segment, account: Chain) -> bool:
    """Return whether ``rival`` took over from ``own`` while this broker was away.

    ``account`` is the chain as the broker of ``rival`` tells it now. At equal first offsets the
    one that an earlier migration opened has to give way, or that the other broker holds for
    sealed.
    """
    now = account.find(rival.key)
    if now is None or now.state is not SegmentState.NORMAL:
        return False
    if now.delta == own.delta and (now.migration or 0) != (own.migration or 0):
        return (now.migration or 0) > (own.migration or 0)
    as_told = account.find(own.key)
    return now.delta > own.delta or (as_told is not None and as_told.is_sealed)


def superseded_end(own: Segment, others: Iterable[Segment], end_offset: int) -> tuple[int, int]:
    """Return the end of an open segment superseded by ``others``, and the number of messages cut
    off.

    Both are physical: an offset, and the number of messages from there to ``end_offset``. Those
    keep their place in the message queue, but their logical offsets were given to others. A segment
    that was sealed without any message has given none.
    """
    begins = [
        other.delta
        for other in others
        if other.delta >= own.delta and other.key != own.key and not other.is_empty
    ]
    limit = own.to_physical(min(begins)) if begins else end_offset
    end = max(own.offset_delta, min(end_offset, limit))
    return end, end_offset - end


def went_on(view: Chain, source: Segment, target: Segment) -> bool:
    """Return whether a queue was opened behind its sealed ``source``, elsewhere than at ``target``.

    ``view`` is the queue as name servers list it. An operator may open it where the outcome of a
    migration could not be found out. What begins where an empty source does may be from before it,
    unless its number is greater.
    """
    return any(
        segment.key not in (source.key, target.key)
        and segment.delta >= source.next_delta
        and (source.count > 0 or (segment.migration or 0) > (source.migration or 0))
        and (segment.state is SegmentState.NORMAL or segment.count > 0)
        for segment in view
    )


def reopened(
    mapping: TopicMapping, source: Segment, target: Segment
) -> tuple[TopicMapping, Segment]:
    """Return the source of a called-off migration, continued behind its end.

    That has a number of its own: the one of the migration may no longer come to pass.
    A sealed segment stays sealed: a new one begins on the same message queue. Only one that
    was empty opens again, for nothing of it was ever given out.
    """
    number = max(mapping.chain(source.logical_index).last_migration, target.migration or 0) + 1
    if source.count:
        again = Segment(
            source.message_queue,
            logical_index=source.logical_index,
            delta=source.next_delta,
            offset_delta=source.offset_max,
            broker_address=source.broker_address,
            migration=number,
        )
    else:
        again = replace(
            source,
            state=SegmentState.NORMAL,
            offset_max=-1,
            first_time_ms=-1,
            last_time_ms=-1,
            migration=number,
        )
    return without_destination(mapping, target).put(again), again


def without_destination(mapping: TopicMapping, target: Segment) -> TopicMapping:
    """Return the mapping without ``target``. Its message queue may be another logical queue's by
    now, and stays there."""
    if mapping.chain(target.logical_index).find(target.key) is None:
        return mapping
    return mapping.without(target.key)
