"""A chain: the segments of one logical queue, in order; and the answers that its order gives.

Source: RocketMQ 5.0.0-PREVIEW, LogicalQueuesInfo, PullAPIWrapper, DefaultMQProducerImpl.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

from ._segment import NOT_SET, Segment, SegmentKey, sort_key
from ._segment_state import SegmentState


@final
@dataclass(frozen=True, slots=True)
class Located:
    """The position in a chain at which a reader continues."""

    segment: Segment
    logical_offset: int
    """The offset to read: the one asked for if it can be read, else the next that can."""
    is_legal: bool
    """False where the offset asked for is gone, was never there, or is beyond the end."""

    @property
    def queue_offset(self) -> int:
        """The physical offset in the segment."""
        return self.segment.to_physical(self.logical_offset)


@final
class Chain:
    """The segments of one logical queue, sorted. Immutable: changes give another chain."""

    __slots__ = ("_forced", "index", "placed", "readable", "segments")

    def __init__(self, index: int, segments: Iterable[Segment] = ()) -> None:
        self.index = index
        self.segments = tuple(_ordered(segments))
        # Every send and every pull asks for these.
        self.placed = tuple([s for s in self.segments if s.delta >= 0])
        """The segments whose place in the queue is known."""
        self.readable = tuple([s for s in self.placed if s.state.is_readable])
        """The segments that can be read and whose place is known."""
        self._forced = tuple([s.delta for s in self.placed if s.is_forced])

    def __iter__(self) -> Iterator[Segment]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    def __getitem__(self, at: int) -> Segment:
        return self.segments[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chain):
            return NotImplemented
        return self.index == other.index and self.segments == other.segments

    def __hash__(self) -> int:
        return hash((self.index, self.segments))

    def __repr__(self) -> str:
        return f"Chain({self.index}, [{', '.join(map(str, self.segments))}])"

    # Places

    @property
    def last(self) -> Segment | None:
        """The segment that the queue ends with, open or sealed; None where none has a place.

        An expired one counts only where there is no other: what is left of a migration that was
        called off may stand behind the open end.
        """
        placed = self.placed
        lasting = (s for s in reversed(placed) if s.state is not SegmentState.EXPIRED)
        return next(lasting, placed[-1] if placed else None)

    @property
    def tail(self) -> Segment | None:
        """The segment that takes messages now.

        A migration's destination takes them once it has its place; before that only where the
        source takes none any more. None where nothing does, at least for the moment.
        """
        return self.tail_without(_never)

    def tail_without(self, is_away: Callable[[str], bool]) -> Segment | None:
        """Return the ``tail`` where some brokers, by name, cannot be sent to.

        A migration's destination without a place takes the messages as well if the source's broker
        is away: an operator may have moved the queue past it. What there is no other for stays the
        tail, away or not.
        """
        writable = self.writable
        if writable is None or writable.delta >= 0:
            return writable
        source = self.normal
        return writable if source is None or is_away(source.broker_name) else source

    # Reading

    def locate(self, logical_offset: int) -> Located | None:
        """Return the segment and offset for a pull at ``logical_offset``; None without any message.

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

    def forced_before(self, logical_offset: int) -> int | None:
        """Return the last place before an offset at which the queue went on past a source; None if
        none.

        A reader at the offset whose segment nobody remembers may have read the source up to it.
        """
        if not self._forced:  # nearly always
            return None
        return max((delta for delta in self._forced if delta < logical_offset), default=None)

    def next_readable(self, after: Segment) -> Segment | None:
        """Return the segment at which readers go on behind ``after``, in the chain or not.

        None where there is none, and where messages may be in between that this chain does not
        show: a migration's destination that may have been opened since, or offsets that are in
        none of its segments. A reader that has ``after`` knows the segment next to it;
        further on there may be segments that it was never told of.
        """
        place, end, is_beside = sort_key(after), after.end_offset, True
        for segment in self.placed:
            if sort_key(segment) <= place:
                continue
            if not is_beside and end is not None and segment.delta > end:
                return None
            if segment.is_readable:
                return segment
            if segment.state is SegmentState.WRITE_ONLY:
                return None
            end, is_beside = max(end or 0, segment.next_delta), False
        return None

    @property
    def origin(self) -> Segment | None:
        """The segment that the logical queue began as, if its offsets are the physical ones.

        Remains of migrations that were called off are passed over: they never had a message,
        and may stand before what has.
        """
        first = next((s for s in self.segments if not s.is_empty), None)
        return first if first is not None and not first.delta and not first.offset_delta else None

    @property
    def min_offset(self) -> int:
        """The least logical offset with a message; the end if no message is left."""
        readable = self.readable
        return readable[0].delta if readable else self.known_end

    @property
    def end_offset(self) -> int | None:
        """The logical offset behind the last message; None while the last segment is open."""
        return self.placed[-1].end_offset if self.placed else 0

    @property
    def known_end(self) -> int:
        """The least logical offset that a successor may begin at, as far as this chain tells."""
        return max((s.next_delta for s in self.placed), default=0)

    @property
    def last_migration(self) -> int:
        """The greatest number that a migration of the queue had, as far as this chain tells."""
        return max((segment.migration or 0 for segment in self.segments), default=0)

    # Writing

    @property
    def writable(self) -> Segment | None:
        """The segment for a send: the last one that takes messages, as clients choose it."""
        return next((s for s in reversed(self.segments) if s.is_writable), None)

    @property
    def normal(self) -> Segment | None:
        """The last segment in state Normal: the one to migrate from."""
        return self._last(SegmentState.NORMAL)

    @property
    def write_only(self) -> Segment | None:
        """The last segment in state WriteOnly, a migration's destination."""
        return self._last(SegmentState.WRITE_ONLY)

    def all_of(self, state: SegmentState) -> tuple[Segment, ...]:
        """Return the segments in a state."""
        return tuple(s for s in self.segments if s.state is state)

    def _last(self, state: SegmentState) -> Segment | None:
        return next((s for s in reversed(self.segments) if s.state is state), None)

    # By identity

    def find(self, key: SegmentKey) -> Segment | None:
        """Return the segment of this identity."""
        return next((segment for segment in self.segments if segment.key == key), None)

    # Changes

    def put(self, *segments: Segment) -> "Chain":
        """Return the chain with ``segments``, each replacing the one of its identity, if any.

        They take the index of the chain.
        """
        merged = {segment.key: segment for segment in self.segments}
        for segment in segments:
            if segment.logical_index != self.index:
                segment = replace(segment, logical_index=self.index)
            merged[segment.key] = segment
        return Chain(self.index, merged.values())

    def remove(self, key: SegmentKey) -> "Chain":
        """Return the chain without a segment. Raises ``KeyError`` if it is not there."""
        if self.find(key) is None:
            raise KeyError(key)
        return Chain(self.index, (s for s in self.segments if s.key != key))


def _never(_: str) -> bool:
    return False


def _ordered(segments: Iterable[Segment]) -> list[Segment]:
    """Sort segments by ``sort_key``, which most need not: each begins behind the one before."""
    found = list(segments)
    end = NOT_SET
    for segment in found:
        if segment.delta <= end:
            found.sort(key=sort_key)
            break
        end = segment.delta
    return found


def by_offset(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Sort segments of one physical queue by their first offset."""
    return tuple(sorted(segments, key=lambda segment: segment.offset_delta))


def segment_at(segments: Sequence[Segment], queue_offset: int) -> Segment | None:
    """Return the last of segments ``by_offset`` that begins at or before ``queue_offset``.

    The offset may lie behind its end; None if even the first begins later.
    """
    at = bisect_right(segments, queue_offset, key=lambda segment: segment.offset_delta)
    return segments[at - 1] if at else None
