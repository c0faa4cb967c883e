"""The lists of queues that clients see: each may only grow at its end, whoever tells it."""

from typing import Final, NamedTuple, final

from lanemq.proxy.gateway.order import QueueOrder, added_number
from lanemq.wire.bodies import MessageQueue, RouteData

from ._ledger import Violated
from ._proxy_process import ProxyProcess

STEADY: Final = "steady"
"""The topic that grows at the end of the cluster's own order only: members of its groups may go
direct."""
GROWING: Final = "growing"
"""The topic that grows anywhere."""
MOVING: Final = "moving"
"""The topic whose queues move between brokers."""
TOPICS: Final = (STEADY, GROWING, MOVING)


class Entry(NamedTuple):
    """A queue of a list: as clients see it, and as its broker knows it."""

    seen: MessageQueue
    own: MessageQueue


def entries_of(topic: str, order: QueueOrder) -> list[Entry]:
    """Return the list of a topic."""
    found = [
        Entry(MessageQueue(topic, broker, number), MessageQueue(topic, broker, number))
        for broker, count in order.first
        for number in range(count)
    ]
    return found + [
        Entry(
            MessageQueue(topic, run.name, number),
            MessageQueue(topic, run.broker, run.start + number),
        )
        for run in order.runs
        for number in range(run.count)
    ]


def queues_in(topic: str, route: RouteData) -> list[MessageQueue]:
    """Return the queues of a route as clients sort them."""
    return sorted(
        MessageQueue(topic, one.broker_name, number)
        for one in route.queue_datas
        for number in range(one.read_queue_nums)
    )


@final
class Lists:
    """The longest list of each topic that any proxy has had so far."""

    def __init__(self) -> None:
        self._longest: dict[str, list[Entry]] = {topic: [] for topic in TOPICS}
        self._own: dict[MessageQueue, MessageQueue] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self.faults: list[str] = []
        """The promises that were broken."""
        self.grown = 0
        """Number of times that a list has grown."""

    def note_orders(self, proxy: ProxyProcess) -> None:
        """Note the lists that a proxy has now."""
        orders = proxy.running.orders
        assert orders is not None
        if orders.why_unknown:
            return
        for topic in TOPICS:
            order = orders.of(topic)
            if order is not None:
                self.note(f"{proxy.name} after start {proxy.starts}", topic, order)

    def note(self, proxy: str, topic: str, order: QueueOrder) -> None:
        """Note the order that a running proxy has of a topic now."""
        found = entries_of(topic, order)
        longest = self._longest[topic]
        both = min(len(longest), len(found))
        if longest[:both] != found[:both]:
            self.faults.append(f"the list of {topic} was {longest}, at {proxy} it is {found}")
        key = proxy, topic
        if len(found) < self._counts.get(key, 0):
            self.faults.append(
                f"the list of {topic} at {proxy} had {self._counts[key]} queues, then {len(found)}"
            )
        self._counts[key] = len(found)
        if len(found) > len(longest):
            self.grown += bool(longest)
            self._longest[topic] = found
            for entry in found:
                self._own[entry.seen] = entry.own
        if [entry.seen for entry in found] != sorted(entry.seen for entry in found):
            self.faults.append(f"clients sort {found} in another way")

    def note_route(self, proxy: ProxyProcess, topic: str, route: RouteData) -> None:
        """Note a route that a proxy has told; the list may lack queues that cannot be read now."""
        more = {*queues_in(topic, route)} - {entry.seen for entry in self._longest[topic]}
        if more:
            self.faults.append(f"{proxy.name} tells of queues {sorted(more)} that have no place")

    def own(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue as its broker knows it, by what a client calls it."""
        if added_number(queue.broker_name) is None:
            return queue
        own = self._own.get(queue)
        if own is None:
            self.faults.append(f"a client uses {queue}, which has no place at any proxy")
            return queue
        return own

    def of(self, topic: str) -> list[Entry]:
        """Return the list of a topic."""
        return self._longest[topic]

    def check(self) -> None:
        """Check that no promise was broken. Raises ``Violated``."""
        if self.faults:
            raise Violated(f"lists of queues: {self.faults[:3]}")
