"""The targets of sends: routes as applications know them, queues in turn, and brokers' addresses.

Source: RocketMQ 4.9.8, DefaultMQProducerImpl (tryToFindTopicPublishInfo), MQFaultStrategy.
"""

from dataclasses import replace
from functools import partial
from typing import Final, final

import trio

from lanemq.wire.bodies import MASTER_ID, MessageQueue

from .._namespace import in_namespace, queue_out
from ..net._client import Client
from ..net._latency_faults import LatencyFaults
from ..net._route_table import TopicRoute
from ._queue_chooser import QueueChooser, own_broker

NOWHERE: Final[dict[int, str]] = {}


@final
class SendTargets:
    """The targets of one sender; ``faults`` is what it knows of slow brokers, if it cares."""

    def __init__(self, client: Client, namespace: str, faults: LatencyFaults | None) -> None:
        self._client = client
        self._namespace = namespace
        self._faults = faults
        self._choosers: dict[str, QueueChooser] = {}
        # With a namespace: a route, and the same with the names that applications use.
        self._shown_routes: dict[str, tuple[TopicRoute, TopicRoute]] = {}

    async def route(self, topic: str) -> TopicRoute:
        """Return the route to send by, its queues as applications know them.

        Raises as ``Routes.find_for_send``.
        """
        route = self.known(topic)
        if route is None or not route.publish_queues:
            full = in_namespace(self._namespace, topic)
            route = self._shown(topic, await self._client.routes.find_for_send(full))
        return route

    def known(self, topic: str) -> TopicRoute | None:
        """Return the route without asking; None if it is not known yet."""
        namespace = self._namespace
        if not namespace:
            return self._client.routes.get(topic)
        route = self._client.routes.get(in_namespace(namespace, topic))
        return None if route is None else self._shown(topic, route)

    def _shown(self, topic: str, route: TopicRoute) -> TopicRoute:
        namespace = self._namespace
        if not namespace:
            return route
        known = self._shown_routes.get(topic)
        if known is None or known[0] is not route:
            queues = tuple(queue_out(namespace, queue) for queue in route.publish_queues)
            known = route, replace(route, topic=topic, publish_queues=queues)
            self._shown_routes[topic] = known
        return known[1]

    def choose(self, route: TopicRoute, failed_broker: str | None) -> MessageQueue:
        """Choose the queue of the next attempt; ``failed_broker`` has just failed."""
        chooser = self._choosers.get(route.topic)
        if chooser is None:
            chooser = self._choosers[route.topic] = QueueChooser()
        held_by = own_broker if route.chains is None else partial(broker_of, route)
        queues = route.publish_queues
        if self._faults is not None:
            now_s = trio.current_time()
            return chooser.choose_available(queues, self._faults, now_s, held_by)
        return chooser.choose(queues, failed_broker, held_by)

    def address(self, route: TopicRoute, broker_name: str) -> str:
        """Return the address of a broker's master. Raises ``BrokerUnreachable``."""
        known = route.brokers.get(broker_name, NOWHERE)
        return known.get(MASTER_ID) or self._client.routes.known_master(broker_name)


def broker_of(route: TopicRoute, queue: MessageQueue) -> str:
    """Return the broker that a message for ``queue`` goes to now."""
    segment = route.writable_segment(queue)
    return queue.broker_name if segment is None else segment.broker_name
