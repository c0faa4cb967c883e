"""Plans of pulls from a message queue, segment by segment, for clients that know logical queues.

Clients ask for physical offsets, and turn what they get into logical ones by the segment they
believe to read. So nothing may be given out that lies in another segment of the same queue.

Source: RocketMQ 5.0.0-PREVIEW, PullMessageProcessor; its table of cases, with waiting where it
answers at once for ever.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from lanemq.wire import ResponseCode
from lanemq.wire.logical import Redirect, Segment, SegmentState

from ._mapping import TopicMapping


@final
@dataclass(frozen=True, slots=True)
class Read:
    """A plan to read up to ``max_count`` messages of ``segment``, none behind its end.

    One that is open has an end where the queue seems to have gone on elsewhere.
    """

    segment: Segment
    max_count: int


@final
@dataclass(frozen=True, slots=True)
class Wait:
    """A plan to wait: there is nothing until the mapping changes."""

    segment: Segment
    remark: str


@final
@dataclass(frozen=True, slots=True)
class ContinueAt:
    """A plan to have the client continue at ``next_offset``, or at another broker."""

    code: ResponseCode
    remark: str
    next_offset: int
    redirect: Redirect | None = None


@final
@dataclass(frozen=True, slots=True)
class LookAnew:
    """A plan to have the reader ask a name server: nothing is known of the segment it means."""

    remark: str


TELLS_MAX: Final = 2
"""Most redirects of one pull from the ends of segments on one queue: clients of 5.0.0-PREVIEW give
up with the third."""

WRITE_ONLY = "logical queue write only"
EXPIRED = "logical queue expired"
EXCEEDS = "queue offset exceed offsetMax"
REMOVED = "queue offset removed"
UNSUITABLE = "no suitable queue"


def plan_read(
    mapping: TopicMapping,
    queue_id: int,
    queue_offset: int,
    max_count: int,
    *,
    is_removed: Callable[[Segment], bool],
    meant: str | None = None,
    is_new: Callable[[Segment], bool] = lambda _: False,
) -> Read | Wait | ContinueAt | LookAnew | None:
    """Plan the answer to a pull; None for a queue that is in no logical queue.

    ``is_removed`` tells whether no message of a sealed segment is left in the log. ``meant`` is
    the segment by which the reader translates offsets (``SEGMENT_FIELD``), which may have ended
    before. Where that is not known, the reader may not know segments that are new, and is answered
    as ``may_know`` tells.
    """
    segment = mapping.at(queue_id, queue_offset)
    if segment is None:
        own = mapping.of_queue(queue_id)
        if not own:
            return None
        return _before(own[0], queue_offset, mapping)
    if meant is None:
        segment = may_know(mapping, segment, is_new)[0]
    elif not segment.is_meant(meant):
        named = next((one for one in mapping.of_queue(queue_id) if one.is_meant(meant)), None)
        if named is None:
            return LookAnew(UNSUITABLE)
        if queue_offset < named.offset_delta:
            return _before(named, queue_offset, mapping)
        segment = named
    if segment.state is SegmentState.WRITE_ONLY:
        return Wait(segment, WRITE_ONLY)
    if not segment.is_sealed:
        following = gone_on_at(mapping, segment)
        if following is None:
            return Read(segment, max_count)
        end = segment.to_physical(following.delta)
        if queue_offset >= end:
            redirect = Redirect(segment, following)
            return ContinueAt(ResponseCode.PULL_RETRY_IMMEDIATELY, EXCEEDS, end, redirect)
        segment = replace(segment, offset_max=end)
        return Read(segment, segment.clamp_count(queue_offset, max_count))
    ends = queue_offset >= segment.offset_max
    if segment.state is SegmentState.EXPIRED:
        return _leave(mapping, segment, EXPIRED, waits=ends)
    if ends:
        return _leave(mapping, segment, EXCEEDS, waits=True)
    if queue_offset + max_count > segment.offset_max and is_removed(segment):
        return to_the_end(segment, REMOVED)
    return Read(segment, segment.clamp_count(queue_offset, max_count))


def to_the_end(segment: Segment, remark: str) -> ContinueAt:
    """Plan to send a reader to the end of a segment that has nothing for it up to there.

    It is redirected when it asks from there. A redirect would teach it the next segment, but not
    that this one has nothing: clients look for the segment of their offset, and would ask here
    again. To them there is nothing new; 5.0.0-PREVIEW takes "nothing matched" in a segment that
    others follow for an illegal offset, and leaves the queue alone for ten seconds.
    """
    return ContinueAt(ResponseCode.PULL_NOT_FOUND, remark, segment.offset_max)


def may_know(
    mapping: TopicMapping, segment: Segment, is_new: Callable[[Segment], bool]
) -> Sequence[Segment]:
    """Return segments of a queue, up to one, any of which may be the last that a reader knows.

    All but the first are new, and it is told of each by a redirect from the end of the one before.
    Where that leads nowhere it would only wait.
    """
    own = mapping.of_queue(segment.queue_id)
    end = own.index(segment) + 1
    begin = end - 1
    while begin and end - begin <= TELLS_MAX and is_new(own[begin]):
        before = own[begin - 1]
        if before.logical_index != segment.logical_index or min(before.delta, own[begin].delta) < 0:
            break
        if redirect_from(mapping, before) is None:
            break
        begin -= 1
    return own[begin:end]


def _before(first: Segment, queue_offset: int, mapping: TopicMapping) -> ContinueAt:
    """Plan the answer to a reader before the first segment of a queue.

    Clients of 5.0.0-PREVIEW ask the segment behind a gap for the offsets in the gap. A redirect
    would let them ask the same again, unless another segment has the offset.
    """
    if first.delta >= 0:
        place = mapping.chain(first.logical_index).locate(first.to_logical(queue_offset))
        if place is None or not place.is_legal or place.segment is first:
            return ContinueAt(ResponseCode.PULL_NOT_FOUND, UNSUITABLE, first.offset_delta)
        redirect = Redirect(first, place.segment)
    else:
        redirect = redirect_from(mapping, first) or Redirect(first, first)
    return ContinueAt(ResponseCode.PULL_RETRY_IMMEDIATELY, UNSUITABLE, first.offset_delta, redirect)


def gone_on_at(mapping: TopicMapping, segment: Segment) -> Segment | None:
    """Return the segment at which a queue seems to have gone on, while ``segment`` is open still.

    This broker was told so, and has not been able to ask there yet. What it gave out behind that
    segment's first offset would be taken for other messages.
    """
    chain = mapping.chain(segment.logical_index)
    if chain[-1] is segment:  # nearly always
        return None
    last = chain.normal
    if last is None or mapping.is_own(last):
        return None
    return last if last.order > segment.order else None


def _leave(
    mapping: TopicMapping, segment: Segment, remark: str, *, waits: bool
) -> Wait | ContinueAt:
    """Plan to send the client on; where there is no next segment yet, it waits at the end."""
    redirect = redirect_from(mapping, segment)
    if redirect is None and waits:
        return Wait(segment, remark)
    return ContinueAt(ResponseCode.PULL_RETRY_IMMEDIATELY, remark, segment.offset_max, redirect)


def redirect_from(mapping: TopicMapping, segment: Segment) -> Redirect | None:
    """Return the redirect to the next readable segment behind ``segment``, where there is one."""
    following = mapping.chain(segment.logical_index).next_readable(segment)
    return None if following is None else Redirect(segment, following)


# Offsets of a whole message queue


def queue_min(mapping: TopicMapping, queue_id: int, min_offset: int) -> int:
    """Return the least offset for readers of a queue, given its first message's.

    That is not before its first segment with messages, so that all clients agree.
    """
    own = mapping.of_queue(queue_id)
    if not own:
        return min_offset
    for segment in own:
        if segment.state is not SegmentState.EXPIRED:
            return segment.clamp_min(min_offset)
    return max(min_offset, own[-1].offset_max)


def queue_max(mapping: TopicMapping, queue_id: int, max_offset: int) -> int:
    """Return the end of a queue for readers, given its messages' end."""
    latest = mapping.latest(queue_id)
    return max_offset if latest is None else latest.clamp_max(max_offset)


def is_continued(mapping: TopicMapping, queue_id: int) -> bool:
    """Return whether the logical queue of a message queue ends elsewhere.

    A destination that is not open yet does not count: nothing is to be read there.
    """
    latest = mapping.latest(queue_id)
    if latest is None:
        return False
    chain = mapping.chain(latest.logical_index)
    placed = [segment for segment in chain if segment.state is not SegmentState.WRITE_ONLY]
    return bool(placed) and placed[-1].message_queue != latest.message_queue
