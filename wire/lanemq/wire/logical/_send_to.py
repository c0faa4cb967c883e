"""The conversation of a send to a logical queue: to the segment that it ends with, and after it.

A queue may move while a message is on its way, and a broker may be gone. Who sends decides how to
ask, for how long, and what an error is; what to ask next is decided here.
Source: RocketMQ 5.0.0-PREVIEW, DefaultMQProducerImpl.
"""

from collections.abc import Callable, Generator
from enum import Enum, auto
from typing import NamedTuple, final

from ._chain import Chain
from ._conversations import Redirected, Taken
from ._pull_steps import ROUNDS_MAX
from ._segment import Segment


@final
class SendAsk(NamedTuple):
    """The step of sending to the broker of a segment; answered by ``Taken``,
    ``Redirected`` or ``NotReached``."""

    segment: Segment


@final
class NotReached(NamedTuple):
    """The reply that no answer came; ``is_down`` if nothing was sent, so nothing was stored."""

    is_down: bool


@final
class LookForEnd(NamedTuple):
    """The step of asking a name server where the queue ends; answered by ``Looked``."""

    tried: Segment


@final
class Looked(NamedTuple):
    """The chain as it is known after a look."""

    chain: Chain
    has_new_address: bool = False
    """True if the broker that was tried has another address than before."""


@final
class LookForPlace(NamedTuple):
    """The step of asking a name server for the place of a destination that took the message;
    answered by ``Looked``."""

    taken: Segment


class NotSent(Enum):
    """The outcome of a send that no broker has answered for good."""

    NO_END = auto()
    """The queue takes no messages."""
    GAVE_UP = auto()
    """The broker of its end does not answer, and it ends nowhere else."""
    REDIRECTS = auto()
    """Brokers sent the message on again and again."""


SendStep = SendAsk | LookForEnd | LookForPlace
SendReply = Taken | Redirected | NotReached | Looked
SendOutcome = Segment | NotSent
"""The segment that has the message, with its place if that is known; or why there is none."""


def _nobody(_: str) -> bool:
    return False


@final
class SendTo:
    """A send of one message or batch."""

    def __init__(
        self,
        *,
        is_away: Callable[[str], bool] = _nobody,
        asks_closed_end: bool = False,
        needs_place: bool = True,
    ) -> None:
        """``is_away`` tells of a broker by name whether it is known to be down.

        With ``asks_closed_end`` a queue that takes no messages is asked for at its last segment,
        whose broker knows more. Without ``needs_place`` the outcome is the segment as it was asked.
        """
        self._is_away = is_away
        self._asks_closed_end = asks_closed_end
        self._needs_place = needs_place

    def steps(self, chain: Chain) -> Generator[SendStep, SendReply, SendOutcome]:
        """Send until a broker has answered for good."""
        unreachable: set[str] = set()
        segment = self.end(chain, unreachable)
        for round_number in range(1, ROUNDS_MAX + 1):
            if segment is None:
                return NotSent.NO_END
            match (yield SendAsk(segment)):
                case Taken():
                    if segment.delta < 0 and self._needs_place:
                        looked = yield LookForPlace(segment)
                        assert isinstance(looked, Looked)
                        segment = looked.chain.find(segment.key) or segment
                    return segment
                case Redirected(chain):
                    segment = self.end(chain, unreachable)
                case NotReached(is_down):
                    if is_down:
                        unreachable.add(segment.broker_name)
                    if round_number == ROUNDS_MAX:
                        return NotSent.GAVE_UP
                    looked = yield LookForEnd(segment)
                    assert isinstance(looked, Looked)
                    if looked.has_new_address:
                        unreachable.discard(segment.broker_name)
                    following = self.end(looked.chain, unreachable)
                    is_same = following is not None and following.key == segment.key
                    if following is None or (is_same and not looked.has_new_address):
                        return NotSent.GAVE_UP
                    segment = following
                case reply:
                    raise AssertionError(f"{reply} is not an answer to a send")
        return NotSent.REDIRECTS

    def end(self, chain: Chain, unreachable: set[str]) -> Segment | None:
        """Return the segment to send to; None if there is none, or its broker is unreachable."""
        segment = chain.tail_without(lambda name: name in unreachable or self._is_away(name))
        if segment is None and self._asks_closed_end and chain.placed:
            segment = chain.placed[-1]
        return None if segment is None or segment.broker_name in unreachable else segment
