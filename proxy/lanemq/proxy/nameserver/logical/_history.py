"""The past of a topic's segments, by which a name server tells a hole from removed offsets.

A hole in a chain may be a report that is late. It is none if brokers have had the offsets and took
them back, or if there is no broker left to wait for. A broker may also report it (``GapReport``).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, final

from lanemq.wire.logical import Chain, Segment, SegmentKey, TopicReport

Edge = tuple[SegmentKey | None, SegmentKey]
"""A pair of segments that follow each other; None before the first."""

SPARE_MAX: Final = 4
"""Edges, and ranges, of a logical queue that are kept beyond as many as it has segments: there is
one place before each, and one behind the last, but some of a place may wait for others."""


@final
class History:
    """The past of one topic."""

    def __init__(self) -> None:
        self._edges: dict[int, frozenset[Edge]] = {}
        self._removed: dict[int, list[tuple[int, int]]] = {}

    def copy(self) -> "History":
        """Return a copy."""
        copied = History()
        copied._edges, copied._removed = dict(self._edges), dict(self._removed)
        return copied

    def removed(self, segments: Iterable[Segment]) -> None:
        """Note that a broker has lost segments; this helps where a segment's end was known.

        If it was not, clients were shown it to end where the next one known begins, and
        others may be between.
        """
        more = defaultdict[int, list[tuple[int, int]]](list)
        for segment in segments:
            end = segment.end_offset
            if end is not None and end > segment.delta:
                more[segment.logical_index].append((segment.delta, end))
        for index, ranges in more.items():
            self._removed[index] = _joined([*self._removed.get(index, ()), *ranges])

    def take_as_found(self, chains: Iterable[Chain]) -> None:
        """Accept these chains as complete: missing segments will not come."""
        self._edges = {chain.index: frozenset(_edges(chain)) for chain in chains}

    def keep_that_of(self, live: Mapping[int, Chain], shown: Collection[int]) -> None:
        """Forget logical queues that have no segments, and are not shown; of others, what is more
        than their segments can need."""
        self._edges = {
            index: _needed_edges(edges, live.get(index, Chain(index)))
            for index, edges in self._edges.items()
            if index in live or index in shown
        }
        self._removed = {
            index: _needed_ranges(ranges, live.get(index, Chain(index)))
            for index, ranges in self._removed.items()
            if index in live or index in shown
        }

    def of(self, shown: Chain, reported: Iterable[tuple[int, int]] = ()) -> "Past":
        """Return the past of one logical queue, of which clients have seen ``shown``.

        ``reported`` are ranges of offsets of which brokers say that they are gone.
        """
        found = self._edges.get(shown.index, frozenset())
        gone = _joined([*self._removed.get(shown.index, ()), *reported])
        return Past(found, frozenset(_edges(shown)), gone)


@final
@dataclass(frozen=True, slots=True)
class Past:
    """The past of one logical queue, gathered once for all its segments."""

    found: frozenset[Edge]
    shown: frozenset[Edge]
    gone: list[tuple[int, int]]
    """The ranges of offsets that were removed, in order, with some between any two."""

    def follows(self, before: Segment | None, after: Segment) -> bool:
        """Return whether one segment follows the other, as clients have seen or as was found.

        This does not prove that nothing is between: a segment whose broker has not said yet
        where it ended is shown to end where the next known one begins.
        """
        edge = _edge(before, after)
        return edge in self.found or edge in self.shown

    def is_known_gap(self, before: Segment | None, after: Segment) -> bool:
        """Return whether the offsets between two segments are known to be gone."""
        if _edge(before, after) in self.found:
            return True
        begin = 0 if before is None else before.next_delta
        at = bisect_right(self.gone, begin, key=itemgetter(0)) - 1
        return at >= 0 and after.delta <= self.gone[at][1]


def _needed_edges(edges: frozenset[Edge], chain: Chain) -> frozenset[Edge]:
    """Return those of a chain's segments where there are too many; segments that are gone seldom
    come back."""
    if len(edges) <= len(chain) + SPARE_MAX:
        return edges
    keys = {None, *(segment.key for segment in chain)}
    return frozenset(edge for edge in edges if keys.issuperset(edge))


def _needed_ranges(ranges: list[tuple[int, int]], chain: Chain) -> list[tuple[int, int]]:
    """Return the first ones where there are too many, but for those in sealed segments: these are
    as good as removed with their segment."""
    if len(ranges) <= len(chain) + SPARE_MAX:
        return ranges
    sealed = _joined((s.delta, s.next_delta) for s in chain.placed if s.is_sealed)
    found: list[tuple[int, int]] = []
    for low, high in ranges:
        at = bisect_right(sealed, low, key=itemgetter(0)) - 1
        if at < 0 or high > sealed[at][1]:
            found.append((low, high))
    return found[: len(chain) + SPARE_MAX]


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge ranges to as few as possible."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return joined


def _edge(before: Segment | None, after: Segment) -> Edge:
    return None if before is None else before.key, after.key


def _edges(chain: Chain) -> Iterator[Edge]:
    """Iterate over neighbours with known places; before one without, something may be missing."""
    before = None
    for segment in chain:
        if segment.delta >= 0:
            yield before, segment.key
            before = segment.key


def reported_gaps(reports: Iterable[TopicReport | None]) -> dict[int, list[tuple[int, int]]]:
    """Return the ranges of offsets of which brokers say that they are gone, by logical queue."""
    gaps = defaultdict[int, list[tuple[int, int]]](list)
    for report in reports:
        for gap in report.gaps if report is not None else ():
            gaps[gap.logical_index].append((gap.begin, gap.end))
    return gaps
