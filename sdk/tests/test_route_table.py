"""The queues that a route lets a client send to and read from."""

from lanemq.sdk import MessageQueue
from lanemq.sdk.net._route_table import read_default_route, read_route
from lanemq.wire.bodies import BrokerData, QueueData, RouteData


def queues(*named: tuple[str, int]) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue("T", name, number) for name, number in named)


def broker(name: str, *ids: int) -> BrokerData:
    return BrokerData("c", name, {number: f"{name}:{number}" for number in ids})


def test_queues_are_sent_to_where_writable_and_read_where_readable() -> None:
    route = read_route(
        "T",
        RouteData(
            queue_datas=(
                QueueData("b", 1, 2, perm=6),
                QueueData("a", 2, 1, perm=4),
                QueueData("c", 1, 1, perm=2),
            ),
            broker_datas=(broker("a", 0), broker("b", 0), broker("c", 0)),
        ),
    )
    assert route.publish_queues == queues(("b", 0), ("b", 1), ("c", 0))
    assert route.subscribe_queues == queues(("a", 0), ("a", 1), ("b", 0))


def test_without_its_master_a_broker_is_read_only() -> None:
    data = RouteData((QueueData("a", 1, 1), QueueData("b", 1, 1)), (broker("a", 1), broker("b", 0)))
    route = read_route("T", data)
    assert route.publish_queues == queues(("b", 0))
    assert route.subscribe_queues == queues(("a", 0), ("b", 0))
    assert route.brokers == {"a": {1: "a:1"}, "b": {0: "b:0"}}


def test_an_order_configuration_fixes_the_queues() -> None:
    data = RouteData((QueueData("a", 4, 4),), (broker("a", 0),), order_topic_conf="b:2;a:1;garbage")
    assert read_route("T", data).publish_queues == queues(("b", 0), ("b", 1), ("a", 0))


def test_the_default_topic_lends_its_brokers_and_some_queues() -> None:
    data = RouteData(
        (QueueData("a", 8, 8, perm=7), QueueData("b", 2, 8, perm=7)),
        (broker("a", 0), broker("b", 0)),
    )
    route = read_default_route("T", data, queues_max=3)
    assert route.publish_queues == queues(("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1))
    assert route.subscribe_queues == ()
    assert route.is_default


def test_equal_routes_are_equal() -> None:
    data = RouteData((QueueData("a", 1, 1),), (broker("a", 0),))
    assert read_route("T", data) == read_route("T", data)
