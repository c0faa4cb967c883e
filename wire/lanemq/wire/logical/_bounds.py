"""Conversations about the bounds of a logical queue: its first offset, its end, its first time."""

from .._codes import ResponseCode
from .._numbers import LONG_MAX
from . import translate
from ._chain import Chain
from ._conversations import Asked, Conversation, Moving, ask, look_again
from ._pull_steps import ROUNDS_MAX
from ._segment_searches import offset_from, time_of


def min_offset(chain: Chain) -> Conversation[int]:
    """Find the least logical offset with a message; the end of the queue without any."""
    for segment in chain.readable:
        told = yield from ask(segment, Asked.MIN_OFFSET)
        if (first := translate.first_of(segment, max(0, told.value))) is not None:
            return first
    return chain.known_end


def max_offset(chain: Chain) -> Conversation[int]:
    """Find the logical offset that the next message will get, as far as can be told now.

    The end of a sealed last segment counts after a look that shows nothing behind it: the queue
    is being moved, or closed. Raises ``Moving``.
    """
    is_fresh = False
    for _ in range(ROUNDS_MAX):
        segment = chain.last
        if segment is None:
            return chain.known_end
        if segment.is_sealed:
            if is_fresh:
                return chain.known_end
            chain, is_fresh = (yield from look_again()), True
            continue
        told = yield from ask(segment, Asked.MAX_OFFSET)
        if not told.is_continued:
            return translate.end_of(segment, told.value)
        # It continues at another broker. The answer says no more; the known chain may be older.
        chain, is_fresh = (yield from look_again()), True
        if chain.last == segment:
            return translate.end_of(segment, told.value)
    remark = f"logical queue {chain.index} is being moved, and its end could not be found out"
    raise Moving(ResponseCode.SERVICE_NOT_AVAILABLE, remark)


def earliest_time_ms(chain: Chain) -> Conversation[int]:
    """Find the store time of the first message of a logical queue; -1 without any."""
    for segment in chain.readable:
        least = max(0, (yield from ask(segment, Asked.MIN_OFFSET)).value)
        first = segment.clamp_min(least)
        if not segment.keeps(first):
            continue
        if segment.is_sealed and segment.first_time_ms > 0 and first == segment.offset_delta:
            return segment.first_time_ms
        earliest_ms = (yield from ask(segment, Asked.EARLIEST_TIME)).value
        if first == least or earliest_ms < 0:
            return earliest_ms
        # The message queue begins with messages of other segments.
        step_ms = 1
        while (yield from offset_from(segment, min(earliest_ms + step_ms, LONG_MAX))) <= first:
            if earliest_ms + step_ms >= LONG_MAX:  # nothing is stored in the segment yet
                return -1
            step_ms *= 2
        return (yield from time_of(segment, first, earliest_ms, earliest_ms + step_ms))
    return -1
