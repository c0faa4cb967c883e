"""The search of a logical queue by time: the answer of one message queue with all its messages.

Brokers search their message queues. What they find is cut down to the segment, and where the
neighbours of a time are in two segments, the times of both decide.

Source: RocketMQ 4.9.8, ConsumeQueue.getOffsetInQueueByTime; 5.3.3 for the boundaries.
"""

from collections.abc import Sequence
from typing import NamedTuple, final

from .._numbers import LONG_MAX
from . import translate
from ._chain import Chain
from ._conversations import Asked, Boundary, Conversation, ask, look_again
from ._segment import Segment
from ._segment_searches import begin_of, offset_from, time_of


class _Found(NamedTuple):
    """A place among the readable segments."""

    at: int
    """Number of the segment."""
    queue_offset: int
    """The physical offset in it."""


@final
class SearchByTime:
    """One search: a time in milliseconds, and the side of it that is wanted."""

    def __init__(self, timestamp_ms: int, boundary: Boundary = Boundary.NEAREST) -> None:
        self._time_ms = timestamp_ms
        self._boundary = boundary

    def steps(self, chain: Chain) -> Conversation[int]:
        """Find the logical offset; the end of the queue if it has no message."""
        if chain.last is not None and chain.last.is_sealed:  # another one may follow by now
            chain = yield from look_again()
        readable, time_ms = chain.readable, self._time_ms
        if self._boundary is Boundary.UPPER:
            time_ms = min(time_ms + 1, LONG_MAX)
        found = yield from _first_from(readable, time_ms)
        if self._boundary is Boundary.LOWER:
            return chain.known_end if found is None else _logical(readable, found)
        if found is None:
            before = yield from _last_before(readable, len(readable))
            return chain.known_end if before is None else _logical(readable, before)
        segment = readable[found.at]
        begin = yield from begin_of(segment)
        if found.queue_offset > begin:
            if self._boundary is Boundary.UPPER:
                return segment.to_logical(found.queue_offset - 1)
            told = yield from ask(segment, Asked.OFFSET_AT, time_ms, Boundary.NEAREST)
            nearest = max(found.queue_offset - 1, translate.searched(segment, told.value))
            return segment.to_logical(min(nearest, found.queue_offset))
        before = yield from _last_before(readable, found.at)
        if before is None:
            return _logical(readable, found)
        if self._boundary is Boundary.UPPER or not (
            yield from self._is_nearer(readable[before.at], before.queue_offset, segment, found)
        ):
            return _logical(readable, before)
        return _logical(readable, found)

    def _is_nearer(
        self, before: Segment, last: int, segment: Segment, found: _Found
    ) -> Conversation[bool]:
        """Return whether ``found`` is nearer to the time than message ``last`` of ``before``; False
        if there is no message."""
        before_ms = before.last_time_ms
        if before_ms <= 0:  # a name server that has no report of the segment's end shows none
            before_ms = yield from time_of(before, last, 0, self._time_ms)
        mirrored_ms = min(2 * self._time_ms - before_ms, LONG_MAX)
        # As near as ``before`` or further away is every message from the mirrored time on.
        return (yield from offset_from(segment, mirrored_ms)) > found.queue_offset


def _logical(readable: Sequence[Segment], found: _Found) -> int:
    return readable[found.at].to_logical(found.queue_offset)


def _first_from(readable: Sequence[Segment], time_ms: int) -> Conversation[_Found | None]:
    """Find the first message stored at a time or later; the end of an open last segment without
    any, and None if the last one is sealed."""
    for at, segment in enumerate(readable):
        if segment.is_sealed and 0 < segment.last_time_ms < time_ms:
            continue
        offset = yield from offset_from(segment, time_ms)
        if segment.is_sealed and not segment.keeps(offset):
            continue
        following = readable[at + 1] if at + 1 < len(readable) else None
        # An open segment has been sealed where the next one begins, though no report is there yet.
        if following is not None and segment.to_logical(offset) >= following.delta:
            continue
        return _Found(at, offset)
    return None


def _last_before(readable: Sequence[Segment], at: int) -> Conversation[_Found | None]:
    """Find the last message of the segments before number ``at``."""
    for before in reversed(range(at)):
        segment = readable[before]
        end = segment.offset_max
        if not segment.is_sealed:  # as in ``_first_from``
            end = segment.to_physical(readable[before + 1].delta)
        if (yield from begin_of(segment)) < end:
            return _Found(before, end - 1)
    return None
