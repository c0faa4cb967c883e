"""Requests for the locks of queues (41, 42), of clients and, for logical queues, of listeners.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.lockBatchMQ, unlockBatchMQ.
"""

from collections.abc import Awaitable
from typing import Final

from lanemq.wire import BOUND_LOCK_FIELD, Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import LockBatch, LockBatchResult
from lanemq.wire.frame import Frame
from lanemq.wire.logical import LOCK_FIELD, MOVED_FIELD

from ...logical.broker._locks import TELL, LogicalLocks
from ...net._dispatch import Handlers
from ...net._session import Session
from .._context import BrokerContext

QUEUES_MAX: Final = 4096
"""Most queues in one request; a consumer asks each broker for the queues that it has there."""


def _batch(frame: Frame) -> LockBatch:
    """Read the body of a request. Raises ``Refused`` for more queues than one may have."""
    body = LockBatch.decode(frame.body)
    if len(body.mq_set) > QUEUES_MAX:
        remark = f"{len(body.mq_set)} queues, at most {QUEUES_MAX} are locked by one request"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
    return body


def register(handlers: Handlers, broker: BrokerContext) -> None:
    """Register LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42)."""
    logical = LogicalLocks(
        locks=broker.locks,
        logical=broker.logical,
        now_ms=broker.now_ms,
        now_s=broker.now_s,
        peers=broker.peers,
    )

    def lock_batch(frame: Frame, session: Session) -> Frame | Awaitable[Frame]:
        body = _batch(frame)
        asked = frame.fields.get(LOCK_FIELD)
        if asked == TELL:
            return tell(frame, body)
        if asked is not None:
            return of_logical(frame, body)
        is_bound = BOUND_LOCK_FIELD in frame.fields
        if is_bound and broker.locks.closed not in session.on_close:
            session.on_close.append(broker.locks.closed)
        held = broker.locks.lock(
            body.consumer_group,
            body.client_id,
            body.mq_set,
            broker.now_s(),
            connection=session if is_bound else None,
        )
        fields = {BOUND_LOCK_FIELD: "true"} if is_bound else None
        return frame.reply(fields=fields, body=LockBatchResult(lock_ok_mq_set=tuple(held)).encode())

    async def tell(frame: Frame, body: LockBatch) -> Frame:
        (queue,) = body.mq_set
        return frame.reply(fields=await logical.tell(body.consumer_group, queue, frame.fields))

    async def of_logical(frame: Frame, body: LockBatch) -> Frame:
        held, has_moved = await logical.lock(body)
        answer = LockBatchResult(lock_ok_mq_set=tuple(held)).encode()
        return frame.reply(fields={MOVED_FIELD: "true"} if has_moved else None, body=answer)

    def unlock_batch(frame: Frame, session: Session) -> Frame:
        body = _batch(frame)
        broker.locks.unlock(body.consumer_group, body.client_id, body.mq_set)
        is_elsewhere = LOCK_FIELD in frame.fields and not all(map(logical.ends_here, body.mq_set))
        return frame.reply(fields={MOVED_FIELD: "true"} if is_elsewhere else None)

    handlers.add(RequestCode.LOCK_BATCH_MQ, lock_batch)
    handlers.add(RequestCode.UNLOCK_BATCH_MQ, unlock_batch)
