"""The conversation of a pull from a logical queue: one segment's messages, or where to go on.

A pull is answered by the broker of the segment that holds its offset. Who pulls decides how to
ask, how long to wait and what to answer; the next step is ``next_pull_step``'s.
"""

from collections.abc import Generator
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, final

from ._chain import Chain, Located
from ._conversations import Redirected, Taken
from ._pull_steps import ROUNDS_MAX, GoOn, PullWait, next_pull_step
from ._reader_positions import K, ReaderPositions


@final
class PullAsk(NamedTuple):
    """The step of pulling from the broker of a segment; answered by ``Taken`` or ``Redirected``."""

    located: Located
    chain: Chain
    """The chain by which it was chosen."""


class PullStep(Enum):
    """The steps of a pull that ask no broker of a segment."""

    CONFIRM = auto()
    """Ask a name server whether the chain is as it tells it; answered by ``Confirmed``."""


CONFIRM: Final = PullStep.CONFIRM


@final
class LookForReader(NamedTuple):
    """The step of finding out where a reader goes on whose place nobody remembers; answered by
    ``ReaderAt``."""

    chain: Chain


@final
class ReaderAt(NamedTuple):
    """The offset at which a reader has to go on; None if that is where it asks."""

    offset: int | None


@final
class Confirmed(NamedTuple):
    """The chain as it is known after a look, and whether a name server has told it just now."""

    chain: Chain
    is_told: bool


@final
class NothingYet(NamedTuple):
    """The outcome of a pull that nobody can answer with messages now."""

    chain: Chain
    is_redirected: bool = False
    """True if brokers sent the reader on again and again."""


@final
class GoesOn(NamedTuple):
    """The outcome of a pull whose reader has to continue at another offset."""

    offset: int
    chain: Chain


PullStepOf = PullAsk | PullStep | LookForReader
PullReply = Taken | Redirected | Confirmed | ReaderAt
PullOutcome = PullAsk | NothingYet | GoesOn
"""The question that was answered for good, or why there is none."""


@final
class PullFrom(Generic[K]):
    """A pull of one reader at a logical offset."""

    def __init__(
        self,
        reader: K,
        offset: int,
        positions: ReaderPositions[K],
        *,
        looks_for_reader: bool = False,
    ) -> None:
        """With ``looks_for_reader`` each round asks for the reader's place before messages."""
        self._reader = reader
        self._offset = offset
        self._positions = positions
        self._looks_for_reader = looks_for_reader

    def steps(self, chain: Chain) -> Generator[PullStepOf, PullReply, PullOutcome]:
        """Pull until a broker has answered for good, or the reader has to wait or to go on."""
        is_told = False
        for _ in range(ROUNDS_MAX):
            step = next_pull_step(
                chain, self._reader, self._offset, self._positions, is_confirmed=is_told
            )
            if self._looks_for_reader and step is not PullWait.NOTHING_READABLE:
                found = yield LookForReader(chain)
                assert isinstance(found, ReaderAt)
                if found.offset is not None:
                    return GoesOn(found.offset, chain)
            if step is PullWait.UNCONFIRMED:
                confirmed = yield CONFIRM
                assert isinstance(confirmed, Confirmed)
                chain, is_told = confirmed
                if is_told:
                    continue
            match step:
                case PullWait():
                    return NothingYet(chain)
                case GoOn(begin):
                    return GoesOn(begin, chain)
            asked = PullAsk(step, chain)
            match (yield asked):
                case Taken():
                    return asked
                case Redirected(chain):
                    pass
                case reply:
                    raise AssertionError(f"{reply} is not an answer to a pull")
        return NothingYet(chain, is_redirected=True)
