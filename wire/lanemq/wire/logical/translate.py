"""The translation between a message queue's numbers and those of the logical queue it is part of.

Brokers answer in the numbers of their message queues, and for a whole message queue where one
segment is asked for. The functions here cut an answer down to its segment and shift it to the
logical queue; they serve servers between a client and a broker, and clients that ask brokers
themselves. All of them are pure. Numbers count messages; an end is exclusive; a negative
number is one that is not known.

Source: RocketMQ 5.0.0-PREVIEW, PullAPIWrapper, MQAdminImpl.
"""

from typing import final

import msgspec

from .._codes import ResponseCode
from ._chain import Chain
from ._segment import NOT_SET, Segment


@final
class Numbers(msgspec.Struct, frozen=True, gc=False):
    """The offsets in an answer to a pull, of a message queue or of a logical one.

    (A struct, because every pull makes one: a named tuple takes many times as long.)
    """

    next_offset: int
    """The offset at which the reader goes on."""
    min_offset: int
    """The first offset with a message."""
    max_offset: int
    """The offset behind the last message."""


# Pulls


def within(numbers: Numbers, segment: Segment) -> Numbers:
    """Cut the numbers of a message queue down to those of a segment on it, still physical."""
    begin = segment.offset_delta
    low = segment.clamp_min(numbers.min_offset)
    return Numbers(
        max(segment.clamp_max(numbers.next_offset), begin),
        segment.clamp_max(low),
        max(segment.clamp_max(numbers.max_offset), begin),
    )


def to_logical(numbers: Numbers, segment: Segment) -> Numbers:
    """Shift the numbers of a segment to its logical queue."""
    shift = segment.shift
    return Numbers(
        numbers.next_offset + shift, numbers.min_offset + shift, numbers.max_offset + shift
    )


def pulled(code: int, numbers: Numbers, segment: Segment, asked: int) -> tuple[int, Numbers]:
    """Translate a broker's answer to a pull of ``segment`` at logical offset ``asked``.

    Returns the code and the segment's numbers in the logical queue. An answer without messages
    that does not lead on is PULL_NOT_FOUND: "at once again" would be for ever, and an offset that
    is illegal on the message queue may be legal in the logical one. One that leads on is never
    PULL_NOT_FOUND: a broker says so where a filter passes over the rest of a segment. A number that
    the broker does not tell (5.0.0-PREVIEW says -1 where it has nothing better) becomes ``asked``.
    """
    there = to_logical(within(numbers, segment), segment)
    next_offset, high = there.next_offset, there.max_offset
    if numbers.next_offset < 0:
        next_offset = asked
    if numbers.max_offset < 0:
        high = asked
    if code != ResponseCode.PULL_OFFSET_MOVED:
        next_offset = max(next_offset, asked)
    if code != ResponseCode.SUCCESS and next_offset == asked:
        code = ResponseCode.PULL_NOT_FOUND
    elif code == ResponseCode.PULL_NOT_FOUND:
        code = ResponseCode.PULL_RETRY_IMMEDIATELY
    return code, Numbers(next_offset, there.min_offset, high)


def in_chain(numbers: Numbers, chain: Chain) -> Numbers:
    """Replace the bounds of a segment by those of its whole logical queue, as far as known."""
    end = chain.end_offset
    high = max(numbers.max_offset, chain.known_end) if end is None else end
    return Numbers(numbers.next_offset, chain.min_offset, high)


def passed_over(go_on_at: int, asked: int, chain: Chain) -> tuple[ResponseCode, Numbers]:
    """Return the answer to a pull whose reader has to continue at another offset than it asked for.

    Over a gap between segments the reader simply goes on: told that its offset is illegal, a
    push consumer would leave the queue alone for ten seconds.
    """
    is_gap = chain.min_offset <= asked < go_on_at
    code = ResponseCode.PULL_RETRY_IMMEDIATELY if is_gap else ResponseCode.PULL_OFFSET_MOVED
    return code, nothing_at(go_on_at, chain)


def nothing_at(next_offset: int, chain: Chain) -> Numbers:
    """Return the numbers of an answer without messages, after which readers go on as given."""
    return Numbers(next_offset, chain.min_offset, max(chain.known_end, next_offset))


# Questions for offsets


def end_of(segment: Segment, max_offset: int) -> int:
    """Translate the end of a message queue to the logical offset behind its segment's last
    message."""
    return segment.to_logical(max(segment.clamp_max(max_offset), segment.offset_delta))


def first_of(segment: Segment, offset: int) -> int | None:
    """Translate the first wanted offset of a message queue; None where its segment ends before.

    That is the least offset with a message, or the first at a point in time.
    """
    found = segment.clamp_min(offset)
    return segment.to_logical(found) if segment.keeps(found) else None


def searched(segment: Segment, offset: int) -> int:
    """Cut the result of a search by time down to the segment, still physical: its end for what
    lies behind."""
    return segment.clamp_max(max(offset, segment.offset_delta))


# Sends


def stored_at(segment: Segment, queue_offset: int) -> int:
    """Translate the offset of a stored message; -1 where it, or the segment's place, is not
    known."""
    return NOT_SET if queue_offset < 0 else segment.to_logical(queue_offset)


def as_if_at(addressed: Segment, target: Segment, queue_offset: int) -> int:
    """Translate an offset on ``target`` to one on ``addressed``, as if the message had gone there.

    -1 where it is not known.
    """
    if queue_offset < 0 or addressed.delta < 0 or target.delta < 0:
        return NOT_SET
    return addressed.to_physical(target.to_logical(queue_offset))
