"""What a route means to a client: pure functions of the name server's answer.

Source: RocketMQ 4.9.8, MQClientInstance.topicRouteData2TopicPublishInfo and
topicRouteData2TopicSubscribeInfo.
"""

from dataclasses import dataclass

from lanemq.wire import MASTER_ID, MessageQueue, Permission, RouteData


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """One topic as a client uses it. Equal routes mean that nothing changed."""

    topic: str
    publish_queues: tuple[MessageQueue, ...]
    """Queues that may be sent to: writable, and their master is there."""
    subscribe_queues: tuple[MessageQueue, ...]
    """Queues that may be read, sorted."""
    brokers: dict[str, dict[int, str]]
    """Broker name -> broker id (0 is the master) -> address."""
    is_default: bool = False
    """Taken from the default topic, since this one does not exist yet."""


def read_route(topic: str, data: RouteData) -> TopicRoute:
    """The route of an existing topic."""
    brokers = {broker.broker_name: dict(broker.broker_addrs) for broker in data.broker_datas}
    subscribe = [
        MessageQueue(topic, queue.broker_name, queue_id)
        for queue in data.queue_datas
        if queue.perm & Permission.READ
        for queue_id in range(queue.read_queue_nums)
    ]
    if data.order_topic_conf:
        publish = _ordered_queues(topic, data.order_topic_conf)
    else:
        publish = [
            MessageQueue(topic, queue.broker_name, queue_id)
            for queue in sorted(data.queue_datas, key=lambda queue: queue.broker_name)
            if queue.perm & Permission.WRITE and MASTER_ID in brokers.get(queue.broker_name, ())
            for queue_id in range(queue.write_queue_nums)
        ]
    return TopicRoute(topic, tuple(publish), tuple(sorted(subscribe)), brokers)


def _ordered_queues(topic: str, conf: str) -> list[MessageQueue]:
    """Queues of a topic whose order is global: fixed in the name server, ``broker:n;broker:n``.

    They stay the same while brokers come and go, so a message key keeps its queue.
    """
    queues = []
    for part in conf.split(";"):
        broker_name, _, count = part.partition(":")
        if count.strip().isdigit():
            queues += [MessageQueue(topic, broker_name, n) for n in range(int(count))]
    return queues


def read_default_route(topic: str, data: RouteData, *, queues_max: int) -> TopicRoute:
    """The route for the first message of a topic: where the default topic lives.

    A broker makes the topic with as many queues as the smaller of its own default and
    ``queues_max``, so the queues counted here are the ones it will have.
    """
    route = read_route(topic, data)
    counts = {
        queue.broker_name: min(queues_max, queue.read_queue_nums) for queue in data.queue_datas
    }
    publish = [q for q in route.publish_queues if q.queue_id < counts.get(q.broker_name, 0)]
    return TopicRoute(topic, tuple(publish), (), route.brokers, is_default=True)
