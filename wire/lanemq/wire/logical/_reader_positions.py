"""The positions of readers in logical queues, and the cuts that some of them are past.

A source that was gone past while it was alive gives out messages that have no place in the logical
queue: behind the first offset of the segment at which the queue went on, other messages are. A
reader that has had them continues at the cut, and what it commits counts up to there.
"""

from collections.abc import Hashable
from typing import Generic, NamedTuple, Self, TypeVar, final

from ..bodies._queues import MessageQueue
from ._chain import Chain
from ._segment import Segment

K = TypeVar("K", bound=Hashable)


class Reached(NamedTuple):
    """The position of one reader in one queue."""

    segment: Segment
    """The segment it read last."""
    offset: int
    """The logical offset behind what was read."""

    @property
    def meant(self) -> str:
        """The ``READ_FIELD`` of a commit from this position, its broker's name last."""
        segment = self.segment
        numbers = segment.offset_delta, segment.delta, segment.queue_id
        return ":".join((*map(str, numbers), segment.broker_name))

    @classmethod
    def named(cls, topic: str, index: int, offset: int, said: str) -> Self | None:
        """Return the position that a commit of ``offset`` in a logical queue names by its
        ``READ_FIELD``; None for a text that names none."""
        *numbers, broker_name = said.split(":", 3)
        if len(numbers) != 3 or not all(n.isdecimal() and len(n) < 20 for n in numbers):
            return None
        begin, delta, queue_id = map(int, numbers)
        queue = MessageQueue(topic, broker_name, queue_id)
        return cls(Segment(queue, index, delta, offset_delta=begin), offset)

    def cut(self, chain: Chain) -> int | None:
        """Return the logical offset before this position at which the queue went on elsewhere; None
        where it did not."""
        read = self.segment
        begins = [
            segment.delta
            for segment in chain.readable
            if segment.delta >= read.delta and segment.key != read.key and not segment.is_empty
        ]
        first = min(begins, default=self.offset)
        return first if first < self.offset else None

    def worth(self, offset: int, chain: Chain) -> int:
        """Return how much of a commit of ``offset`` counts: up to the cut, if there is one."""
        cut = self.cut(chain)
        return offset if cut is None else min(offset, cut)


@final
class ReaderPositions(Generic[K]):
    """The positions of readers; ``K`` names one reader in one queue. At most ``limit`` are kept.

    Where more are noted, all are forgotten: a reader past a cut then goes on as it asks.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._positions: dict[K, Reached] = {}

    def note(self, reader: K, segment: Segment, next_offset: int) -> None:
        """Note that ``reader`` was given ``segment`` up to the logical ``next_offset``."""
        positions = self._positions
        if len(positions) >= self._limit and reader not in positions:
            positions.clear()
        positions[reader] = Reached(segment, next_offset)

    def knows(self, reader: K) -> bool:
        """Return whether the position of ``reader`` is known."""
        return reader in self._positions

    def go_on_at(self, reader: K, offset: int, segment: Segment, chain: Chain) -> int | None:
        """Return the cut at which ``reader`` has to go on, that asks for a logical ``offset``.

        ``segment`` is where that lies now. None for a reader that is past no cut.
        """
        reached = self._positions.get(reader)
        if (
            reached is None
            or reached.segment is segment  # nearly always
            or reached.offset != offset
            or reached.segment.key == segment.key
        ):
            return None
        return reached.cut(chain)

    def reached(self, reader: K, offset: int) -> Reached | None:
        """Return the position of ``reader`` that a commit of ``offset`` comes from; None for an
        offset that it was not given here."""
        reached = self._positions.get(reader)
        return None if reached is None or offset > reached.offset else reached
