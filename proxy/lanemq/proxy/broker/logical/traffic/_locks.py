"""The locks of logical queues that end on this broker.

The broker of the open end is the one that lends a queue's lock, whichever listener asks: before
another one does, this one has been sealed and lends it to nobody any more. What it had lent then is
asked for by the next one, before that lends anything; one that was not asked for the lock itself
passes the question on to the one before. If there is no answer, nobody gets the lock until every
client has stopped trusting one that it may still have from there.

Nothing like it is in RocketMQ; there a lock is as good as the one broker that keeps it.
"""

from collections.abc import Callable, Mapping
from typing import Final, final

from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import LockBatch, MessageQueue
from lanemq.wire.frame import request
from lanemq.wire.logical import (
    ACCOUNT_FIELD,
    LOCK_FIELD,
    LOGICAL_QUEUE_BROKER,
    Segment,
    SegmentKey,
)

from ....logical.rules._mapping import TopicMapping
from ....logical.rules._refusals import refusal
from ....net._session import Session
from ....sessions.state._locks import Asker, QueueLocks
from ...cluster._peers import Peers
from ..state._state import LogicalState
from ..state._view import ASK_S

TRUST_S: Final = 30.0
"""Seconds for which a client trusts a lock after its last renewal, as the reference client does."""
TELL: Final = "tell"
"""Value of ``LOCK_FIELD`` by which a broker asks another one for the locks it had lent."""
HOLDER_FIELD: Final = "clientId"
AGE_FIELD: Final = "ageMs"
QUEUE_FIELD: Final = "queueId"
BEGIN_FIELD: Final = "offsetDelta"
"""Ext fields of that request: the segment that the queue ended with, as its broker names it."""
KNOWN_MAX: Final = 100_000

_Heir = tuple[str, SegmentKey]
"""Group and segment."""


@final
class LogicalLocks:
    """The locks that one broker lends."""

    def __init__(
        self,
        *,
        locks: QueueLocks,
        logical: LogicalState,
        now_s: Callable[[], float],
        peers: Peers,
    ) -> None:
        self._locks = locks
        self._logical = logical
        self._now_s = now_s
        self._peers = peers
        self._started_s = now_s()
        self._inherited: dict[_Heir, float] = {}
        """Time at which earlier locks have expired or are inherited; in the future where they are
        unknown."""

    async def lock(
        self, body: LockBatch, owner: Session, asker: Asker
    ) -> tuple[list[MessageQueue], bool]:
        """Lock or renew, for places of ``owner``; returns the queues that the client now holds, and
        whether any of those asked for does not end here.
        """
        ready = []
        for queue in body.mq_set:
            segment = self._open(queue)
            if segment is not None and await self._is_free_to_lend(
                body.consumer_group, queue, segment
            ):
                ready.append(queue)
        # It may have been sealed while others were asked: from here on nothing waits.
        ready = [queue for queue in ready if self._open(queue) is not None]
        held = self._locks.lock(
            body.consumer_group, body.client_id, ready, self._now_s(), asker=asker, owner=owner
        )
        return held, not all(map(self.ends_here, body.mq_set))

    def ends_here(self, queue: MessageQueue) -> bool:
        """Return whether this broker is the one that lends the lock."""
        return self._open(queue) is not None

    async def tell(
        self, group: str, queue: MessageQueue, fields: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the holder, its account and the age of a lock as ext fields; none where it is
        free.

        ``fields`` name the segment that is meant. Raises ``Refused`` where it cannot be known.
        """
        mapping = self._logical.get(queue.topic)
        place = fields.get(QUEUE_FIELD, ""), fields.get(BEGIN_FIELD, "")
        if mapping is not None and all(map(str.isdecimal, place)):
            key = SegmentKey(queue.topic, mapping.broker_name, int(place[0]), int(place[1]))
            segment = mapping.find(key)
            if segment is not None and not await self._is_free_to_lend(group, queue, segment):
                raise refusal(
                    f"the earlier holder of the lock of queue {queue.queue_id} of {queue.topic}"
                    " is not known yet"
                )
        lent = self._locks.lent(group, _named(queue), self._now_s())
        if lent is None:
            return {}
        told = {HOLDER_FIELD: lent.client_id, AGE_FIELD: str(round(lent.age_s * 1000))}
        return told if lent.account is None else told | {ACCOUNT_FIELD: lent.account}

    def _open(self, queue: MessageQueue) -> Segment | None:
        """Return the last segment of a logical queue, if it takes messages here."""
        mapping = self._logical.get(queue.topic)
        if mapping is None or queue.broker_name != LOGICAL_QUEUE_BROKER:
            return None
        normal = mapping.chain(queue.queue_id).normal
        return normal if normal is not None and mapping.is_own(normal) else None

    async def _is_free_to_lend(self, group: str, queue: MessageQueue, segment: Segment) -> bool:
        """Return whether the locks lent by the broker that the queue ended on before are known."""
        heir = (group, segment.key)
        if heir in self._inherited and self._now_s() >= self._inherited[heir]:
            return True
        mapping = self._logical.get(queue.topic)
        before = None if mapping is None else self._before(mapping, segment)
        if len(self._inherited) >= KNOWN_MAX:
            self._inherited.clear()
        if before is None or mapping is None or self._is_long_closed(segment):
            now_s = self._now_s()
            return now_s >= self._inherited.setdefault(heir, now_s)
        if mapping.is_own(before):
            return await self._is_free_to_lend(group, queue, before)
        body = LockBatch(group, "", (queue,)).encode()
        meant = {QUEUE_FIELD: str(before.queue_id), BEGIN_FIELD: str(before.offset_delta)}
        asked = request(RequestCode.LOCK_BATCH_MQ, {LOCK_FIELD: TELL} | meant, body)
        begun_s = self._now_s()
        try:
            answer = await self._peers.call(before.broker_name, before.broker_address, asked, ASK_S)
        except Refused:
            answer = None
        if answer is None or answer.code != ResponseCode.SUCCESS:
            self._inherited.setdefault(heir, begun_s + TRUST_S)
            return False
        holder, age_ms = answer.fields.get(HOLDER_FIELD), answer.fields.get(AGE_FIELD, "")
        if holder and age_ms.isdecimal():
            account = answer.fields.get(ACCOUNT_FIELD)
            self._locks.inherit(group, queue, holder, begun_s - int(age_ms) / 1000, account)
        self._inherited[heir] = begun_s
        return True

    def _before(self, mapping: TopicMapping, segment: Segment) -> Segment | None:
        """Return the segment that the queue ended with before, also where it is forgotten since."""
        return self._logical.times.opened_after.get(segment.key) or mapping.before(segment)

    def _is_long_closed(self, segment: Segment) -> bool:
        """Return whether an own segment was sealed so long ago that its locks have ended."""
        if not segment.is_sealed:
            return False
        closed_s = self._logical.times.closed_s.get(segment.key, self._started_s)
        return self._now_s() - closed_s > TRUST_S


def _named(queue: MessageQueue) -> MessageQueue:
    return MessageQueue(queue.topic, LOGICAL_QUEUE_BROKER, queue.queue_id)
