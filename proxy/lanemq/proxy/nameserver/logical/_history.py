"""The past of a topic's segments, by which a name server tells a hole from removed offsets.

A hole in a chain may be a report that is late. It is not if brokers have had the offsets
and took them back, or if no broker can be waited for any more. A broker may also say so
(``GapReport``).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import final

from lanemq.wire.logical import Chain, Segment, SegmentKey, TopicReport

Edge = tuple[SegmentKey | None, SegmentKey]
"""A pair of segments that follow each other; None before the first."""


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

    def removed(self, segment: Segment) -> None:
        """Note that a broker has lost a segment; this helps if the segment's end was known.

        If it was not, clients were shown it to end where the next one known begins, and
        others may be between.
        """
        end = segment.end_offset
        if end is not None and end > segment.delta:
            ranges = self._removed.get(segment.logical_index, [])
            self._removed[segment.logical_index] = _joined([*ranges, (segment.delta, end)])

    def take_as_found(self, chains: Iterable[Chain]) -> None:
        """Accept these chains as complete: missing segments will not come."""
        self._edges = {chain.index: frozenset(_edges(chain)) for chain in chains}

    def follows(self, shown: Chain, before: Segment | None, after: Segment) -> bool:
        """Return whether one segment follows the other, as clients have seen or as was found.

        This does not prove that nothing is between: a segment whose broker has not said yet
        where it ended is shown to end where the next known one begins.
        """
        return self._was_found(shown.index, before, after) or _edge(before, after) in _edges(shown)

    def is_known_gap(
        self,
        index: int,
        before: Segment | None,
        after: Segment,
        reported: Iterable[tuple[int, int]] = (),
    ) -> bool:
        """Return whether the offsets between two segments are known to be gone.

        ``reported`` are ranges of offsets of which brokers say so.
        """
        if self._was_found(index, before, after):
            return True
        begin = 0 if before is None else before.next_delta
        ranges = _joined([*self._removed.get(index, ()), *reported])
        return any(low <= begin and after.delta <= high for low, high in ranges)

    def _was_found(self, index: int, before: Segment | None, after: Segment) -> bool:
        return _edge(before, after) in self._edges.get(index, ())


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
