"""Requests for the locks of queues (41, 42), of clients and, for logical queues, of listeners.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.lockBatchMQ, unlockBatchMQ.
"""

from collections.abc import Awaitable, Callable
from typing import Final, final

from attrs import define

from lanemq.wire import BOUND_LOCK_FIELD, Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import LockBatch, LockBatchResult
from lanemq.wire.frame import Frame
from lanemq.wire.logical import LOCK_FIELD

from ...net._answers import Answer
from ...net._dispatch import Handlers
from ...net._session import Session
from ...net._turns import LONG_PARTS, reply_with
from ...sessions.state._locks import QueueLocks
from ...sessions.values._framed import Locked, Unlocked
from ..context._context import BrokerContext
from ..logical.traffic._locks import TELL, LogicalLocks

QUEUES_MAX: Final = 4096
"""Most queues in one request; a consumer asks each broker for the queues that it has there."""


@final
@define(eq=False, kw_only=True, repr=False)
class LockRequests:
    """The requests for the locks that one broker lends."""

    _locks: QueueLocks
    _logical: LogicalLocks
    _now_s: Callable[[], float]

    def lock(
        self, asked: LockBatch, *, bound_to: Session | None = None, owner: Session | None = None
    ) -> Locked:
        """Lock or renew a client's queues; the locks end with the session ``bound_to``, and take
        places of ``owner``."""
        queues = _checked(asked).mq_set
        if bound_to is not None and self._locks.closed not in bound_to.on_close:
            bound_to.on_close.append(self._locks.closed)
        held = self._locks.lock(
            asked.consumer_group,
            asked.client_id,
            queues,
            self._now_s(),
            connection=bound_to,
            owner=owner,
        )
        return Locked(tuple(held), is_bound=bound_to is not None)

    async def lock_logical(self, asked: LockBatch) -> Locked:
        """Lock or renew a client's logical queues, of those that end here."""
        held, has_moved = await self._logical.lock(_checked(asked))
        return Locked(tuple(held), has_moved=has_moved)

    def unlock(self, asked: LockBatch) -> Unlocked:
        """Release the client's own locks."""
        queues = _checked(asked).mq_set
        self._locks.unlock(asked.consumer_group, asked.client_id, queues)
        return Unlocked()

    def unlock_logical(self, asked: LockBatch) -> Unlocked:
        """Release the client's own locks of logical queues."""
        self.unlock(asked)
        return Unlocked(has_moved=not all(map(self._logical.ends_here, asked.mq_set)))

    # At the broker's port

    def answer_lock(self, frame: Frame, session: Session) -> Answer | Awaitable[Answer]:
        body, asked = LockBatch.decode(frame.body), frame.fields.get(LOCK_FIELD)
        if asked == TELL:
            return self._tell(frame, _checked(body))
        if asked is not None:
            return self.lock_logical(body)
        bound_to = session if BOUND_LOCK_FIELD in frame.fields else None
        locked = self.lock(body, bound_to=bound_to, owner=session)
        if len(locked.queues) < LONG_PARTS:
            return locked
        result = LockBatchResult(locked.queues)
        return reply_with(frame, session, result, len(locked.queues), locked.fields())

    async def _tell(self, frame: Frame, body: LockBatch) -> Frame:
        """Tell another broker of a lock: fields that are for brokers alone, and no result."""
        (queue,) = body.mq_set
        fields = await self._logical.tell(body.consumer_group, queue, frame.fields)
        return frame.reply(fields=fields)

    def answer_unlock(self, frame: Frame, session: Session) -> Unlocked:
        body = LockBatch.decode(frame.body)
        return self.unlock_logical(body) if LOCK_FIELD in frame.fields else self.unlock(body)


def _checked(asked: LockBatch) -> LockBatch:
    """Raise ``Refused`` for more queues than one request may have."""
    if len(asked.mq_set) > QUEUES_MAX:
        remark = f"{len(asked.mq_set)} queues, at most {QUEUES_MAX} are locked by one request"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
    return asked


def register(handlers: Handlers, broker: BrokerContext) -> LockRequests:
    """Register LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42)."""
    logical = LogicalLocks(
        locks=broker.locks,
        logical=broker.logical,
        now_s=broker.now_s,
        peers=broker.peers,
    )
    requests = LockRequests(locks=broker.locks, logical=logical, now_s=broker.now_s)
    handlers.add(RequestCode.LOCK_BATCH_MQ, requests.answer_lock)
    handlers.add(RequestCode.UNLOCK_BATCH_MQ, requests.answer_unlock)
    return requests
