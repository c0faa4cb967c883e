"""The conversation of a commit to a logical queue: what it counts for, and which broker keeps it.

A commit may wait: for a route, or for the answer to an earlier one. The queue may go on past the
broker that the reader has read in the meantime, so what a commit counts for is decided when it is
written, by where the reader was when it came.
"""

from collections.abc import Generator
from enum import Enum, auto
from typing import NamedTuple, Self, final

from ._chain import Chain
from ._conversations import Taken
from ._progress_search import ProgressPlace, progress_keepers
from ._reader_positions import K, Reached, ReaderPositions
from ._send_to import NotReached


@final
class CommitAsk(NamedTuple):
    """The step of keeping a logical offset at a place; answered by ``Taken`` or ``NotReached``."""

    place: ProgressPlace
    offset: int


class NotKept(Enum):
    """The outcome of a commit that no broker has answered for good."""

    NOT_COUNTED = auto()
    """The offset may be one of a source that the queue went past."""
    NO_KEEPER = auto()
    """No broker is known or reached that could keep it."""


@final
class CommitTo(NamedTuple):
    """A commit of the logical offset that a reader has come to, or that a tool sets."""

    offset: int
    reached: Reached | None = None
    """The position of the reader; None if nobody knows it, or if the commit is a tool's."""
    is_certain: bool = True
    """True if ``offset`` counts, though nobody knows where it was read."""

    @classmethod
    def of_reader(cls, reader: K, offset: int, positions: ReaderPositions[K]) -> Self:
        """Return the commit of a reader, with its position as it is now."""
        return cls(offset, positions.reached(reader, offset), positions.knows(reader))

    def in_chain(self, chain: Chain) -> int | None:
        """Return the offset to keep of it; None if it may be one of a source that the queue went
        past."""
        if self.reached is not None:
            return self.reached.worth(self.offset, chain)
        if self.is_certain or chain.forced_before(self.offset) is None:
            return self.offset
        return None

    def steps(
        self, chain: Chain
    ) -> Generator[CommitAsk, Taken | NotReached, ProgressPlace | NotKept]:
        """Commit at the latest place whose broker is reached, as ``ProgressSearch`` finds it."""
        offset = self.in_chain(chain)
        if offset is None:
            return NotKept.NOT_COUNTED
        for place in progress_keepers(chain):
            match (yield CommitAsk(place, offset)):
                case Taken():
                    return place
                case NotReached():
                    pass
        return NotKept.NO_KEEPER
