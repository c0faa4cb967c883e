"""Commits of readers at a listener, and what they count for wherever the queue is by then.

A commit may wait: for a route, or for the answer to an earlier one. The queue may go on past the
broker that the reader has read in the meantime, so what a commit counts for is decided when it is
written, by where the reader was when it came.
"""

from typing import NamedTuple, final

from lanemq.wire.logical import Chain, Reached, ReaderPositions

Reader = tuple[str, str, int]
"""Group, topic, index."""


@final
class ReaderCommit(NamedTuple):
    """A logical offset that a reader has come to, or that a tool sets."""

    offset: int
    reached: Reached | None = None
    """The place of the reader; None if no listener knows it, or if the commit is a tool's."""
    is_certain: bool = True
    """True if ``offset`` counts, though nobody knows where it was read."""

    def in_chain(self, chain: Chain) -> int | None:
        """Return the offset to keep of it; None if it may be one of a source that the queue went
        past."""
        if self.reached is not None:
            return self.reached.worth(self.offset, chain)
        if self.is_certain or chain.forced_before(self.offset) is None:
            return self.offset
        return None


def reader_commit(reader: Reader, offset: int, places: ReaderPositions[Reader]) -> ReaderCommit:
    """Return the commit of a reader, with its place as it is now."""
    return ReaderCommit(offset, places.reached(reader, offset), places.knows(reader))
