"""The queues that a route lets a client send to and read from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.sdk import MessageQueue
from lanemq.sdk.net._route_table import beyond_bounds, read_default_route, read_route
from lanemq.wire import ROUTE_QUEUES_MAX, TOPIC_QUEUES_MAX
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


@pytest.mark.parametrize("count", [TOPIC_QUEUES_MAX + 1, 1_000_000, 2_000_000_000, 1 << 62])
def test_a_broker_that_claims_any_number_of_queues_has_a_bounded_one(count: int) -> None:
    data = RouteData((QueueData("a", count, count),), (broker("a", 0),))
    for route in (read_route("T", data), read_default_route("T", data, queues_max=count)):
        assert len(route.publish_queues) == TOPIC_QUEUES_MAX
        assert len(route.subscribe_queues) in (0, TOPIC_QUEUES_MAX)
    assert f"{count} queues" in beyond_bounds(data)
    ordered = RouteData((), (), order_topic_conf=f"a:{count};b:{'9' * 5000};c:-{count}")
    assert len(read_route("T", ordered).publish_queues) <= TOPIC_QUEUES_MAX


def test_a_route_of_very_many_brokers_has_a_bounded_number_of_queues() -> None:
    names = [f"b{number}" for number in range(2000)]
    data = RouteData(
        tuple(QueueData(name, 2000, 2000) for name in names),
        tuple(broker(name, 0) for name in names),
    )
    route = read_route("T", data)
    assert len(route.publish_queues) == len(route.subscribe_queues) == ROUTE_QUEUES_MAX
    assert str(ROUTE_QUEUES_MAX) in beyond_bounds(data)
    few = RouteData((QueueData("a", 4, 4),), (broker("a", 0),))
    assert beyond_bounds(few) == ""


def test_the_queues_of_a_static_topic_are_at_the_brokers_that_mapped_them_last() -> None:
    mappings = {
        "a": {"epoch": 5, "currIdMap": {"0": 0, "1": 1}, "scope": "__global__"},
        "b": {"epoch": 7, "currIdMap": {"1": 0, "2": 3}, "scope": "__global__"},
    }
    route = read_route(
        "T",
        RouteData(
            queue_datas=(QueueData("a", 2, 2, perm=6), QueueData("b", 4, 4, perm=4)),
            broker_datas=(broker("a", 0), broker("b", 0)),
            extra={"topicQueueMappingByBroker": mappings},
        ),
    )
    assert route.publish_queues == queues(("a", 0))
    assert route.subscribe_queues == queues(("a", 0), ("b", 1), ("b", 2))


@given(
    mappings=st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.dictionaries(
            st.sampled_from(["a", "epoch", "currIdMap", "0", "1"]) | st.text(), inner
        ),
    )
)
def test_what_is_no_mapping_of_a_static_topic_is_left_out(mappings: object) -> None:
    data = RouteData(
        queue_datas=(QueueData("a", 1, 1),),
        broker_datas=(broker("a", 0),),
        extra={"topicQueueMappingByBroker": mappings},
    )
    route = read_route("T", data)
    assert all(0 <= queue.queue_id < ROUTE_QUEUES_MAX for queue in route.subscribe_queues)
