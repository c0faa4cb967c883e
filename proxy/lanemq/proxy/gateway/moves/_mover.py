"""Moves a queue from one broker of the cluster to another, step by step.

Each step is an entry of the log of orders, changed by compare-and-set: any proxy can go on where
another one has stopped, and of two at once one does the step.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import LanemqError
from lanemq.wire import TOPIC_QUEUES_MAX, Refused, RemoteProtocolError, ResponseCode
from lanemq.wire.bodies import QueueMove

from ..kv import KeysUnavailable, TooLong
from ..order import (
    PARTS_MAX,
    MovedQueue,
    Part,
    QueueOrder,
    QueueOrders,
    change_order,
    position_of,
    sorts_before_added,
    version_of,
)
from ._commands import CALLED_OFF
from ._context import MoveContext, MoveRefused
from ._heard import has_heard
from ._lease import ask_leases, leases_in
from ._move_brokers import BrokersOfMove, NotFresh
from ._stands import reopen

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)

LOOK_S: Final = 0.05
PREPARED_S: Final = 120.0
"""Seconds that all proxies, and all members of groups, have to know of a move."""
LIVING_S: Final = 15.0
"""Seconds within which proxies that live renew their leases when they are asked to."""
SEALED_S: Final = 10.0
"""Seconds that all proxies have to stop writing."""
END_S: Final = 8.0
"""Seconds within which the source has to tell its end."""


class OnNoWay(MoveRefused):
    """There is nothing to call off."""


@final
class Move:
    """One move, from wherever it has got to."""

    def __init__(self, context: MoveContext, *, topic: str, index: int, broker: str) -> None:
        self._context = context
        self._moving = context.moving
        self._orders: QueueOrders = context.moving.orders
        self.topic = topic
        self.index = index
        self.broker = broker
        self._brokers = BrokersOfMove(context, topic, broker)
        self.what = "begins"
        """The step at which it is."""
        self.has_begun = False
        """True once a queue at the destination is reserved."""
        self.is_called_off = False
        """Set by who calls it off before that."""

    def progress(self) -> QueueMove:
        """Return the step at which it is."""
        return QueueMove(self.topic, self.index, "moving", what=self.what)

    async def run(self) -> QueueMove:
        """Move the queue. Raises ``MoveRefused``."""
        try:
            return await self._run()
        except (KeysUnavailable, TooLong, LanemqError, RemoteProtocolError) as error:
            raise MoveRefused(f"{self.what}: {error}") from error

    async def abort(self) -> None:
        """Call a move off whose end is not fixed yet. Raises ``MoveRefused``."""
        self.what = "is called off"
        try:
            while True:
                order, place = self._place()
                moved = order.moved_at(*place)
                if moved is None or moved.target is None:
                    raise OnNoWay(f"queue {self.index} of {self.topic} is on no way")
                if await change_order(
                    self._orders, self.topic, order, order.with_moved(moved, moved.aborted())
                ):
                    return
        except (KeysUnavailable, TooLong, RemoteProtocolError) as error:
            raise MoveRefused(f"{self.what}: {error}") from error

    def _order(self) -> QueueOrder:
        self._context.check()
        order = self._orders.of(self.topic)
        if order is None:
            raise MoveRefused(
                f"topic {self.topic} has no order that is kept: it is none that can have one, or "
                "its queues have not been the same for long enough since a client asked for them"
            )
        return order

    def _place(self) -> tuple[QueueOrder, tuple[str, int]]:
        """Return the order, and the first part of the queue."""
        order = self._order()
        queues = order.queues()
        if not 0 <= self.index < len(queues):
            raise MoveRefused(f"topic {self.topic} has {len(queues)} queues, from 0 on")
        place = order.own_of(queues[self.index])
        assert place is not None, "it is in the order"
        return order, place

    def end(self) -> QueueMove | None:
        """Return where the queue is, if it has come to its end. Raises ``MoveRefused``."""
        order, place = self._place()
        moved = order.moved_at(*place)
        return None if moved is None else self._end(moved)

    def _end(self, moved: MovedQueue) -> QueueMove | None:
        last = moved.last
        if moved.target is not None or last.broker != self.broker:
            return None
        return QueueMove(
            self.topic, self.index, "moved", last.broker, last.queue_id, moved.begins[-1]
        )

    async def _run(self) -> QueueMove:
        target: Part | None = None
        while True:
            order, place = self._place()
            moved = order.moved_at(*place)
            if moved is not None and (end := self._end(moved)) is not None:
                source = moved.parts[-2].broker
                leave = partial(self._brokers.leave, source)
                await self._try(f"can be written at {source} yet", leave)
                return end
            if target is not None and (moved is None or moved.target != target):
                raise MoveRefused(CALLED_OFF)
            if moved is None or moved.target is None:
                if moved is None and place[0] == self.broker:
                    raise MoveRefused(f"queue {self.index} is at {self.broker}")
                target = await self._prepare(order, moved or MovedQueue((Part(*place),)))
                self.has_begun = target is not None
                if self.is_called_off:
                    if target is not None:
                        await self.abort()
                    raise MoveRefused(CALLED_OFF)
                continue
            if moved.target.broker != self.broker:
                raise MoveRefused(
                    f"queue {self.index} is on its way to {moved.target.broker}: go on with that, "
                    "or call it off (abortMigrateTopicLogicalQueue)"
                )
            target, self.has_begun = moved.target, True
            if moved.is_sealing:
                await self._fix(order, moved)
            else:
                await self._seal(order, moved)

    async def _try(self, what: str, change: Callable[[], Awaitable[None]]) -> None:
        """Change a broker for a queue that has moved in any case."""
        try:
            await change()
        except (MoveRefused, LanemqError, RemoteProtocolError) as error:
            LOGGER.warning("topic %s %s: %s", self.topic, what, error)

    def _is_still(self, moved: MovedQueue) -> bool:
        """Return whether a queue is what it was: others may go on with it, or call it off."""
        return self._order().moved_at(*moved.place) == moved

    def _check_others(self) -> None:
        """Refuse a move that another proxy is in the way of, or the destination."""
        why = self._context.others()
        if why:
            raise MoveRefused(why)
        if self._moving.stands.is_forgotten(self.broker):
            raise MoveRefused(
                f"broker {self.broker} was forgotten: drainBroker finds out whether this one has "
                "what the other one had"
            )

    # 1. The destination, and all who have to know of it

    async def _prepare(self, order: QueueOrder, moved: MovedQueue) -> Part | None:
        """Reserve a queue at the destination, and make it known that the queue moves.

        Returns it, or None where the order has changed meanwhile.
        """
        self.what = "looks whether it can be moved"
        self._check_others()
        if any(one.target is not None for one in order.moved):
            raise MoveRefused(f"another queue of topic {self.topic} is on its way: one at a time")
        if len(moved.parts) >= PARTS_MAX:
            raise MoveRefused(f"queue {self.index} has moved {PARTS_MAX - 1} times: no more")
        if not sorts_before_added(self.broker):
            raise MoveRefused(f"the name of {self.broker} sorts behind those of added brokers")
        await self._brokers.check(order, moved)
        config = await self._brokers.config(self._context.known(self.broker))
        count = 0 if config is None else config.queue_count
        known = order.known_of(self.broker)
        if count > known:
            raise MoveRefused(
                f"{self.broker} has {count} queues of topic {self.topic}, and clients see {known}: "
                "wait until all have their places"
            )
        if known + 1 > TOPIC_QUEUES_MAX:
            raise MoveRefused(f"{self.broker} has {known} queues already")
        part = Part(self.broker, known)
        now = moved.prepared(part)
        before = order.moved_at(*moved.place)
        after = order.with_moved(before, now).with_kept(part.place)
        behind = (moved.place[0], moved.last.broker, self.broker)
        is_done = await change_order(self._orders, self.topic, order, after, behind=behind)
        return part if is_done else None

    async def _seal(self, order: QueueOrder, moved: MovedQueue) -> None:
        """Wait until all know of the move, and have writing stopped."""
        assert moved.target is not None
        await reopen(self._orders.keys, self.broker)
        position = position_of(self._orders, self.topic)
        self.what = "waits until all proxies know of it, and pulls that they hold have ended"
        await self._until_done(moved, position, PREPARED_S)
        if not self._is_still(moved):
            return
        self.what = f"makes its queue at {self.broker}"
        try:
            # Not before now: who takes a permission away later knows of the queue, at any proxy.
            await self._brokers.make_target(moved)
        except NotFresh:
            await self.abort()
            raise
        self.what = f"waits until all members of its groups are known at {self.broker}"
        with trio.move_on_after(PREPARED_S) as scope:
            while lacking := await self._brokers.lacking(moved):
                self.what = f"waits until {lacking}"
                await trio.sleep(1.0)
                if not self._is_still(moved):
                    return
        if scope.cancelled_caught:
            raise MoveRefused(self.what)
        # All may have changed since it was prepared, which can be days ago.
        self.what = "looks once more whether it can be moved"
        self._check_others()
        await self._brokers.check(order, moved)
        if not await has_heard(self._context, moved.last.broker, partial(setattr, self, "what")):
            return
        await self._brokers.provide(moved)
        await self._brokers.note_begins(moved)
        # Last of all: the lease of a proxy that has died since is to end while the queue is written
        # yet. Sealed, it would refuse sends until then.
        self.what = "waits until all proxies have renewed their leases"
        asked_s = trio.current_time()
        await self._until_done(moved, await ask_leases(self._orders), PREPARED_S)
        is_late = trio.current_time() - asked_s > LIVING_S
        if is_late or not self._is_still(moved):
            return  # members may have come meanwhile: looks once more
        self.what = "has writing stopped"
        after = order.with_moved(moved, moved.sealing())
        await change_order(self._orders, self.topic, order, after)

    # 2. The end of the last part

    async def _fix(self, order: QueueOrder, moved: MovedQueue) -> None:
        """Read the end of the last part once nobody writes, and let the queue go on."""
        position = position_of(self._orders, self.topic)
        version = version_of(self._orders, self.topic)
        self.what = "waits until all proxies have stopped writing"
        try:
            await self._until_done(moved, position, SEALED_S)
            self.what = f"reads the end at {moved.last.broker}"
            with trio.fail_after(END_S):
                end = await self._brokers.end(moved.last)
        except (MoveRefused, LanemqError, RemoteProtocolError, trio.TooSlowError) as error:
            back = order.with_moved(moved, moved.given_back())
            await change_order(self._orders, self.topic, order, back, version=version)
            raise MoveRefused(f"{self.what}: {error or 'too slow'}") from error
        # Not if it was given back meanwhile, nor if that was sealed again: the end may be another.
        after = order.with_moved(moved, moved.moved(end))
        if await change_order(self._orders, self.topic, order, after, version=version):
            provide = partial(self._brokers.provide, moved)
            await self._try(f"may not be written at {self.broker}", provide)

    async def _until_done(self, moved: MovedQueue, position: int, seconds: float) -> None:
        """Wait until all proxies with a lease have carried out what the log says of a queue up to a
        position. Other queues that move have requests under way for longer."""
        key = self.topic, moved.place
        behind: list[str] = []
        with trio.move_on_after(seconds):
            while True:
                self._order()  # also this proxy's own lease
                leases = leases_in(self._orders)
                behind = [one.name for one in leases if not one.has_done(position, key)]
                if leases and not behind:
                    return
                await trio.sleep(LOOK_S)
        names = ", ".join(sorted(set(behind)))
        raise MoveRefused(f"{self.what}: not yet at {names or 'any'}")


def refused(error: MoveRefused) -> Refused:
    """Return a refusal as clients get it."""
    return Refused(ResponseCode.SYSTEM_ERROR, str(error))
