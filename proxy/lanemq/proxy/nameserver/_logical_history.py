"""What a name server remembers of a topic's segments, to tell a hole from offsets long gone.

A hole in a chain may be a report that is late. It is none where brokers have had the offsets
and took them back, where clients were shown the same two segments in a row before, or
where nobody can be waited for any more.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import final

from lanemq.wire.logical import Chain, Segment, SegmentKey

Edge = tuple[SegmentKey | None, SegmentKey]
"""Two segments that follow each other; None before the first."""


@final
class History:
    """The past of one topic."""

    def __init__(self) -> None:
        self._edges: dict[int, frozenset[Edge]] = {}
        self._removed: dict[int, list[tuple[int, int]]] = {}

    def removed(self, segment: Segment, as_shown: Segment | None) -> None:
        """A broker has a segment no more; ``as_shown`` is what clients know of it."""
        end = segment.end_offset
        if end is None and as_shown is not None:
            end = as_shown.end_offset
        if end is None or not 0 <= segment.delta < end:
            return
        ranges = self._removed.get(segment.logical_index, [])
        self._removed[segment.logical_index] = _joined([*ranges, (segment.delta, end)])

    def take_as_found(self, chains: Iterable[Chain]) -> None:
        """What is not there now will not come: these chains are as they should be."""
        self._edges = {chain.index: frozenset(_edges(chain)) for chain in chains}

    def follows(self, shown: Chain, before: Segment | None, after: Segment) -> bool:
        """Whether two segments are known to be neighbours; ``shown`` is what clients know."""
        edge = (None if before is None else before.key, after.key)
        return edge in self._edges.get(shown.index, ()) or edge in _edges(shown)

    def is_known_gap(self, shown: Chain, before: Segment | None, after: Segment) -> bool:
        """Whether nobody has the offsets between two segments any more, or ever had."""
        if self.follows(shown, before, after):
            return True
        begin = 0 if before is None else before.next_delta
        ranges = self._removed.get(shown.index, ())
        return any(low <= begin and after.delta <= high for low, high in ranges)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers in as few ranges as possible."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return joined


def _edges(chain: Chain) -> Iterator[Edge]:
    placed = next((segment for segment in chain if segment.delta >= 0), None)
    if placed is not None:
        yield None, placed.key
    for before, after in pairwise(chain):
        yield before.key, after.key
