"""The logical queues of one topic, put together from what each broker says. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import final

from lanemq.wire import queue_ids
from lanemq.wire.logical import Chain, LogicalQueues, Segment


@final
@dataclass(frozen=True, slots=True)
class BrokerView:
    """A topic at one broker, a master."""

    name: str
    address: str
    queues: int = 0
    """Physical queues of the topic there; 0 where it does not exist."""
    mapping: Mapping[int, Chain] | None = None
    """The broker's view of the topic's logical queues, its own segments and copies of
    others; None if to its mind the topic has none."""

    def own(self) -> Iterator[Segment]:
        """Iterate over the segments that live at this broker, which is the authority on them."""
        for chain in (self.mapping or {}).values():
            yield from [s for s in chain.segments if s.message_queue.broker_name == self.name]

    def copies(self) -> Iterator[Segment]:
        """Iterate over the segments at other brokers that it remembers."""
        for chain in (self.mapping or {}).values():
            yield from [s for s in chain.segments if s.message_queue.broker_name != self.name]


@final
@dataclass(frozen=True, slots=True)
class ClusterTopic:
    """A topic at all masters of a cluster, by address."""

    topic: str
    brokers: tuple[BrokerView, ...] = ()
    reported: tuple[Segment, ...] = ()
    """The name server's memory, for brokers that do not answer."""

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.brokers, key=lambda broker: broker.address))
        object.__setattr__(self, "brokers", ordered)

    @property
    def is_logical(self) -> bool:
        """True if any broker has logical queues for the topic, even an empty set of them."""
        return any(broker.mapping is not None for broker in self.brokers)

    def broker(self, name: str) -> BrokerView | None:
        """Return the view of the broker of that name, None if it is not a master of the cluster."""
        return next((broker for broker in self.brokers if broker.name == name), None)

    def chains(self) -> dict[int, Chain]:
        """Return the chains by logical index, ascending.

        Of a segment its own broker's word counts; of one whose broker does not answer, the
        copies of others.
        """
        present = {broker.name for broker in self.brokers}
        segments = {segment.key: segment for broker in self.brokers for segment in broker.own()}
        copies = [copy for broker in self.brokers for copy in broker.copies()]
        for copy in (*copies, *self.reported):
            if copy.broker_name not in present:
                segments.setdefault(copy.key, copy)
        return _chains(segments.values(), self._indices())

    def _indices(self) -> set[int]:
        return {index for broker in self.brokers for index in broker.mapping or {}}

    def free_queues(self, broker: BrokerView, index: int | None = None) -> list[int]:
        """Return the physical queues of ``broker`` for a new segment, never mapped ones first.

        A queue with a segment that can still be read keeps it for itself. One with an empty
        segment is passed over until that is forgotten, but for logical queue ``index``, which it
        belonged to: the new one begins at the same physical offset, and a peer that knows the
        old one takes it for that.
        """
        on_queue = LogicalQueues(self.chains().values()).by_queue(broker.name)
        found: list[tuple[bool, int]] = []
        for queue_id in queue_ids(broker.queues):
            segments = on_queue.get(queue_id, ())
            if all(
                s.is_sealed and not s.is_readable and (s.count or s.logical_index == index)
                for s in segments
            ):
                found.append((bool(segments), queue_id))
        return [queue_id for _, queue_id in sorted(found)]


def _chains(segments: Iterable[Segment], indices: Iterable[int]) -> dict[int, Chain]:
    grouped: dict[int, list[Segment]] = {index: [] for index in indices}
    for segment in segments:
        grouped.setdefault(segment.logical_index, []).append(segment)
    return {index: Chain(index, grouped[index]) for index in sorted(grouped)}
