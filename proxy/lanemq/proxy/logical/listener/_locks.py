"""The locks of logical queues (41, 42), which the broker that a queue ends on lends.

A listener keeps none. So a client that goes from one listener to another keeps its locks, and two
listeners cannot lend one lock to two clients.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, final

import trio

from lanemq.wire import Refused, RequestCode, ResponseCode
from lanemq.wire.bodies import LockBatch, LockBatchResult, MessageQueue
from lanemq.wire.frame import Frame, request
from lanemq.wire.logical import LOCK_FIELD, LOGICAL_QUEUE_BROKER, MOVED_FIELD, logical_broker_number

from ...net._dispatch import Handlers
from ...net._session import Session
from ._context import ListenerContext

TRIES: Final = 5
PAUSE_S: Final = 0.2
"""Seconds of pause before a moving queue's lock is asked for at its new broker."""

Named = Mapping[MessageQueue, MessageQueue]
"""Queues as a client names them -> as brokers do, by logical index."""


@final
class Locks:
    """The handlers of one listener."""

    def __init__(self, listener: ListenerContext) -> None:
        self._listener = listener

    async def lock(self, frame: Frame, session: Session) -> Frame:
        """Answer the queues that the client holds now, leaving out those whose broker does not
        answer."""
        held = await self._ask(frame, session)
        return frame.reply(body=LockBatchResult(lock_ok_mq_set=tuple(sorted(held))).encode())

    async def unlock(self, frame: Frame, session: Session) -> Frame:
        """Release the client's own locks."""
        await self._ask(frame, session)
        return frame.reply()

    async def _ask(self, frame: Frame, session: Session) -> set[MessageQueue]:
        """Ask the brokers to lock or unlock; returns the queues that the client holds now."""
        body = LockBatch.decode(frame.body)
        left = await self._named(body)
        held: set[MessageQueue] = set()
        for _ in range(TRIES):
            moved = await self._ask_all(frame.code, body, left, session, held)
            if not moved:
                break
            await trio.sleep(PAUSE_S)
            for topic in {queue.topic for queue in moved}:
                await self._listener.routes.refresh(topic)
            left = {mine: theirs for mine, theirs in left.items() if mine in moved}
        return held

    async def _named(self, body: LockBatch) -> Named:
        listener, named = self._listener, {}
        for queue in body.mq_set:
            if logical_broker_number(queue.broker_name) != (listener.number or 0):
                continue
            try:
                index = listener.index_in(await listener.view(queue.topic), queue.queue_id)
            except Refused:
                continue
            if index >= 0:
                named[queue] = MessageQueue(queue.topic, LOGICAL_QUEUE_BROKER, index)
        return named

    def _keeper(self, queue: MessageQueue) -> str | None:
        """Return the broker that the queue ends on."""
        chain = self._listener.routes.chain(queue.topic, queue.queue_id)
        last = chain.last if chain is not None else None
        return last.broker_name if last is not None else None

    async def _ask_all(
        self,
        code: int,
        body: LockBatch,
        named: Named,
        session: Session,
        held: set[MessageQueue],
    ) -> set[MessageQueue]:
        """Ask the brokers of the queues, and add those that the client holds to ``held``.

        Returns those it does not hold because their queue ends elsewhere, or nowhere just now.
        """
        by_keeper: dict[tuple[str, str], dict[MessageQueue, MessageQueue]] = defaultdict(dict)
        moved: set[MessageQueue] = set()
        for queue, theirs in named.items():
            keeper = self._keeper(theirs)
            if keeper is not None:
                by_keeper[keeper, queue.topic][theirs] = queue

        async def ask(keeper: str, topic: str, asked: dict[MessageQueue, MessageQueue]) -> None:
            lock = LockBatch(body.consumer_group, body.client_id, tuple(asked))
            frame = request(code, {LOCK_FIELD: "true"}, lock.encode())
            try:
                view = await self._listener.view(topic)
                answer = await self._listener.ask(view, keeper, frame, session)
            except Refused:  # the queue may have been moved away from a broker that is gone
                moved.update(asked.values())
                return
            if answer.code != ResponseCode.SUCCESS:
                return
            if answer.body:
                lent = LockBatchResult.decode(answer.body).lock_ok_mq_set
                held.update(asked[queue] for queue in lent if queue in asked)
            if MOVED_FIELD in answer.fields:
                moved.update(queue for queue in asked.values() if queue not in held)

        async with trio.open_nursery() as nursery:
            for (keeper, topic), asked in by_keeper.items():
                nursery.start_soon(ask, keeper, topic, asked)
        return moved


def register(handlers: Handlers, listener: ListenerContext) -> None:
    """Register requests 41 and 42."""
    locks = Locks(listener)
    handlers.add(RequestCode.LOCK_BATCH_MQ, locks.lock)
    handlers.add(RequestCode.UNLOCK_BATCH_MQ, locks.unlock)
