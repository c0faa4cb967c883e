"""The end of segments: expired when their messages are gone, and later forgotten.

Source: RocketMQ 5.0.0-PREVIEW, CleanFilesHook; which removes where this expires.
"""

from collections.abc import Callable, Collection
from typing import Final

from lanemq.wire import KV_PREFIX
from lanemq.wire.logical import Segment, SegmentKey, SegmentState

from ._mapping import TopicMapping

STATES_KEPT: Final = 3


def expired(mapping: TopicMapping, is_removed: Callable[[Segment], bool]) -> list[Segment]:
    """Return own sealed segments, anywhere in their chains, that have no message left."""
    return [
        segment.with_state(SegmentState.EXPIRED)
        for segment in mapping.own()
        if segment.state is SegmentState.READ_ONLY and is_removed(segment)
    ]


def swept(mapping: TopicMapping, expired_long: Collection[SegmentKey]) -> list[SegmentKey]:
    """Return expired segments at the heads of their chains that are no longer needed.

    An own one has to be among ``expired_long``, and to have a newer one on its queue: the
    last there keeps senders from writing past the logical queue. The last of a chain stays, for
    its end is where offsets go on, and one that was gone past, whose broker has to be told so by
    the open end, also after a restart. Of the log of keys two more stay, for the broker before
    the open end may have the state that the open end needs.
    """
    gone = []
    for chain in mapping.queues.values():
        kept = STATES_KEPT if mapping.topic.startswith(KV_PREFIX) else 1
        if chain.segments and chain.segments[-1].is_forced:
            kept = max(kept, 2)
        for segment in chain.segments[:-kept]:
            if segment.state is not SegmentState.EXPIRED:
                break
            if mapping.is_own(segment):
                latest = mapping.latest(segment.queue_id)
                if segment.key not in expired_long or latest == segment:
                    continue
            gone.append(segment.key)
    return gone
