"""A chain: the segments of one logical queue, in order; and the answers that its order gives.

Source: RocketMQ 5.0.0-PREVIEW, LogicalQueuesInfo, PullAPIWrapper, DefaultMQProducerImpl.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

from ._segment import Segment, SegmentKey, SegmentState, sort_key


@final
@dataclass(frozen=True, slots=True)
class Located:
    """Where a reader of a logical offset goes on."""

    segment: Segment
    logical_offset: int
    """Where to read: what was asked for, or the next offset that can be, if that is none."""
    is_legal: bool
    """False where the offset asked for is gone, was never there, or is beyond the end."""

    @property
    def queue_offset(self) -> int:
        """The physical offset in the segment."""
        return self.segment.to_physical(self.logical_offset)


@final
class Chain:
    """The segments of one logical queue, sorted. Immutable: changes give another chain."""

    __slots__ = ("_readable", "_segments", "index")

    def __init__(self, index: int, segments: Iterable[Segment] = ()) -> None:
        self.index = index
        self._segments = tuple(sorted(segments, key=sort_key))
        # Every pull asks for them.
        self._readable = tuple(s for s in self._segments if s.is_readable and s.delta >= 0)

    @property
    def segments(self) -> Sequence[Segment]:
        return self._segments

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, at: int) -> Segment:
        return self._segments[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chain):
            return NotImplemented
        return self.index == other.index and self._segments == other._segments

    def __hash__(self) -> int:
        return hash((self.index, self._segments))

    def __repr__(self) -> str:
        return f"Chain({self.index}, [{', '.join(map(str, self._segments))}])"

    # Reading

    @property
    def readable(self) -> tuple[Segment, ...]:
        """The segments that can be read and whose place is known."""
        return self._readable

    def locate(self, logical_offset: int) -> Located | None:
        """Where a pull at ``logical_offset`` goes; None if there is nothing to read at all.

        The end of a sealed last segment is a legal place: nothing is there yet. In a gap the
        next readable segment begins behind the offset, which is then no legal one.
        """
        readable = self.readable
        if not readable:
            return None
        at = bisect_right(readable, logical_offset, key=lambda segment: segment.delta) - 1
        if at < 0:
            return Located(readable[0], readable[0].delta, is_legal=False)
        segment = readable[at]
        end = segment.end_offset
        if end is None or logical_offset < end:
            return Located(segment, logical_offset, is_legal=True)
        if at + 1 < len(readable):  # its delta is greater: the search would have found it
            following = readable[at + 1]
            return Located(following, following.delta, is_legal=False)
        return Located(segment, end, is_legal=logical_offset == end)

    def next_readable(self, after: Segment) -> Segment | None:
        """The first readable segment that is sorted behind ``after``, in the chain or not."""
        place = sort_key(after)
        return next((s for s in self.readable if sort_key(s) > place), None)

    @property
    def origin(self) -> Segment | None:
        """The segment that the logical queue began as, if its offsets are the physical ones.

        What is left of migrations that were called off is passed over: it never had a message,
        and may stand before what has.
        """
        first = next((s for s in self._segments if not s.is_empty), None)
        return first if first is not None and not first.delta and not first.offset_delta else None

    @property
    def min_offset(self) -> int:
        """The least logical offset with a message; the end if there is none left."""
        readable = self.readable
        return readable[0].delta if readable else self.known_end

    @property
    def end_offset(self) -> int | None:
        """The logical offset behind the last message; None while the last segment is open."""
        placed = [segment for segment in self._segments if segment.delta >= 0]
        return placed[-1].end_offset if placed else 0

    @property
    def known_end(self) -> int:
        """The least logical offset that a successor may begin at, as far as this chain tells."""
        return max((s.next_delta for s in self._segments if s.delta >= 0), default=0)

    # Writing

    @property
    def writable(self) -> Segment | None:
        """Where a message goes: the last segment that takes any, as clients look for it."""
        return next((s for s in reversed(self._segments) if s.is_writable), None)

    @property
    def normal(self) -> Segment | None:
        """The last segment in state Normal: the one to migrate from."""
        return self._last(SegmentState.NORMAL)

    @property
    def write_only(self) -> Segment | None:
        """The last segment in state WriteOnly: where a migration goes to."""
        return self._last(SegmentState.WRITE_ONLY)

    def _last(self, state: SegmentState) -> Segment | None:
        return next((s for s in reversed(self._segments) if s.state is state), None)

    # By identity and by physical queue

    def find(self, key: SegmentKey) -> Segment | None:
        """The segment of this identity."""
        return next((segment for segment in self._segments if segment.key == key), None)

    def on_queue(self, broker_name: str, queue_id: int) -> tuple[Segment, ...]:
        """The segments on one physical queue, by their first offset."""
        return by_offset(
            s for s in self._segments if s.queue_id == queue_id and s.broker_name == broker_name
        )

    # Changes

    def put(self, *segments: Segment) -> "Chain":
        """The chain with ``segments``, each in place of the one of its identity if there is one.

        They take the index of the chain.
        """
        merged = {segment.key: segment for segment in self._segments}
        for segment in segments:
            if segment.logical_index != self.index:
                segment = replace(segment, logical_index=self.index)
            merged[segment.key] = segment
        return Chain(self.index, merged.values())

    def replace(self, segment: Segment) -> "Chain":
        """``put`` for a segment that has to be there. Raises ``KeyError`` if it is not."""
        if self.find(segment.key) is None:
            raise KeyError(segment.key)
        return self.put(segment)

    def remove(self, key: SegmentKey) -> "Chain":
        """The chain without a segment. Raises ``KeyError`` if it is not there."""
        if self.find(key) is None:
            raise KeyError(key)
        return Chain(self.index, (s for s in self._segments if s.key != key))

    def seal(
        self,
        key: SegmentKey,
        offset_max: int,
        *,
        first_time_ms: int = 0,
        last_time_ms: int = 0,
        has_messages: bool = True,
    ) -> "Chain":
        """The chain with a segment sealed; one that is sealed already stays as it is.

        Raises ``KeyError`` if it is not there, ``ValueError`` for an end before its begin.
        """
        segment = self.find(key)
        if segment is None:
            raise KeyError(key)
        if segment.is_sealed:
            return self
        return self.put(
            segment.sealed(
                offset_max,
                first_time_ms=first_time_ms,
                last_time_ms=last_time_ms,
                has_messages=has_messages,
            )
        )


def by_offset(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Segments of one physical queue, by their first offset."""
    return tuple(sorted(segments, key=lambda segment: segment.offset_delta))


def segment_at(segments: Sequence[Segment], queue_offset: int) -> Segment | None:
    """Of segments ``by_offset``, the last that begins at or before ``queue_offset``.

    The offset may lie behind its end; None if even the first begins later.
    """
    at = bisect_right(segments, queue_offset, key=lambda segment: segment.offset_delta)
    return segments[at - 1] if at else None
