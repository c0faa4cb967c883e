"""Locks on queues, which orderly consumers hold."""

from dataclasses import dataclass
from typing import ClassVar

from ._body import Body
from ._queues import MessageQueue, written


@dataclass(frozen=True, slots=True)
class LockBatch(Body):
    """A client asks for, or gives back, the locks on some queues.

    ``only_this_broker`` exists since 5.x. Source: RocketMQ 4.9.8, LockBatchRequestBody.
    """

    consumer_group: str
    client_id: str
    mq_set: tuple[MessageQueue, ...] = ()
    only_this_broker: bool | None = None

    def to_json(self) -> dict[str, object]:
        """Return the members as ``Body.to_json``, with the queues written already."""
        return super(LockBatch, self).to_json() | {"mqSet": written(self.mq_set)}


@dataclass(frozen=True, slots=True)
class LockBatchResult(Body):
    """The queues that the client now holds, old and new. Source: LockBatchResponseBody."""

    NAMES: ClassVar = {"lock_ok_mq_set": "lockOKMQSet"}

    lock_ok_mq_set: tuple[MessageQueue, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the members as ``Body.to_json``, with the queues written already."""
        return {"lockOKMQSet": written(self.lock_ok_mq_set)}
