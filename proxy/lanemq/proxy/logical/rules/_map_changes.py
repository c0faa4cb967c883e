"""Mapping and unmapping of message queues that begin logical queues, by an operator.

Each function takes a mapping and gives the changed one, or raises ``Refused`` and changes
nothing. Source: RocketMQ 5.0.0-PREVIEW, AdminBrokerProcessor (411, 422).
"""

from dataclasses import replace

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import Segment, SegmentState

from ._mapping import TopicMapping
from ._refusals import refusal

SET_UP = "set up"
ALREADY_SET_UP = "already set up"
DELETED = "deleted"
_EXPIRED = SegmentState.EXPIRED
DUPLICATE = "duplicate logicalQueueOffset found"


def map_queue(
    mapping: TopicMapping, queue_id: int, index: int, *, address: str
) -> tuple[TopicMapping, str]:
    """Begin logical queue ``index`` with a message queue: logical offsets are its physical ones.

    Returns the mapping and the remark. A queue moves to another logical queue only while neither
    has a history: else offsets that were given out would mean other messages.
    """
    existing = mapping.of_queue(queue_id)
    if any(segment.logical_index == index for segment in existing):
        return mapping, ALREADY_SET_UP
    if len(mapping.chain(index)):
        raise refusal(DUPLICATE)
    if existing:
        (first, *others) = existing
        if others or not first.is_writable or len(mapping.chain(first.logical_index)) > 1:
            raise refusal(
                f"message queue {queue_id} has a history in logical queue {first.logical_index}"
            )
    begun = Segment(
        MessageQueue(mapping.topic, mapping.broker_name, queue_id),
        logical_index=index,
        delta=0,
        broker_address=address,
    )
    return mapping.without(*(segment.key for segment in existing)).put(begun), SET_UP


def unmap_queue(
    mapping: TopicMapping,
    queue_id: int,
    *,
    end_offset: int,
    forced: bool = False,
) -> TopicMapping:
    """Take a message queue, which ends at ``end_offset``, out of its logical queue.

    The open end of a queue that has other segments stays: without it, messages go nowhere.
    Where it is the destination of a migration, the migration is called off: the segment stays,
    expired and empty, so that producers that have heard of it are sent on and lose nothing.
    """
    latest, existing = mapping.latest(queue_id), mapping.of_queue(queue_id)
    if latest is None:
        return mapping
    if latest.is_writable and end_offset > latest.offset_delta and not forced:
        raise refusal(f"message queue {queue_id} has messages: seal it, or migrate it away")
    if latest.state is SegmentState.WRITE_ONLY and not forced:
        return mapping.put(called_off(latest))
    index = latest.logical_index
    if latest.state is SegmentState.NORMAL and len(mapping.chain(index)) > 1:
        raise refusal(
            f"message queue {queue_id} is the open end of logical queue {index}, which has a "
            "history: migrate it away, or close it (updateTopicLogicalQueueNum)"
        )
    if any(segment.is_readable and segment.count for segment in existing) and not forced:
        raise refusal(f"message queue {queue_id} still has messages for readers")
    return mapping.without(*(segment.key for segment in mapping.of_queue(queue_id)))


def called_off(segment: Segment) -> Segment:
    """Return the rest of the empty destination of a migration that was called off.

    It has no messages, so any place in the chain is right; at 0 it is in nobody's way.
    """
    return replace(
        segment,
        state=SegmentState.EXPIRED,
        delta=max(segment.delta, 0),
        offset_max=segment.offset_delta,
        first_time_ms=0,
        last_time_ms=0,
    )


def check_deletable(mapping: TopicMapping) -> None:
    """Check that this broker has no part in a topic's logical queues, so that it may be deleted."""
    own = sum(1 for _ in mapping.own())
    if own:
        raise refusal(f"still {own} message queues")


def mapped_queues(mapping: TopicMapping) -> int:
    """Return the number of queues that the topic must keep for its unexpired segments."""
    needed = (segment.queue_id for segment in mapping.own() if segment.state is not _EXPIRED)
    return max(needed, default=-1) + 1
