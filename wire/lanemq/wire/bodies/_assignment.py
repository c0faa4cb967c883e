"""Assignment of queues by the broker (request 400, 5.x clients)."""

from collections.abc import Mapping
from dataclasses import dataclass

from ._body import Body
from ._queues import MessageQueue


@dataclass(frozen=True, slots=True)
class QueryAssignmentBody(Body):
    """A client asks for its queues. Source: RocketMQ 5.3.3, QueryAssignmentRequestBody."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str | None = None
    message_model: str | None = None


@dataclass(frozen=True, slots=True)
class MessageQueueAssignment(Body):
    """One queue and how to read it, ``PULL`` or ``POP``. Source: MessageQueueAssignment."""

    message_queue: MessageQueue
    mode: str = "PULL"
    attachments: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class QueryAssignmentResult(Body):
    """The queues of the asking client. Source: RocketMQ 5.3.3, QueryAssignmentResponseBody."""

    message_queue_assignments: tuple[MessageQueueAssignment, ...] = ()
