"""Locks on queues, which orderly consumers hold."""

from dataclasses import dataclass
from typing import ClassVar

from ._body import Body
from ._queues import MessageQueue


@dataclass(frozen=True, slots=True)
class LockBatch(Body):
    """A client asks for, or gives back, the locks on some queues.

    ``only_this_broker`` exists since 5.x. Source: RocketMQ 4.9.8, LockBatchRequestBody.
    """

    consumer_group: str
    client_id: str
    mq_set: tuple[MessageQueue, ...] = ()
    only_this_broker: bool | None = None


@dataclass(frozen=True, slots=True)
class LockBatchResult(Body):
    """The queues that the client now holds, old and new. Source: LockBatchResponseBody."""

    NAMES: ClassVar = {"lock_ok_mq_set": "lockOKMQSet"}

    lock_ok_mq_set: tuple[MessageQueue, ...] = ()
