"""The invariants of logical queues, and a checker that names each violation.

The names I1 to I8 are used throughout: in findings, tests and documentation. The functions here
check one state; I6 and I7 compare two, which tests of histories do.

- I1 every segment knows its first logical offset, but for a last one that is WriteOnly
- I2 segments follow each other without overlapping; a gap is a finding of its own kind
- I3 at most one segment is Normal; it is the last, or the last but a WriteOnly one
- I4 at most one segment is WriteOnly, and none follows it
- I5 on one physical queue segments do not overlap; only the last there takes messages
- I6 the end of a sealed segment never changes
- I7 a logical offset that was given out keeps its message
- I8 indices are not negative, and a segment names the chain that it is in
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import final

from ._chain import Chain, by_offset
from ._queues import LogicalQueues
from ._segment import Segment
from ._segment_state import SegmentState


@final
class Invariant(StrEnum):
    """The rule that a finding is about; see the module."""

    PLACED = "I1"
    CONTIGUOUS = "I2"
    ONE_NORMAL = "I3"
    ONE_WRITE_ONLY = "I4"
    QUEUE = "I5"
    END = "I6"
    MEANING = "I7"
    INDEX = "I8"


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """One place where a rule is broken."""

    invariant: Invariant
    text: str
    is_gap: bool = False
    """Offsets that no segment has: legal where a segment was removed, or a delta was forced."""

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"


def check_chain(chain: Chain) -> list[Finding]:
    """Return findings I1 to I4 and I8 of one logical queue; none for a valid chain."""
    return [
        *_index(chain),
        *_placed(chain),
        *_contiguous(chain),
        *_writable(chain),
    ]


def check_queues(queues: LogicalQueues) -> list[Finding]:
    """Return findings I1 to I5 and I8 of all logical queues of a topic."""
    findings = [finding for chain in queues.values() for finding in check_chain(chain)]
    on_queue: dict[tuple[str, int], list[Segment]] = defaultdict(list)
    for segment in queues.segments:
        on_queue[segment.broker_name, segment.queue_id].append(segment)
    for segments in on_queue.values():
        findings += check_physical_queue(segments)
    return findings


def check_physical_queue(segments: Iterable[Segment]) -> list[Finding]:
    """Return findings I5; ``segments`` are all those of one physical queue."""
    findings = []
    for before, after in pairwise(by_offset(s for s in segments if not s.is_empty)):
        if before.is_writable:
            findings.append(
                Finding(Invariant.QUEUE, f"{before} takes messages though {after} follows")
            )
        elif not before.is_sealed or before.offset_max > after.offset_delta:
            findings.append(Finding(Invariant.QUEUE, f"{before} overlaps {after} on its queue"))
    return findings


def _index(chain: Chain) -> list[Finding]:
    findings = []
    if chain.index < 0:
        findings.append(Finding(Invariant.INDEX, f"logical queue {chain.index}"))
    findings += [
        Finding(Invariant.INDEX, f"{segment} is in the chain of {chain.index}")
        for segment in chain
        if segment.logical_index != chain.index
    ]
    return findings


def _placed(chain: Chain) -> list[Finding]:
    return [
        Finding(Invariant.PLACED, f"{segment} does not know its first logical offset")
        for at, segment in enumerate(chain)
        if segment.delta < 0
        and not (segment.state is SegmentState.WRITE_ONLY and at == len(chain) - 1)
    ]


def _contiguous(chain: Chain) -> list[Finding]:
    findings = []
    placed = [s for s in chain if s.delta >= 0 and not s.is_empty]
    for before, after in pairwise(placed):
        end = before.end_offset
        if end is None:
            # Two that take messages are the business of I3 and I4.
            if not before.is_writable:
                findings.append(Finding(Invariant.CONTIGUOUS, f"{before} has no end"))
        elif end > after.delta:
            findings.append(Finding(Invariant.CONTIGUOUS, f"{before} overlaps {after}"))
        elif end < after.delta:
            text = f"nobody has {end} to {after.delta - 1} of logical queue {chain.index}"
            findings.append(Finding(Invariant.CONTIGUOUS, text, is_gap=True))
    return findings


def _writable(chain: Chain) -> list[Finding]:
    findings = []
    for segment, following in pairwise(chain):
        if segment.state is SegmentState.WRITE_ONLY:
            text = f"{segment} is followed by {following}"
            findings.append(Finding(Invariant.ONE_WRITE_ONLY, text))
        elif segment.state is SegmentState.NORMAL and (
            following.state is not SegmentState.WRITE_ONLY
        ):
            text = f"{segment} is followed by {following}"
            findings.append(Finding(Invariant.ONE_NORMAL, text))
    if chain.segments:
        last = chain[-1]
        if last.is_writable and last.is_sealed:
            findings.append(Finding(Invariant.ONE_NORMAL, f"{last} is sealed"))
    return findings
