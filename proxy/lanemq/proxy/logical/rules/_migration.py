"""The steps of a migration, each as a change of one broker's mapping.

The source is sealed and learns where the queue goes on (prepare); the destination learns its
first logical offset and opens (commit); the others learn of both (notify). Every step may be
repeated, and gives the same again.

Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor (417, 418, 419).
"""

from dataclasses import replace
from typing import NamedTuple

from lanemq.wire.logical import MIGRATION_IN_PROGRESS, Chain, Segment, SegmentState

from ._mapping import TopicMapping
from ._refusals import refusal


class Move(NamedTuple):
    """A move of a logical queue from one segment to another."""

    source: Segment
    target: Segment


def begin_prepare(mapping: TopicMapping, asked: Move) -> tuple[Segment, Move | None]:
    """Return the segment to seal; and, where this very move was prepared before, its result.

    A queue that was closed meanwhile continues at its destination all the same, which may have
    messages: then the segment is sealed already.

    Raises ``Refused`` where the source is not this broker's or not open, and where another
    move has begun.
    """
    index, queue_id = asked.source.logical_index, asked.source.queue_id
    chain = mapping.queues.get(index)
    if chain is None:
        raise refusal(f"logical queue {index} not exist")
    source = chain.find(asked.source.key)
    if source is None or not mapping.is_own(source):
        raise refusal(f"message queue {queue_id} not exist")
    target = chain.find(asked.target.key)
    if source.is_sealed and target is not None and target.delta == source.next_delta:
        return source, Move(source, target)
    other = chain.write_only
    if other is not None and other.key != asked.target.key:
        raise refusal(MIGRATION_IN_PROGRESS)
    if source.key == asked.target.key or not (
        source.state is SegmentState.NORMAL or is_closed_end(chain, source)
    ):
        raise refusal(f"message queue {queue_id} not normal state")
    return source, None


def is_closed_end(chain: Chain, source: Segment) -> bool:
    """Return whether the queue ends at ``source``, which is sealed, as far as known here."""
    return source.is_sealed and chain.normal is None and source.next_delta == chain.known_end


def prepared(
    mapping: TopicMapping, sealed: Segment, target: Segment, *, last_migration: int = 0
) -> tuple[TopicMapping, Move]:
    """Return the mapping of the source, which continues at ``target`` from now on.

    The migration gets its number: the broker of the open end knows of all migrations before.
    ``last_migration`` is one that the mapping has no more.
    """
    assert sealed.is_sealed
    number = max(mapping.chain(sealed.logical_index).last_migration, last_migration) + 1
    known = mapping.find(target.key)
    if known is None or not mapping.is_own(known):
        known = replace(
            target,
            logical_index=sealed.logical_index,
            state=SegmentState.WRITE_ONLY,
            offset_max=-1,
            first_time_ms=-1,
            last_time_ms=-1,
        )
    known = known.with_delta(sealed.next_delta).with_migration(number)
    return mapping.put(sealed, known), Move(sealed, known)


def committed(
    mapping: TopicMapping,
    source: Segment | None,
    target: Segment,
    *,
    known_end: int,
    last_migration: int = 0,
    is_forced: bool = False,
) -> tuple[TopicMapping, Segment]:
    """Return the mapping of the destination, whose segment is open from now on.

    ``known_end`` is the greatest logical end that any broker or name server knows of; with a
    source that cannot be asked (the operator gives the offset) it keeps offsets from being given
    out twice. ``last_migration`` is the greatest number of a migration that any of them knows; the
    one that opens a segment has a greater one. The source is kept as sealed, so that it learns of
    it when it comes back; it is None where nobody knows of any. ``is_forced`` says that the
    queue goes on past a source that was not asked.
    """
    chain = mapping.queues.get(target.logical_index)
    if chain is None:
        raise refusal(f"logical queue {target.logical_index} not exist")
    own = chain.find(target.key)
    name = f"message queue {target.queue_id}-{target.offset_delta}"
    if own is None or not mapping.is_own(own) or own.state is SegmentState.EXPIRED:
        raise refusal(f"{name} not exist")
    if own.state is not SegmentState.WRITE_ONLY or own.delta >= 0:
        if own.delta != target.delta:
            raise refusal(f"{name} has logicalQueueDelta {own.delta}, which never changes")
        if own.state is not SegmentState.WRITE_ONLY:
            return mapping, own
    if any(other.is_writable for other in chain if other is not own and mapping.is_own(other)):
        raise refusal("multiple writable queue")
    others = chain.remove(own.key) if own.delta >= 0 else chain  # it has this one's number then
    before = source.migration if source is not None else None
    last = max(others.last_migration, last_migration, before or 0)
    number = target.migration
    if number is None:
        number = last + 1
    elif number <= last:
        raise refusal(
            f"migration {number} of logical queue {chain.index} is over: migration {last} followed"
        )
    least = max(known_end, chain.known_end, source.next_delta if source is not None else 0)
    if target.delta < least:
        raise refusal(f"logicalQueueDelta {target.delta} is below {least}, where offsets end")
    opened = replace(
        own,
        delta=target.delta,
        state=SegmentState.NORMAL,
        migration=number,
        is_forced=is_forced or None,
    )
    changed = mapping.put(opened)
    if source is not None and not mapping.is_own(source):
        changed = changed.put(_before(source, opened))
    return changed, opened


def _before(source: Segment, target: Segment) -> Segment:
    """Return the source as the destination keeps it: sealed, at the latest where the target
    begins."""
    source = replace(source, logical_index=target.logical_index)
    if source.is_sealed:
        return source
    room = max(0, target.delta - max(source.delta, 0))
    return source.sealed(source.offset_delta + room)


def took_place(target: Segment, account: Chain) -> bool:
    """Return whether the migration of ``target`` opened it, whatever came after.

    ``target`` is as its source keeps it, with the number of the migration; ``account`` is the
    chain as the broker of ``target`` tells it. That this broker knows the source proves nothing:
    it may have been told when the migration was called off, or by an earlier one.
    """
    now = account.find(target.key)
    if now is not None and (now.is_readable or now.count):
        return True
    return account.last_migration >= (target.migration or 1)


def notified(mapping: TopicMapping, asked: Move) -> TopicMapping:
    """Return the mapping of a broker that is told of a move. Its own segments stay as they are.

    Only a broker that has a part in the logical queue keeps the new segment. A source that was
    gone past is told of as it was before: to others it ends where the new segment begins.
    """
    changed = mapping
    source = _before(asked.source, asked.target) if asked.target.is_forced else asked.source
    for given in (source, asked.target):
        known = mapping.find(given.key)
        if known is None:
            continue
        if not mapping.is_own(known) and not is_older(given, known):
            address = given.broker_address or known.broker_address
            changed = changed.put(given.with_address(address))
    target = asked.target
    if mapping.find(target.key) is None and target.logical_index in mapping.queues:
        changed = changed.put(target)
    return changed


def is_older(given: Segment, known: Segment) -> bool:
    """Return whether a copy must not replace the known one.

    A place or an end, once known, stays. Word of a destination that was called off before it had
    a place, and so a number, may come when the next migration has opened it. That a destination
    is expired may mean that it was opened and sealed since, or that it was called off: its source
    has to ask.
    """
    if known.state is SegmentState.WRITE_ONLY and given.state is SegmentState.EXPIRED:
        return True
    if known.delta >= 0 > given.delta:
        return True
    before, now = given.migration or 0, known.migration or 0
    if now > before and (before > 0 or known.is_readable):
        return True
    has_end = known.is_sealed and known.count > 0
    return known.delta == given.delta and has_end and not given.is_sealed
