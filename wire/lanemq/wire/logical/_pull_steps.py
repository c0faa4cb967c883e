"""The steps of a pull from a logical queue: which segment to ask, where to go on, when to wait.

A pull takes rounds: each looks at the chain as it is known then, and may learn of a newer one, from
a broker's redirect or a name server. Who pulls does what the step says, and looks again.
"""

from enum import Enum, auto
from typing import Final, NamedTuple, final

from ._chain import Chain, Located
from ._reader_positions import K, ReaderPositions

ROUNDS_MAX: Final = 4
"""Most times that one request about a logical queue is put to brokers, redirects included."""
NOTHING_READABLE_S: Final = 1.0
"""Most seconds for which a pull is held where no segment can be read."""


@final
class GoOn(NamedTuple):
    """The step of a reader that has to go on elsewhere, without any messages."""

    logical_offset: int
    """Behind the offset asked for where messages are gone or not known; before it where the queue
    continued at a cut, and other messages are there now."""


@final
class PullWait(Enum):
    """The step of a reader for which there is nothing yet."""

    NOTHING_READABLE = auto()
    """All messages are gone, and the next ones cannot be read yet."""
    UNCONFIRMED = auto()
    """There may be others before the next known segment: a redirect names two of them, and a name
    server shows none behind offsets that may be somewhere. One that confirms the chain as it is
    makes this another step."""


def next_pull_step(
    chain: Chain,
    reader: K,
    offset: int,
    positions: ReaderPositions[K],
    *,
    is_confirmed: bool,
) -> Located | GoOn | PullWait:
    """Return the next step of a reader that asks for a logical offset; a place is to be asked for
    messages.

    ``is_confirmed`` says that a name server has told the chain since the pull began.
    """
    place = chain.locate(offset)
    if place is None:
        return PullWait.NOTHING_READABLE
    cut = positions.go_on_at(reader, offset, place.segment, chain)
    if cut is not None:
        return GoOn(cut)
    if place.logical_offset > offset and not is_confirmed:
        return PullWait.UNCONFIRMED
    return place if place.is_legal else GoOn(place.logical_offset)
