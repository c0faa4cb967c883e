"""What one broker knows of the logical queues of one topic.

A mapping is a value: a change makes another one, so readers need no lock and never see half of
it. It holds the broker's own segments and copies of others' that share a logical queue with them.

Source: RocketMQ 5.0.0-PREVIEW, LogicalQueuesInfoInBroker.
"""

from collections.abc import Iterable, Iterator, KeysView, Mapping
from typing import final

from lanemq.wire.logical import Chain, Segment, SegmentKey, by_offset, segment_at


@final
class TopicMapping:
    """The chains of a topic, and where each of this broker's message queues is in them."""

    __slots__ = ("_latest", "_of_queue", "broker_name", "chains", "topic")

    def __init__(self, topic: str, broker_name: str, segments: Iterable[Segment] = ()) -> None:
        self.topic = topic
        self.broker_name = broker_name
        chains: dict[int, list[Segment]] = {}
        of_queue: dict[int, list[Segment]] = {}
        for segment in segments:
            chains.setdefault(segment.logical_index, []).append(segment)
            if segment.broker_name == broker_name:
                of_queue.setdefault(segment.queue_id, []).append(segment)
        self.chains: Mapping[int, Chain] = {
            index: Chain(index, chains[index]) for index in sorted(chains)
        }
        """Index of the logical queue -> its segments in order; none is empty."""
        self._of_queue = {queue_id: by_offset(own) for queue_id, own in of_queue.items()}
        self._latest = {queue_id: own[-1] for queue_id, own in self._of_queue.items()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicMapping):
            return NotImplemented
        mine, theirs = (self.topic, self.broker_name), (other.topic, other.broker_name)
        return mine == theirs and self.chains == other.chains

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[Segment]:
        """All segments, by index and in order."""
        for chain in self.chains.values():
            yield from chain

    def __repr__(self) -> str:
        return f"TopicMapping({self.topic!r}, {self.broker_name!r}, {list(map(str, self))})"

    # One message queue of this broker

    def latest(self, queue_id: int) -> Segment | None:
        """The segment that new messages of the queue would be in; None for an unmapped queue."""
        return self._latest.get(queue_id)

    def of_queue(self, queue_id: int) -> tuple[Segment, ...]:
        """The segments on the queue, by their first physical offset."""
        return self._of_queue.get(queue_id, ())

    def at(self, queue_id: int, queue_offset: int) -> Segment | None:
        """The segment with the greatest first offset up to ``queue_offset``."""
        return segment_at(self._of_queue.get(queue_id, ()), queue_offset)

    @property
    def queue_ids(self) -> KeysView[int]:
        """The message queues of this broker that have a segment."""
        return self._of_queue.keys()

    def writable_queue_ids(self) -> list[int]:
        """Those of them that take messages."""
        return [queue_id for queue_id, latest in self._latest.items() if latest.is_writable]

    # Logical queues

    def chain(self, index: int) -> Chain:
        """The segments of a logical queue; none of one that is not known here."""
        return self.chains.get(index) or Chain(index)

    def open_end(self, index: int) -> Segment | None:
        """Where messages of a logical queue go, as far as it is known here.

        A destination that does not know its place is one only where nothing else is open: what
        it takes has no offset yet.
        """
        chain = self.chain(index)
        last = chain.writable
        if last is not None and last.delta < 0:
            return chain.normal or last
        return last

    def find(self, key: SegmentKey) -> Segment | None:
        """The segment of this identity, in whatever logical queue."""
        return next((segment for segment in self if segment.key == key), None)

    def is_own(self, segment: Segment) -> bool:
        """Whether it lies on this broker."""
        return segment.broker_name == self.broker_name

    def own(self) -> Iterator[Segment]:
        """This broker's segments."""
        return filter(self.is_own, self)

    # Changes

    def put(self, *changed: Segment) -> "TopicMapping":
        """With these in place of those of the same identity, or beside all others."""
        kept = self.without(*(segment.key for segment in changed))
        return TopicMapping(self.topic, self.broker_name, (*kept, *changed))

    def without(self, *keys: SegmentKey) -> "TopicMapping":
        """Without the segments of these identities."""
        kept = (segment for segment in self if segment.key not in keys)
        return TopicMapping(self.topic, self.broker_name, kept)


def touched(before: TopicMapping, after: TopicMapping) -> set[int]:
    """The message queues whose readers may be served otherwise now."""
    indices = {
        index
        for index in (*before.chains, *after.chains)
        if before.chain(index) != after.chain(index)
    }
    return {
        segment.queue_id
        for mapping in (before, after)
        for segment in mapping.own()
        if segment.logical_index in indices
    }
