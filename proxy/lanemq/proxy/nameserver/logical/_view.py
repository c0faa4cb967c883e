"""The view of a topic's logical queues, and the facts that a name server needs for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import final

from lanemq.wire.bodies import QueueData
from lanemq.wire.logical import Chain, LogicalQueues, Segment, TopicReport

from ._room import Held


@final
class Status(Enum):
    """The state of a name server's knowledge of a topic."""

    PLAIN = "plain"
    """The topic has no logical queues, or only in part and never had more."""
    NOT_YET = "not yet"
    """The topic has logical queues, of which too little is known to show any."""
    LOGICAL = "logical"


@final
@dataclass(frozen=True, slots=True)
class Facts:
    """Other facts that the name server knows."""

    queue_datas: Mapping[str, QueueData]
    """The topic's queues at the brokers that are registered now."""
    master_address: Callable[[str], str | None]
    """Returns the address of the master of a broker name; None if none is registered."""

    def addressed(self, chains: Mapping[int, Chain]) -> LogicalQueues:
        """Return chains with the brokers' present addresses."""

        def addressed(segment: Segment) -> Segment:
            address = self.master_address(segment.broker_name)
            if address is None or address == segment.broker_address:
                return segment
            return segment.with_address(address)

        return LogicalQueues(Chain(index, map(addressed, chain)) for index, chain in chains.items())


@final
@dataclass(frozen=True, slots=True)
class ShownTopic:
    """The logical queues of a topic as they may be shown."""

    status: Status
    queues: LogicalQueues = field(default_factory=LogicalQueues)
    problems: tuple[str, ...] = ()
    """The reasons why it is not simply the last report."""


@final
@dataclass(slots=True)
class Reported:
    """The last report of one broker."""

    cluster: str
    queues: LogicalQueues
    report: TopicReport | None
    segments: int
    """The number of its segments, and of its chains without any."""
    held: Held


PLAIN = ShownTopic(Status.PLAIN)
