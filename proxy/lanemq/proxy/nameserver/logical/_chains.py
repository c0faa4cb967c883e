"""The part of a chain that may be shown to clients, given the brokers' reports so far.

Brokers report their own segments only, each when it can. So a chain that is put together from
reports may be one that never was: the old end still open beside the new one, or a hole where a
broker's report is late. Clients that were shown a hole would pass over messages, and with two
open ends their messages would be in no order.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import final

from lanemq.wire.logical import (
    Chain,
    LogicalQueues,
    Segment,
    SegmentKey,
    SegmentState,
    by_offset,
    check_physical_queue,
)

IsKnown = Callable[[Segment | None, Segment], bool]
"""Tells whether the second of two segments is known to follow the first (None: the begin)."""


@final
@dataclass(frozen=True, slots=True)
class Judged:
    """The judgement on a chain."""

    chain: Chain
    """The chain without segments that clients need not see, up to the first problem."""
    problem: str | None = None


def judge(
    chain: Chain,
    *,
    has_master: Callable[[str], bool],
    follows: IsKnown,
    is_known_gap: IsKnown,
    is_doubtful: Callable[[SegmentKey], bool],
) -> Judged:
    """Judge a reported chain.

    ``has_master`` tells of a broker name whether it is registered. ``follows`` is asked where
    the reports do not show it, ``is_known_gap`` where there are offsets that nobody has. A
    segment ``is_doubtful`` that is at odds with another one on its physical queue.

    - An open segment that another follows has been sealed: its successor could not have been
      placed otherwise. It is shown with the end that this gives it.
    - A destination whose place is not known yet is hidden while the broker of the open end is
      there: producers should stay with that.
    """
    unplaced = [s for s in chain if s.delta < 0 and s.state is SegmentState.WRITE_ONLY]
    shown: list[Segment] = []
    problem = None
    before: Segment | None = None
    place = 0  # where it is shown
    for segment in (s for s in chain if s.delta >= 0):
        overlaps_nothing = before is None or before.is_sealed or before.delta == segment.delta
        if segment.is_empty and overlaps_nothing:
            shown.append(segment)  # without offsets it contradicts nothing
            continue
        if is_doubtful(segment.key):
            problem = f"{segment} is at odds with another segment on its queue"
        elif before is None:
            if segment.delta > 0 and not is_known_gap(None, segment):
                problem = f"nobody has reported what is before {segment}"
        elif not before.is_sealed:
            if before.delta == segment.delta and segment.state is SegmentState.NORMAL:
                problem = f"both {before} and {segment} are open"
            elif unplaced and not follows(before, segment):
                problem = f"it is not known yet whether {segment} follows {before}"
            else:
                shown[place] = _sealed_by(before, segment)
        elif before.next_delta > segment.delta:
            problem = f"{before} overlaps {segment}"
        elif before.next_delta < segment.delta and not is_known_gap(before, segment):
            problem = f"nobody has reported what is between {before} and {segment}"
        if problem is not None:
            break
        place = len(shown)
        shown.append(segment)
        before = segment
    if unplaced and not (before and before.is_writable and has_master(before.broker_name)):
        shown.append(unplaced[0])  # the same one at every name server
        if problem is None and len(unplaced) > 1:
            problem = f"both {unplaced[0]} and {unplaced[1]} are destinations"
    return Judged(Chain(chain.index, shown), problem)


def _sealed_by(segment: Segment, successor: Segment) -> Segment:
    offset_max = segment.offset_delta + successor.delta - segment.delta
    if not segment.is_writable:
        return replace(segment, offset_max=offset_max)
    return segment.sealed(offset_max)


def doubtful_segments(segments: Iterable[Segment]) -> set[SegmentKey]:
    """Return the segments that contradict an earlier one on the same physical queue."""
    on_queue: dict[tuple[str, int], list[Segment]] = defaultdict(list)
    for segment in segments:
        if segment.delta >= 0 or segment.is_writable:
            on_queue[segment.broker_name, segment.queue_id].append(segment)
    doubtful = set()
    for found in on_queue.values():
        ordered = by_offset(found)
        for before, after in itertools.pairwise(ordered):
            if check_physical_queue((before, after)):
                doubtful.add(after.key)
    return doubtful


def queues_of(live: Mapping[int, Chain]) -> set[tuple[str, int]]:
    """Return the physical queues, by broker name and id, with a segment."""
    return {(s.broker_name, s.queue_id) for chain in live.values() for s in chain}


def own_queues(queues: LogicalQueues, broker_name: str, topic: str) -> LogicalQueues:
    """Return a broker's own segments of a topic, and all chains."""
    return LogicalQueues(
        Chain(chain.index, (s for s in chain if s.broker_name == broker_name and s.topic == topic))
        for chain in queues.values()
    )


def segments_of(queues: LogicalQueues | None) -> int:
    """Return the number of segments, and of chains without any."""
    return 0 if queues is None else sum(len(chain) or 1 for chain in queues.values())
