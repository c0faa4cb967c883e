"""Conversations with the brokers of a logical queue's segments: their steps and answers.

A conversation is a generator. It yields what to do next: an ``Ask`` of a segment's broker, or
``LookAgain``. Whoever holds the conversation does that, sends the answer in, and gets the outcome
in the end; ``hold`` and
``converse`` are the loops. So clients, listeners and gateways share each
decision, and differ in how they ask, wait and fail.
"""

from collections.abc import Awaitable, Callable, Generator
from enum import Enum
from typing import Final, NamedTuple, TypeVar, final

from .._errors import Refused
from ._chain import Chain
from ._segment import Segment

T = TypeVar("T")


@final
class Boundary(Enum):
    """The side of a time that a search is for; the values are those of the field of 5.x."""

    NEAREST = ""
    """The message stored nearest to the time; of two as near, the earlier one."""
    LOWER = "LOWER"
    """The first message stored at the time or later; the end of the queue without any."""
    UPPER = "UPPER"
    """The last message stored at the time or before; the first one without any."""

    @classmethod
    def of(cls, text: str | None) -> "Boundary":
        """Return the boundary that a request names; an unknown one counts as none."""
        try:
            return cls((text or "").upper())
        except ValueError:
            return cls.NEAREST


@final
class Asked(Enum):
    """The kind of a question to the broker of a segment."""

    MIN_OFFSET = "min"
    """The first offset of the message queue that has a message (31)."""
    MAX_OFFSET = "max"
    """The end of the message queue, as for a reader of a logical queue (30)."""
    OFFSET_AT = "offset at"
    """The offset in the message queue at a time (29)."""
    EARLIEST_TIME = "earliest time"
    """The store time of the message queue's first message (32)."""


@final
class Ask(NamedTuple):
    """A question to the broker of a segment, about its message queue; offsets are physical."""

    segment: Segment
    asked: Asked
    timestamp_ms: int = 0
    """The time of ``OFFSET_AT``."""
    boundary: Boundary = Boundary.LOWER
    """The side of it."""


@final
class Told(NamedTuple):
    """The answer to an ``Ask``: a physical offset, or a time in milliseconds."""

    value: int
    is_continued: bool = False
    """True if the broker said that the queue continues at another one."""


@final
class LookAgain(NamedTuple):
    """The step of asking a name server for the chain; the answer is the chain known then."""


LOOK_AGAIN: Final = LookAgain()

Step = Ask | LookAgain
Reply = Told | Chain
Conversation = Generator[Step, Reply, T]
"""The steps of a conversation; each is answered by ``Told`` or, for ``LookAgain``, by a chain."""


@final
class Taken(NamedTuple):
    """The reply that a broker has answered a send or a pull for good, with a refusal as well."""


@final
class Redirected(NamedTuple):
    """The reply that a broker named another place; ``chain`` is what is known with it."""

    chain: Chain


class Moving(Refused):
    """The queue is moved more quickly than it can be asked; the same may succeed in a moment."""


def hold(conversation: Conversation[T], answer: Callable[[Step], Reply]) -> T:
    """Hold a conversation whose answers are there at once."""
    try:
        step = next(conversation)
        while True:
            step = conversation.send(answer(step))
    except StopIteration as end:
        outcome: T = end.value
        return outcome


async def converse(conversation: Conversation[T], answer: Callable[[Step], Awaitable[Reply]]) -> T:
    """Hold a conversation whose answers have to be waited for. Raises what ``answer`` raises."""
    try:
        step = next(conversation)
        while True:
            step = conversation.send(await answer(step))
    except StopIteration as end:
        outcome: T = end.value
        return outcome


def ask(
    segment: Segment,
    asked: Asked,
    timestamp_ms: int = 0,
    boundary: Boundary = Boundary.LOWER,
) -> Generator[Step, Reply, Told]:
    """Ask the broker of a segment, as a part of a conversation."""
    told = yield Ask(segment, asked, timestamp_ms, boundary)
    assert isinstance(told, Told), f"{told} is not an answer to a question about {segment}"
    return told


def look_again() -> Generator[Step, Reply, Chain]:
    """Ask a name server, as a part of a conversation."""
    chain = yield LOOK_AGAIN
    assert isinstance(chain, Chain), f"{chain} is not a chain"
    return chain
