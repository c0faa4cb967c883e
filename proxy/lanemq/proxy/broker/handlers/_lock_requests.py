"""Requests for the locks of queues (41, 42), of clients and, for logical queues, of listeners.

Source: RocketMQ 4.9.8, AdminBrokerProcessor.lockBatchMQ, unlockBatchMQ.
"""

from collections.abc import Awaitable, Callable
from typing import Final, final

from attrs import define

from lanemq.wire import BOUND_LOCK_FIELD, Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import LockBatch, LockBatchResult
from lanemq.wire.frame import Frame
from lanemq.wire.logical import ACCOUNT_FIELD, LOCK_FIELD

from ...net._answers import Answer
from ...net._dispatch import Handlers
from ...net._session import Session
from ...net._turns import LONG_PARTS, reply_with
from ...net.limits._names import check_name
from ...sessions.state._locks import ANYONE, Asker, QueueLocks
from ...sessions.values._framed import Locked, Unlocked
from ...sessions.values._rights import RightsOf
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
    _rights: RightsOf
    _signer: Callable[[Frame, Session], str]

    def asker(self, frame: Frame, session: Session) -> Asker:
        """Return the account behind a request, also one that a listener passes on; none where a
        listener says none."""
        name, is_limited = self._signer(frame, session), self._rights(frame, session).are_limited
        given = frame.fields.get(ACCOUNT_FIELD)
        if given is not None:
            # Before the handler, the field is refused from whoever may not do everything.
            return Asker(given, is_limited=True)
        if LOCK_FIELD in frame.fields and not is_limited:
            # A listener's own account, not its client's: listeners of earlier versions say no
            # more, and behind one of today the client would be another one until the lock ends.
            return ANYONE
        return Asker(name, is_limited)

    def _lock(
        self, asked: LockBatch, asker: Asker, owner: Session, bound_to: Session | None
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
            asker=asker,
            connection=bound_to,
            owner=owner,
        )
        return Locked(tuple(held), is_bound=bound_to is not None)

    async def lock_logical(self, asked: LockBatch, owner: Session, asker: Asker) -> Locked:
        """Lock or renew a client's logical queues, of those that end here."""
        held, has_moved = await self._logical.lock(_checked(asked), owner, asker)
        return Locked(tuple(held), has_moved=has_moved)

    def _unlock(self, asked: LockBatch, asker: Asker) -> Unlocked:
        """Release the client's own locks."""
        queues = _checked(asked).mq_set
        self._locks.unlock(asked.consumer_group, asked.client_id, queues, asker=asker)
        return Unlocked()

    def unlock_logical(self, asked: LockBatch, asker: Asker) -> Unlocked:
        """Release the client's own locks of logical queues."""
        self._unlock(asked, asker)
        return Unlocked(has_moved=not all(map(self._logical.ends_here, asked.mq_set)))

    # At the broker's port

    def answer_lock(self, frame: Frame, session: Session) -> Answer | Awaitable[Answer]:
        body, asked = LockBatch.decode(frame.body), frame.fields.get(LOCK_FIELD)
        if asked == TELL:
            return self._tell(frame, session, _checked(body))
        asker = self.asker(frame, session)
        if asked is not None:
            return self.lock_logical(body, session, asker)
        bound_to = session if BOUND_LOCK_FIELD in frame.fields else None
        locked = self._lock(body, asker, session, bound_to)
        if len(locked.queues) < LONG_PARTS:
            return locked
        result = LockBatchResult(locked.queues)
        return reply_with(frame, session, result, len(locked.queues), locked.fields())

    async def _tell(self, frame: Frame, session: Session, body: LockBatch) -> Frame:
        """Tell another broker of a lock: fields that are for brokers alone, and no result."""
        if len(body.mq_set) != 1:
            remark = f"{len(body.mq_set)} queues: the lock of one is told"
            raise Refused(ResponseCode.INVALID_PARAMETER, remark)
        fields = await self._logical.tell(body.consumer_group, body.mq_set[0], frame.fields)
        if self._rights(frame, session).are_limited:
            fields.pop(ACCOUNT_FIELD, None)
        return frame.reply(fields=fields)

    def answer_unlock(self, frame: Frame, session: Session) -> Unlocked:
        body, asker = LockBatch.decode(frame.body), self.asker(frame, session)
        is_logical = LOCK_FIELD in frame.fields
        return self.unlock_logical(body, asker) if is_logical else self._unlock(body, asker)


def _checked(asked: LockBatch) -> LockBatch:
    """Raise ``Refused`` for more queues than one request may have, and for names too long."""
    if len(asked.mq_set) > QUEUES_MAX:
        remark = f"{len(asked.mq_set)} queues, at most {QUEUES_MAX} are locked by one request"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
    check_name("consumer group", asked.consumer_group)
    check_name("client", asked.client_id)
    for topic in {queue.topic for queue in asked.mq_set}:  # thousands of queues have few names
        check_name("topic", topic)
    for broker in {queue.broker_name for queue in asked.mq_set}:
        check_name("broker", broker)
    return asked


def register(handlers: Handlers, broker: BrokerContext) -> LockRequests:
    """Register LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42)."""
    logical = LogicalLocks(
        locks=broker.locks,
        logical=broker.logical,
        now_s=broker.now_s,
        peers=broker.peers,
    )
    requests = LockRequests(
        locks=broker.locks,
        logical=logical,
        now_s=broker.now_s,
        rights=broker.rights,
        signer=broker.signer,
    )
    handlers.add(RequestCode.LOCK_BATCH_MQ, requests.answer_lock)
    handlers.add(RequestCode.UNLOCK_BATCH_MQ, requests.answer_unlock)
    return requests
