"""A broker's view over the logical queues of one topic, as far as it knows them.

A mapping is a value: a change makes another one, so readers need no lock and never see half of
it. Its queues are the broker's own segments and copies of others' that share a logical queue with
them; by them it knows the places of the broker's message queues.

Source: RocketMQ 5.0.0-PREVIEW, LogicalQueuesInfoInBroker.
"""

from collections.abc import Iterable, Iterator, KeysView
from operator import attrgetter
from typing import final

from lanemq.wire.logical import (
    Chain,
    LogicalQueues,
    Segment,
    SegmentKey,
    SegmentState,
    segment_at,
)

_NONE = LogicalQueues()


@final
class TopicMapping:
    """The logical queues of a topic, and the places of this broker's message queues in them."""

    __slots__ = ("_latest", "_of_queue", "broker_name", "queues", "topic")

    def __init__(self, topic: str, broker_name: str, queues: LogicalQueues = _NONE) -> None:
        self.topic = topic
        self.broker_name = broker_name
        self.queues = queues
        """The logical queues, each with at least one segment."""
        self._of_queue = queues.by_queue(broker_name)
        self._latest = {queue_id: own[-1] for queue_id, own in self._of_queue.items()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicMapping):
            return NotImplemented
        mine, theirs = (self.topic, self.broker_name), (other.topic, other.broker_name)
        return mine == theirs and self.queues == other.queues

    def __iter__(self) -> Iterator[Segment]:
        """Iterate over all segments, by index and in order."""
        return iter(self.queues.segments)

    def __repr__(self) -> str:
        return f"TopicMapping({self.topic!r}, {self.broker_name!r}, {list(map(str, self))})"

    # One message queue of this broker

    def latest(self, queue_id: int) -> Segment | None:
        """Return the segment of new messages in the queue; None for an unmapped queue."""
        return self._latest.get(queue_id)

    def of_queue(self, queue_id: int) -> tuple[Segment, ...]:
        """Return the segments on the queue, by their first physical offset."""
        return self._of_queue.get(queue_id, ())

    def at(self, queue_id: int, queue_offset: int) -> Segment | None:
        """Return the segment with the greatest first offset up to ``queue_offset``."""
        return segment_at(self._of_queue.get(queue_id, ()), queue_offset)

    @property
    def queue_ids(self) -> KeysView[int]:
        """The message queues of this broker that have a segment."""
        return self._of_queue.keys()

    def writable_queue_ids(self) -> list[int]:
        """Return the mapped message queues of this broker that take messages."""
        return [queue_id for queue_id, latest in self._latest.items() if latest.is_writable]

    # Logical queues

    def chain(self, index: int) -> Chain:
        """Return the segments of a logical queue; none of one that is not known here."""
        return self.queues.get(index) or Chain(index)

    def open_end(self, index: int) -> Segment | None:
        """Return the segment that takes messages of a logical queue, as far as known here."""
        return self.chain(index).tail

    def before(self, segment: Segment) -> Segment | None:
        """Return the segment that a logical queue ended with before ``segment`` was opened."""
        earlier = (
            one
            for one in self.chain(segment.logical_index)
            if one.delta >= 0
            and one.state in (SegmentState.READ_ONLY, SegmentState.EXPIRED)
            and one.order < segment.order
        )
        return max(earlier, key=attrgetter("order"), default=None)

    def source_of(self, target: Segment) -> Segment | None:
        """Return the own segment from which a logical queue continues at ``target``.

        None where another broker's was its end: an idle queue ended here before, at the same
        offset.
        """
        source = self.before(target)
        if source is None or not self.is_own(source) or source.end_offset != target.delta:
            return None
        return source

    def find(self, key: SegmentKey) -> Segment | None:
        """Return the segment of this identity, in whatever logical queue."""
        if key.broker_name != self.broker_name:
            return self.queues.find(key)
        return next((own for own in self.of_queue(key.queue_id) if own.key == key), None)

    def find_all(self, keys: Iterable[SegmentKey]) -> dict[SegmentKey, Segment]:
        """Return the segments of these identities, as far as they are known."""
        wanted = frozenset(keys)
        return {segment.key: segment for segment in self if segment.key in wanted} if wanted else {}

    def is_own(self, segment: Segment) -> bool:
        """Return whether a segment lies on this broker."""
        return segment.broker_name == self.broker_name

    def own(self, indices: Iterable[int] | None = None) -> Iterator[Segment]:
        """Return this broker's segments, of some logical queues or of all."""
        if indices is None:
            return filter(self.is_own, self)
        return filter(self.is_own, (segment for index in indices for segment in self.chain(index)))

    # Changes

    def put(self, *changed: Segment) -> "TopicMapping":
        """Return a mapping with these segments, which replace those of the same identity."""
        kept = self.queues.without(*(segment.key for segment in changed))
        return TopicMapping(self.topic, self.broker_name, kept.put_segments(*changed))

    def without(self, *keys: SegmentKey) -> "TopicMapping":
        """Return a mapping without the segments of these identities."""
        if not keys:
            return self
        return TopicMapping(self.topic, self.broker_name, self.queues.without(*keys))


def touched(before: TopicMapping, after: TopicMapping) -> set[int]:
    """Return the message queues whose readers may be served differently now."""
    indices = before.queues.differing(after.queues)
    return {segment.queue_id for one in (before, after) for segment in one.own(indices)}
