"""The choice of the queue that gets the next message.

Source: RocketMQ 4.9.8, TopicPublishInfo.selectOneMessageQueue, MQFaultStrategy.
"""

import random
from collections.abc import Callable
from typing import final

from lanemq.wire.bodies import MessageQueue

from ..net._latency_faults import LatencyFaults

BrokerOf = Callable[[MessageQueue], str]
"""The broker that a message for a queue goes to now: it fails or is slow, not the queue."""


def own_broker(queue: MessageQueue) -> str:
    """Return the broker of a queue that is not a logical one."""
    return queue.broker_name


@final
class QueueChooser:
    """Goes round the queues of a route, and avoids the broker that just failed."""

    def __init__(self) -> None:
        # Producers that start together should not all begin with the same queue.
        self._next = random.randrange(1 << 16)

    def choose(
        self,
        queues: tuple[MessageQueue, ...],
        failed_broker: str | None,
        broker_of: BrokerOf = own_broker,
    ) -> MessageQueue:
        """Return the next queue, if possible of another broker than ``failed_broker``."""
        count = len(queues)
        for _ in range(count):
            self._next += 1
            queue = queues[self._next % count]
            if failed_broker is None or broker_of(queue) != failed_broker:
                return queue
        self._next += 1
        return queues[self._next % count]

    def choose_available(
        self,
        queues: tuple[MessageQueue, ...],
        faults: LatencyFaults,
        now_s: float,
        broker_of: BrokerOf = own_broker,
    ) -> MessageQueue:
        """Return the next queue whose broker is available; if there is none, of one of the
        better."""
        count = len(queues)
        for _ in range(count):
            self._next += 1
            queue = queues[self._next % count]
            if faults.is_available(broker_of(queue), now_s):
                return queue
        names = tuple(dict.fromkeys(map(broker_of, queues)))
        name = faults.least_bad(names, now_s)
        candidates = [queue for queue in queues if broker_of(queue) == name]
        self._next += 1
        return candidates[self._next % len(candidates)]
