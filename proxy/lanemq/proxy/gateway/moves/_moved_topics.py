"""The moved queues of all topics, as far as one process has read the log of orders."""

from collections.abc import Iterator
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.wire import RemoteProtocolError

from ..kv import KeysUnavailable, TooLong, UpstreamKeys
from ..order import TOPICS, MovedQueue, QueueOrder, QueueOrders, change_order, may_have_order
from ._lease import Key

LOGGER: Final = get_logger("lanemq.proxy.gateway", by_peers=True)

TURN: Final = 100
"""Orders that are looked at in one turn of the loop."""


@final
class MovedTopics:
    """The topics with moved queues, or with queues on their way."""

    def __init__(self, keys: UpstreamKeys) -> None:
        self._watch = keys.watch(TOPICS)
        self.queues: dict[str, dict[tuple[str, int], MovedQueue]] = {}
        """Topic -> its moved queues by their first parts."""
        self.orders: dict[str, QueueOrder] = {}
        """The same topics' orders."""
        self.unreadable: set[str] = set()
        """Topics whose orders cannot be read. Their queues stay what they were before."""

    def changes(self) -> Iterator[tuple[Key, MovedQueue | None]]:
        """Iterate over queues that have changed since the last time, each as it is now."""
        while told := self._watch.told():
            for name, entry in told:
                topic = name.removeprefix(TOPICS).decode("utf-8", "replace")
                order = self._order(topic, None if entry is None else entry.value)
                if order is None:
                    continue
                now = {one.place: one for one in order.moved}
                before = self.queues.pop(topic, {})
                self.orders.pop(topic, None)
                if now:
                    self.queues[topic], self.orders[topic] = now, order
                for place in sorted(before.keys() | now.keys()):
                    if before.get(place) != now.get(place):
                        yield (topic, place), now.get(place)

    def _order(self, topic: str, value: bytes | None) -> QueueOrder | None:
        """Return the order of a topic; None for one that cannot be read."""
        self.unreadable.discard(topic)
        if value is None or not may_have_order(topic):
            return QueueOrder()
        try:
            return QueueOrder.decode(value)
        except RemoteProtocolError as error:
            self.unreadable.add(topic)
            LOGGER.error("topic %s has %s: its queues are not served", topic, error)
            return None


def say_moved(key: Key, now: MovedQueue) -> None:
    """Say where a queue goes on."""
    topic, (broker, queue_id) = key
    LOGGER.info(
        "topic %s: queue %d of broker %s continues at queue %d of broker %s, from %d on",
        topic,
        queue_id,
        broker,
        now.last.queue_id,
        now.last.broker,
        now.begins[-1],
    )


async def give_back(orders: QueueOrders, key: Key) -> None:
    """Let a queue go on where it was: its end could not be read in time."""
    topic, place = key
    try:
        order = orders.of(topic)
        moved = None if order is None else order.moved_at(*place)
        if order is None or moved is None or not moved.is_sealing:
            return
        back = order.with_moved(moved, moved.given_back())
        await change_order(orders, topic, order, back)
    except (KeysUnavailable, TooLong, RemoteProtocolError) as error:
        LOGGER.warning("topic %s: a sealed queue is not given back yet: %s", topic, error)


async def all_orders(orders: QueueOrders) -> list[tuple[str, QueueOrder]]:
    """Return the topics with an order that is kept, each with it, in short turns of the loop."""
    found = []
    for number, (key, _) in enumerate(list(orders.keys.scan(TOPICS))):
        if not number % TURN:
            await trio.lowlevel.checkpoint()
        topic = key.removeprefix(TOPICS).decode("utf-8", "replace")
        order = orders.of(topic)
        if order is not None:
            found.append((topic, order))
    return found
