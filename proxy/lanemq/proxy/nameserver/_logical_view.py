"""What a name server can say of a topic's logical queues, and what it needs to know for that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import final

from lanemq.wire import QueueData
from lanemq.wire.logical import LogicalQueues


@final
class Status(Enum):
    """What a name server can say of a topic."""

    PLAIN = "plain"
    """It has no logical queues, or not all of it has and it never had."""
    NOT_YET = "not yet"
    """It has logical queues, and too little is known of them to show any."""
    LOGICAL = "logical"


@final
@dataclass(frozen=True, slots=True)
class Facts:
    """What else the name server knows."""

    queue_datas: Mapping[str, QueueData]
    """The topic's queues at the brokers that are registered now."""
    master_address: Callable[[str], str | None]
    """The address of the master of a broker name; None if none is registered."""


@final
@dataclass(frozen=True, slots=True)
class TopicView:
    """The logical queues of a topic as they may be shown."""

    status: Status
    queues: LogicalQueues = field(default_factory=LogicalQueues)
    problems: tuple[str, ...] = ()
    """Why it is not simply what was reported last."""


PLAIN = TopicView(Status.PLAIN)
