"""The route of a topic as a client uses it: pure functions of the name server's answer.

Source: RocketMQ 4.9.8, MQClientInstance.topicRouteData2TopicPublishInfo and
topicRouteData2TopicSubscribeInfo; logical queues: 5.0.0-PREVIEW.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum, unique
from itertools import islice
from typing import Final

from lanemq.wire import (
    ROUTE_QUEUES_MAX,
    TOPIC_QUEUES_MAX,
    Permission,
    queue_ids,
    read_number,
)
from lanemq.wire.bodies import MASTER_ID, MessageQueue, RouteData, StaticQueue
from lanemq.wire.logical import LOGICAL_QUEUE_BROKER, Chain, LogicalQueues, Redirect, Segment

WIDE_QUEUES: Final = 2048
"""Queues from which on a route is read and compared beside the event loop: 2,000 take some four
milliseconds."""
LOGICAL_QUEUES: Final = 8
"""Queues that take as long as a logical one."""


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """The route of one topic as a client uses it. Equal routes mean that nothing changed."""

    topic: str
    publish_queues: tuple[MessageQueue, ...]
    """Queues that may be sent to: writable, and their master is there."""
    subscribe_queues: tuple[MessageQueue, ...]
    """Queues that may be read, sorted."""
    brokers: dict[str, dict[int, str]]
    """Broker name -> broker id (0 is the master) -> address."""
    is_default: bool = False
    """Taken from the default topic, since this one does not exist yet."""
    chains: LogicalQueues | None = None
    """The logical queues among the queues; the queue id is the index."""

    def chain(self, queue: MessageQueue) -> Chain | None:
        """Return the chain of a queue, if that is a logical one."""
        if self.chains is None or queue.broker_name != LOGICAL_QUEUE_BROKER:
            return None
        return self.chains.get(queue.queue_id) or Chain(queue.queue_id)

    def has_master(self, broker_name: str) -> bool:
        """Return whether a broker can be sent to."""
        return MASTER_ID in self.brokers.get(broker_name, ())

    def writable_segment(
        self, queue: MessageQueue, unreachable: Container[str] = ()
    ) -> Segment | None:
        """Return the segment where a message for a logical queue goes.

        While a migration is under way the old segment gets the messages, in their order, unless its
        broker has no master or is among ``unreachable``; see ``Chain.tail_without``.
        """
        chain = self.chain(queue)
        if chain is None:
            return None
        return chain.tail_without(lambda name: name in unreachable or not self.has_master(name))


def with_chains(route: TopicRoute, chains: LogicalQueues) -> TopicRoute:
    """Return ``route`` with other segments.

    To send to are the queues that have a writable segment; to read those with any that is not
    expired, so that a consumer keeps its queues whatever moves.
    """
    publish = (
        route.publish_queues
        if _is_ordered(route)
        else tuple(
            MessageQueue(route.topic, LOGICAL_QUEUE_BROKER, index)
            for index, chain in chains.items()
            if chain.writable is not None
        )
    )
    subscribe = tuple(
        MessageQueue(route.topic, LOGICAL_QUEUE_BROKER, index)
        for index, chain in chains.items()
        if any(segment.is_readable or segment.is_writable for segment in chain)
    )
    return replace(route, publish_queues=publish, subscribe_queues=subscribe, chains=chains)


def with_redirect(route: TopicRoute, redirect: Redirect) -> TopicRoute:
    """Return ``route`` with what a redirect tells. The route has to have logical queues."""
    assert route.chains is not None
    segments, brokers = (redirect.current, redirect.following), dict(route.brokers)
    for segment in segments:
        if segment.broker_name not in brokers and segment.broker_address is not None:
            # New here; the next look-up at the name server brings the rest.
            brokers[segment.broker_name] = {MASTER_ID: segment.broker_address}
    return with_chains(replace(route, brokers=brokers), route.chains.put_segments(*segments))


def _is_ordered(route: TopicRoute) -> bool:
    """Return whether messages go to physical queues that an operator has named."""
    queues = route.publish_queues
    return (
        route.chains is not None and bool(queues) and queues[0].broker_name != LOGICAL_QUEUE_BROKER
    )


def read_route(topic: str, data: RouteData, *, logical_queues: bool = False) -> TopicRoute:
    """Return the route of an existing topic; with ``logical_queues`` these, where it has any.

    Raises ``RemoteProtocolError`` for logical queues that cannot be read.
    """
    route = _read_physical(topic, data)
    chains = LogicalQueues.of_route(data.extra) if logical_queues else None
    if chains is None:
        return route
    if data.order_topic_conf:
        route = replace(route, chains=chains)
    return with_chains(route, chains)


def _read_physical(topic: str, data: RouteData) -> TopicRoute:
    brokers = {broker.broker_name: dict(broker.broker_addrs) for broker in data.broker_datas}
    if static := data.static_queues():
        return _read_static(topic, data, static, brokers)
    by_name = sorted(data.queue_datas, key=lambda queue: queue.broker_name)
    readable = (
        MessageQueue(topic, queue.broker_name, queue_id)
        for queue in by_name
        if queue.perm & Permission.READ
        for queue_id in queue.read_queues
    )
    if data.order_topic_conf:
        writable = _ordered_queues(topic, data.order_topic_conf)
    else:
        writable = (
            MessageQueue(topic, queue.broker_name, queue_id)
            for queue in by_name
            if queue.perm & Permission.WRITE and MASTER_ID in brokers.get(queue.broker_name, ())
            for queue_id in queue.write_queues
        )
    publish, subscribe = _bounded(writable), _bounded(readable)
    if len({queue.broker_name for queue in by_name}) < len(by_name):
        subscribe = tuple(sorted(subscribe))  # else they are sorted
    return TopicRoute(topic, publish, subscribe, brokers)


def _read_static(
    topic: str,
    data: RouteData,
    static: Mapping[int, StaticQueue],
    brokers: dict[str, dict[int, str]],
) -> TopicRoute:
    """Return the route of a static topic of 5.x: its queues, each at the broker that has it now.

    A broker with a mapping takes the id in a request for that of the topic's queue, and finds its
    own queue, and earlier brokers', by itself. Source: 5.3.3, TopicQueueMappingManager.
    """
    permissions = {queue.broker_name: queue.perm for queue in data.queue_datas}

    def queues(needed: int) -> Iterator[MessageQueue]:
        for queue_id, place in static.items():
            if permissions.get(place.broker_name, 0) & needed:
                yield MessageQueue(topic, place.broker_name, queue_id)

    publish = (q for q in queues(Permission.WRITE) if MASTER_ID in brokers.get(q.broker_name, ()))
    subscribe = sorted(_bounded(queues(Permission.READ)))
    return TopicRoute(topic, _bounded(publish), tuple(subscribe), brokers)


def is_wide(data: RouteData) -> bool:
    """Return whether ``read_route`` takes long for a route, however short its answer was."""
    logical = sum(len(value) for value in data.extra.values() if isinstance(value, dict))
    queues = sum(queue.queue_count for queue in data.queue_datas)
    return queues + LOGICAL_QUEUES * logical > WIDE_QUEUES


@unique
class Change(Enum):
    """The difference between two routes of a topic."""

    NONE = "none"
    CHAINS = "chains"
    """Only in its logical queues."""
    ALL = "all"


def change_of(known: TopicRoute | None, route: TopicRoute) -> Change:
    """Compare a route with the one that was known."""
    if known is None:
        return Change.ALL
    if known == route:
        return Change.NONE
    return Change.CHAINS if replace(known, chains=route.chains) == route else Change.ALL


def beyond_bounds(data: RouteData) -> str:
    """Return what a client leaves out of a route, as its queues are too many; "" for nothing."""
    for queue in data.queue_datas:
        if queue.queue_count > TOPIC_QUEUES_MAX:
            return (
                f"broker {queue.broker_name} is said to have {queue.queue_count} queues of it, of"
                f" which {TOPIC_QUEUES_MAX} are used"
            )
    total = sum(queue.queue_count for queue in data.queue_datas)
    return f"of its {total} queues {ROUTE_QUEUES_MAX} are used" if total > ROUTE_QUEUES_MAX else ""


def _bounded(queues: Iterable[MessageQueue]) -> tuple[MessageQueue, ...]:
    return tuple(islice(queues, ROUTE_QUEUES_MAX))


def _ordered_queues(topic: str, conf: str) -> Iterator[MessageQueue]:
    """Yield the queues of a globally ordered topic, from ``broker:n;broker:n`` in a route.

    They stay the same while brokers come and go, so a message key keeps its queue.
    """
    for part in conf.split(";"):
        broker_name, _, count = part.partition(":")
        try:
            number = read_number(count.strip())
        except ValueError:
            continue
        for queue_id in queue_ids(number):
            yield MessageQueue(topic, broker_name, queue_id)


def read_default_route(topic: str, data: RouteData, *, queues_max: int) -> TopicRoute:
    """Return the route for the first message of a topic: that of the default topic.

    A broker makes the topic with as many queues as the smaller of its own default and
    ``queues_max``, so the queues counted here are the ones it will have.
    """
    route = read_route(topic, data)
    counts = {
        queue.broker_name: min(queues_max, queue.read_queue_nums) for queue in data.queue_datas
    }
    publish = [q for q in route.publish_queues if q.queue_id < counts.get(q.broker_name, 0)]
    return TopicRoute(topic, tuple(publish), (), route.brokers, is_default=True)
