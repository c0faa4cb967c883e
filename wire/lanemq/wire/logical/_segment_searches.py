"""Parts of conversations: the first offset of a segment, its offsets by time, times of messages."""

from . import translate
from ._conversations import Asked, Boundary, Conversation, ask
from ._segment import Segment


def offset_from(segment: Segment, time_ms: int) -> Conversation[int]:
    """Find the first physical offset of a segment stored at a time or later; its end without
    any."""
    told = yield from ask(segment, Asked.OFFSET_AT, time_ms, Boundary.LOWER)
    return translate.searched(segment, told.value)


def begin_of(segment: Segment) -> Conversation[int]:
    """Find the first physical offset of a segment with a message; its end without any."""
    told = yield from ask(segment, Asked.MIN_OFFSET)
    return translate.searched(segment, max(0, told.value))


def time_of(segment: Segment, offset: int, low_ms: int, high_ms: int) -> Conversation[int]:
    """Find the store time of the message at a physical offset by halves: it is ``low_ms`` or later,
    and before ``high_ms``."""
    while low_ms + 1 < high_ms:
        middle_ms = (low_ms + high_ms) // 2
        if (yield from offset_from(segment, middle_ms)) <= offset:
            low_ms = middle_ms
        else:
            high_ms = middle_ms
    return low_ms
