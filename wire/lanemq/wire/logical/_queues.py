"""The logical queues of a topic: index -> chain, and their JSON forms.

Java writes indices as bare numbers, and 5.0.0-PREVIEW's name server even objects as keys. What
is written here is strict JSON; all forms are read.
Source: RocketMQ 5.0.0-PREVIEW, LogicalQueuesInfo, LogicalQueuesInfoUnordered,
LogicalQueuesInfoInBroker, GenericMapSuperclassDeserializer.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import cast, final

from .. import fastjson
from .._errors import RemoteProtocolError
from ..bodies._body import read_int
from ._chain import Chain, by_offset
from ._names import (
    LOGICAL_QUEUES_MAP_MEMBER,
    LOGICAL_QUEUES_MEMBER,
    LOGICAL_QUEUES_UNORDERED_MEMBER,
)
from ._segment import Segment, SegmentKey

MAX_INDEX = (1 << 31) - 1


@final
class LogicalQueues(Mapping[int, Chain]):
    """A topic's chains by index, ascending. Immutable: changes give another object.

    Empty chains count: a broker reports one for a queue that only others have segments of.
    A topic without any is still one with logical queues; one without this object is not.
    """

    __slots__ = ("_chains", "_count")

    def __init__(self, chains: Iterable[Chain] = ()) -> None:
        ordered = sorted(chains, key=lambda chain: chain.index)
        self._chains = {chain.index: chain for chain in ordered}
        self._count = -1

    @classmethod
    def of(cls, segments: Iterable[Segment]) -> "LogicalQueues":
        """Return the logical queues that segments name by themselves."""
        by_index: dict[int, list[Segment]] = defaultdict(list)
        for segment in segments:
            by_index[segment.logical_index].append(segment)
        return cls(Chain(index, found) for index, found in by_index.items())

    def __getitem__(self, index: int) -> Chain:
        return self._chains[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._chains)

    def __len__(self) -> int:
        return len(self._chains)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogicalQueues):
            return NotImplemented
        return self._chains == other._chains

    def __hash__(self) -> int:
        return hash(tuple(self._chains.values()))

    def __repr__(self) -> str:
        return f"LogicalQueues({list(self._chains.values())})"

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments, by index and place in the chain."""
        return tuple(segment for chain in self._chains.values() for segment in chain)

    @property
    def count(self) -> int:
        """The number of segments, or of chains where more of them are empty: what it costs to go
        through them."""
        if self._count < 0:
            self._count = sum(len(chain.segments) or 1 for chain in self._chains.values())
        return self._count

    # Views

    def of_broker(self, broker_name: str) -> "LogicalQueues":
        """Return the segments of one broker; what is left empty stays, as in its registration."""
        return LogicalQueues(
            Chain(chain.index, (s for s in chain if s.broker_name == broker_name))
            for chain in self._chains.values()
        )

    def by_queue(self, broker_name: str) -> dict[int, tuple[Segment, ...]]:
        """Return a broker's segments by queue id, each queue's by first offset."""
        found: dict[int, list[Segment]] = defaultdict(list)
        for segment in self.segments:
            if segment.broker_name == broker_name:
                found[segment.queue_id].append(segment)
        return {queue_id: by_offset(segments) for queue_id, segments in sorted(found.items())}

    def find(self, key: SegmentKey) -> Segment | None:
        """Return the segment of this identity, in whatever logical queue."""
        for chain in self._chains.values():
            for segment in chain.segments:
                if segment.queue_id == key.queue_id and segment.key == key:
                    return segment
        return None

    def differing(self, other: "LogicalQueues") -> set[int]:
        """Return the indices whose chains are not the same here and there, or are in one alone."""
        mine, theirs = self._chains, other._chains
        return {
            index
            for index in mine.keys() | theirs.keys()
            if (one := mine.get(index)) is not (another := theirs.get(index)) and one != another
        }

    # Changes

    def put(self, chain: Chain) -> "LogicalQueues":
        """Return a copy with ``chain``, in place of the one of its index if there is one."""
        return LogicalQueues({**self._chains, chain.index: chain}.values())

    def put_segments(self, *segments: Segment) -> "LogicalQueues":
        """Return a copy with segments in the chains that they name. They do not leave any other
        chain."""
        chains = dict(self._chains)
        for segment in segments:
            index = segment.logical_index
            chains[index] = (chains.get(index) or Chain(index)).put(segment)
        return LogicalQueues(chains.values())

    def without(self, *keys: SegmentKey) -> "LogicalQueues":
        """Return the logical queues of the segments that have none of these identities."""
        gone = frozenset(keys)
        queue_ids = {key.queue_id for key in gone}
        kept: list[Chain] = []
        for chain in self._chains.values():
            if not queue_ids.isdisjoint([segment.queue_id for segment in chain.segments]):
                chain = Chain(chain.index, (s for s in chain.segments if s.key not in gone))
            if chain.segments:
                kept.append(chain)
        return LogicalQueues(kept)

    def remove(self, index: int) -> "LogicalQueues":
        """Return a copy without a logical queue. Raises ``KeyError`` if it is not there."""
        if index not in self._chains:
            raise KeyError(index)
        return LogicalQueues(chain for chain in self._chains.values() if chain.index != index)

    # JSON

    def to_json(self) -> dict[str, object]:
        """Return strict JSON of the ordered form: indices as text, chains in order."""
        return {str(index): list(chain) for index, chain in self._chains.items()}

    def encode(self) -> bytes:
        """Return the body of QUERY_TOPIC_LOGICAL_QUEUE_MAPPING."""
        return fastjson.dumps(self.to_json())

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview | str) -> "LogicalQueues | None":
        """Read that body; None where the topic has no logical queues (``null``)."""
        value = fastjson.loads(data)
        return None if value is None else cls.from_json(value)

    @classmethod
    def from_json(cls, value: object) -> "LogicalQueues":
        """Read either form, as ``fastjson.loads`` gives it; chains get sorted.

        The index that a chain stands under counts, not the one that its segments name. Raises
        ``RemoteProtocolError`` for anything else.
        """
        if not isinstance(value, dict):
            raise RemoteProtocolError("logical queues are not a JSON object")
        chains = []
        for key, segments in value.items():
            index = read_int(key)
            if not 0 <= index <= MAX_INDEX:
                raise RemoteProtocolError(f"{index} is not an index of a logical queue")
            if isinstance(segments, dict):  # unordered: the keys repeat what the segments say
                segments = list(segments.values())
            if not isinstance(segments, list):
                raise RemoteProtocolError(f"logical queue {index} is not an array of segments")
            chains.append(Chain(index).put(*map(Segment.from_json, segments)))
        return cls(chains)

    @classmethod
    def of_route(cls, members: Mapping[str, object]) -> "LogicalQueues | None":
        """Return the logical queues in the further members of a route; None if it has none."""
        value = members.get(LOGICAL_QUEUES_UNORDERED_MEMBER)
        if value is None:
            value = members.get(LOGICAL_QUEUES_MEMBER)
        return None if value is None else cls.from_json(value)


LogicalQueuesByTopic = Mapping[str, LogicalQueues]


def logical_queues_by_topic(members: Mapping[str, object]) -> dict[str, LogicalQueues] | None:
    """Return the map in the further members of a table of topics; None if it has none.

    For ``TopicConfigWrapper.extra`` and the like. Raises ``RemoteProtocolError``.
    """
    value = members.get(LOGICAL_QUEUES_MAP_MEMBER)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"{LOGICAL_QUEUES_MAP_MEMBER} is not a JSON object")
    return {
        cast(str, topic): LogicalQueues.from_json(queues)
        for topic, queues in value.items()
        if queues is not None
    }


def with_logical_queues(
    members: Mapping[str, object], queues: LogicalQueuesByTopic
) -> dict[str, object]:
    """Return ``members`` with the map added, for ``TopicConfigWrapper.extra`` and the like."""
    return {
        **members,
        LOGICAL_QUEUES_MAP_MEMBER: {topic: value.to_json() for topic, value in queues.items()},
    }
