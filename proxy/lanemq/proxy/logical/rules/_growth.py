"""Rules for a further message queue of a logical queue: a reused one, or a new one.

Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor (415, 416).
"""

from collections.abc import Callable

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import MAY_BE_KNOWN, NOT_SET, Segment, SegmentState

from ._mapping import TopicMapping
from ._refusals import refusal


def check_state(mapping: TopicMapping, index: int, state: SegmentState) -> None:
    """Check that logical queue ``index`` may get a segment of this state here.

    A ``WriteOnly`` one may stand beside the ``Normal`` one that it will follow, and alone
    beside it.
    """
    chain = mapping.chain(index)
    if state is SegmentState.READ_ONLY:
        raise refusal("a segment cannot begin as ReadOnly")
    if state is SegmentState.WRITE_ONLY and chain.write_only is not None:
        raise refusal("multiple WriteOnly queue")
    if state is SegmentState.NORMAL and chain.writable is not None:
        raise refusal("multiple writable queue")


def check_reusable(
    mapping: TopicMapping,
    queue_id: int,
    index: int,
    *,
    readable_too: bool = False,
    is_young: Callable[[Segment], bool] = lambda _: False,
) -> None:
    """Check that a message queue may get another segment.

    One that never had a message is replaced by the next, which begins at the same offset. While it
    ``is_young``, clients may take the one for the other, at other logical offsets.

    ``readable_too`` allows what tools of 5.0.0-PREVIEW do: a queue that still has messages of
    the same logical queue.
    """
    existing = mapping.of_queue(queue_id)
    if any(segment.is_writable for segment in existing):
        raise refusal("queue writable")
    readable = [segment for segment in existing if segment.is_readable]
    if any(not readable_too or segment.logical_index != index for segment in readable):
        raise refusal(f"message queue {queue_id} still has messages for readers")
    latest = mapping.latest(queue_id)
    if latest is not None and latest.is_empty and is_young(latest):
        raise refusal(f"message queue {queue_id} {MAY_BE_KNOWN}: its last segment was just sealed")


def new_segment(
    mapping: TopicMapping,
    queue_id: int,
    index: int,
    state: SegmentState,
    *,
    end_offset: int,
    delta: int,
    address: str,
    last_migration: int = 0,
) -> Segment:
    """Make the segment that begins at ``end_offset`` of a message queue.

    ``delta`` is where the logical queue goes on as far as its other brokers know; what is known
    here counts as well, and so it is with ``last_migration``. Only a ``Normal`` segment has its
    place at once. Raises ``Refused`` where the identity of the segment has been another logical
    queue's.
    """
    begun = Segment(
        MessageQueue(mapping.topic, mapping.broker_name, queue_id),
        logical_index=index,
        delta=NOT_SET,
        state=state,
        offset_delta=end_offset,
        broker_address=address,
    )
    known = mapping.find(begun.key)
    if known is not None and known.logical_index != index:
        # Peers that know the other one, which never had a message, would take this for it.
        raise refusal(
            f"message queue {queue_id} has an empty segment of logical queue "
            f"{known.logical_index} at its end: use another, or forget that one"
        )
    if state is SegmentState.NORMAL:
        chain = mapping.chain(index)
        last = max(last_migration, chain.last_migration)
        number = last + 1 if last or len(chain) else None
        return begun.with_delta(max(delta, chain.known_end)).with_migration(number)
    if known is not None:  # the number of the last migration that came here
        begun = begun.with_migration(known.migration)
    return begun.sealed(end_offset) if state is SegmentState.EXPIRED else begun
