"""Locks of logical queues (41, 42), lent by the broker of a queue's last segment.

A listener keeps none. So a client that goes from one listener to another keeps its locks, and two
listeners cannot lend one lock to two clients.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, final

import trio
from attrs import define

from lanemq.wire import Refused, RequestCode
from lanemq.wire.bodies import LockBatch, MessageQueue
from lanemq.wire.frame import Frame
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER, logical_broker_number

from ....net._dispatch import Handlers
from ....net._session import Session
from ....net.limits._names import check_name
from ....sessions.state._locks import Asker
from ....sessions.values._framed import Locked, Unlocked
from ..brokers._broker import RefusedThere
from ..brokers._brokers import Brokers
from ..brokers._questions import LOCK, UNLOCK, Locking, Question
from ..port._context import ListenerContext
from ..port._queues import SeenQueues

TRIES: Final = 5
PAUSE_S: Final = 0.2
"""Seconds of pause before a moving queue's lock is asked for at its new broker."""

Named = Mapping[MessageQueue, MessageQueue]
"""Queues as a client names them -> as brokers do, by logical index."""

AboutLocks = Question[Locking, Locked | Unlocked]


@final
@define(eq=False, kw_only=True, repr=False)
class Locks:
    """The handlers of one port."""

    _asker: Callable[[Frame, Session], Asker]
    _brokers: Brokers
    _queues: SeenQueues

    async def lock(self, frame: Frame, session: Session) -> Locked:
        """Answer the queues that the client holds now, leaving out those whose broker does not
        answer, and those beyond the share of its address."""
        asked, host = LockBatch.decode(frame.body), session.peer.host
        check_name("consumer group", asked.consumer_group)
        named = await self._named(asked)
        group = asked.consumer_group
        left = {mine: theirs for mine, theirs in named.items() if self._takes(group, theirs, host)}
        locking = Locking(asked, session, self._asker(frame, session))
        return Locked(tuple(sorted(await self._ask(LOCK, locking, left))))

    async def unlock(self, frame: Frame, session: Session) -> Unlocked:
        """Release the client's own locks."""
        asked = LockBatch.decode(frame.body)
        named = await self._named(asked)
        await self._ask(UNLOCK, Locking(asked, session, self._asker(frame, session)), named)
        self._brokers.lent.give_back(asked.consumer_group, named.values(), session.peer.host)
        return Unlocked()

    def _takes(self, group: str, queue: MessageQueue, host: str) -> bool:
        keeper = self._keeper(queue)
        is_own = keeper is not None and self._brokers.quick(keeper) is not None
        return is_own or self._brokers.lent.take(group, queue, host)  # the own one sees who asks

    async def _ask(self, question: AboutLocks, asked: Locking, left: Named) -> set[MessageQueue]:
        """Ask the brokers to lock or unlock; returns the queues that the client holds now."""
        held: set[MessageQueue] = set()
        for _ in range(TRIES):
            moved = await self._ask_all(question, asked, left, held)
            if not moved:
                break
            await trio.sleep(PAUSE_S)
            for topic in {queue.topic for queue in moved}:
                await self._queues.routes.refresh(topic)
            left = {mine: theirs for mine, theirs in left.items() if mine in moved}
        return held

    async def _named(self, body: LockBatch) -> Named:
        queues, named = self._queues, {}
        for queue in body.mq_set:
            if logical_broker_number(queue.broker_name) != (queues.number or 0):
                continue
            try:
                index = queues.index_in(await queues.view(queue.topic), queue.queue_id)
            except Refused:
                continue
            if index >= 0:
                named[queue] = MessageQueue(queue.topic, LOGICAL_QUEUE_BROKER, index)
        return named

    def _keeper(self, queue: MessageQueue) -> str | None:
        """Return the broker that the queue ends on."""
        chain = self._queues.routes.chain(queue.topic, queue.queue_id)
        last = chain.last if chain is not None else None
        return last.broker_name if last is not None else None

    async def _ask_all(
        self,
        question: AboutLocks,
        about: Locking,
        named: Named,
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
            lock = about._replace(batch=replace(about.batch, mq_set=tuple(asked)))
            try:
                view = await self._queues.view(topic)
                told = await self._brokers.call(keeper, view.address(keeper), question, lock)
            except RefusedThere:
                return
            except Refused:  # the queue may have been moved away from a broker that is gone
                moved.update(asked.values())
                return
            if isinstance(told, Locked):
                held.update(asked[queue] for queue in told.queues if queue in asked)
            if told.has_moved:
                moved.update(queue for queue in asked.values() if queue not in held)

        async with trio.open_nursery() as nursery:
            for (keeper, topic), asked in by_keeper.items():
                nursery.start_soon(ask, keeper, topic, asked)
        return moved


def register(handlers: Handlers, listener: ListenerContext) -> None:
    """Register requests 41 and 42."""
    locks = Locks(asker=listener.host.lock_asker, brokers=listener.brokers, queues=listener.queues)
    handlers.add(RequestCode.LOCK_BATCH_MQ, locks.lock)
    handlers.add(RequestCode.UNLOCK_BATCH_MQ, locks.unlock)
