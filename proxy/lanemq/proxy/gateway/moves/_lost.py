"""Messages before ends of parts that a broker has lost, as after a crash without its last writes.

Readers stay there: nobody passes over a message unseen. Where an operator says so, the part ends
for readers where the broker's queue does. The offsets of all later parts stay: clients have noted
them.
"""

from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.sdk import LanemqError
from lanemq.wire import RemoteProtocolError
from lanemq.wire.bodies import LostMessages, LostPart

from ..kv import KeysUnavailable, TooLong
from ..order import MovedQueue, change_order
from ._context import MoveContext, MoveRefused
from ._move_brokers import check_kind, has_dispatched, max_offset

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)

DISPATCHED_S: Final = 60.0
"""Seconds that a broker has to bring its queues up to its log."""
PARTS_MAX: Final = 1000
"""Most parts that are named."""


@final
class LostTails:
    """The look at one broker, which is there."""

    def __init__(self, context: MoveContext, broker: str, *, passes: bool) -> None:
        """``passes`` lets readers pass over what is lost."""
        self._context = context
        self._moving = context.moving
        self._orders = context.moving.orders
        self._broker = broker
        self._passes = passes
        self._what = "begins"

    def progress(self) -> LostMessages:
        """Return the step at which it is."""
        return LostMessages(self._broker, "looking", what=self._what)

    async def run(self) -> LostMessages:
        """Look at all ended parts there. Raises ``MoveRefused``."""
        try:
            found = await self._run()
        except (KeysUnavailable, TooLong, LanemqError, RemoteProtocolError) as error:
            raise MoveRefused(f"{self._what}: {error}") from error
        state = "passed" if self._passes else "shown"
        return LostMessages(self._broker, state, tuple(found[:PARTS_MAX]))

    async def _run(self) -> list[LostPart]:
        self._context.check()
        self._what = f"waits until the queues of {self._broker} have all that it has"
        address = self._context.known(self._broker)
        # Where queues may lack what the broker has, nothing is lost for sure.
        await check_kind(self._context.admin, address, is_source=True)
        try:
            with trio.fail_after(DISPATCHED_S):
                await has_dispatched(self._context.admin, address)
        except trio.TooSlowError:
            raise MoveRefused(f"{self._what}: not yet") from None
        found: list[LostPart] = []
        for topic, moved in list(self._moving.all()):
            for at, part in enumerate(moved.parts[:-1]):
                if part.broker == self._broker and part.read_end > 0:
                    self._what = f"looks at queue {part.queue_id} of topic {topic}"
                    lost = await self._look(topic, moved.place, at)
                    found += [] if lost is None else [lost]
        return found

    async def _look(self, topic: str, place: tuple[str, int], at: int) -> LostPart | None:
        """Look at one part, and let readers pass over what it lacks; None where it has all."""
        while True:
            self._context.check()
            order = self._orders.of(topic)
            moved = None if order is None else order.moved_at(*place)
            if order is None or moved is None or at >= len(moved.parts) - 1:
                return None  # the log was begun again
            part = moved.parts[at]
            address = self._context.known(self._broker)
            most = max(0, await max_offset(self._context.client, address, topic, part.queue_id))
            if most >= part.read_end:
                return None
            if not self._passes:
                break
            after = order.with_moved(moved, moved.without(at, most))
            if await change_order(self._orders, topic, order, after):
                break
        begin = moved.begins[at]
        index = self._index(topic, moved)
        found = LostPart(topic, index, part.queue_id, begin + most, begin + part.read_end)
        if self._passes:
            LOGGER.warning(
                "topic %s: readers of queue %d pass over offsets %d to %d, which %s has lost",
                topic,
                index,
                found.begin,
                found.end - 1,
                self._broker,
            )
        return found

    def _index(self, topic: str, moved: MovedQueue) -> int:
        order = self._orders.of(topic)
        seen = None if order is None else order.seen(*moved.place)
        return -1 if order is None or seen is None else order.index_of(seen)
