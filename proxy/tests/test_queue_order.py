"""The order of a topic's queues that clients see: whatever brokers get, it grows at its end."""

import json
import random
import re
from collections.abc import Mapping
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.proxy.gateway.order import (
    QueueOrder,
    SeenQueue,
    added_name,
    added_number,
    extended,
    queues_told,
    seen_route,
)
from lanemq.proxy.gateway.order._bodies import (
    LOOK_BYTES,
    chosen_pieces,
    renamed_pieces,
    with_queues,
)
from lanemq.proxy.gateway.order._order import (
    ADDED_MAX,
    BEHIND_MAX,
    decode_behind,
    encode_behind,
)
from lanemq.proxy.gateway.order._route import has_order
from lanemq.proxy.gateway.order._tags import broker_of, tag_of
from lanemq.proxy.logical.rules._positions import tagged
from lanemq.testkit.reading_time import TextReader, check_bound
from lanemq.wire import RemoteProtocolError
from lanemq.wire.bodies import BrokerData, ConsumeStats, QueueData, RouteData

BROKERS = ("a", "a-b", "b", "broker-a", "broker-b", "Z")
GROWTHS = st.lists(
    st.dictionaries(st.sampled_from(BROKERS), st.integers(1, 12), min_size=1), min_size=1
)
A = {"a": 2, "b": 2}
"""Two brokers of two queues each."""


def grown(*steps: Mapping[str, int]) -> tuple[QueueOrder, tuple[str, ...]]:
    order = QueueOrder()
    added: tuple[str, ...] = ()
    for told in steps:
        order, added = extended(order, told, added)
    return order, added


def route_of(told: Mapping[str, int], **members: object) -> RouteData:
    return RouteData(
        queue_datas=tuple(QueueData(name, count, count) for name, count in told.items()),
        broker_datas=tuple(
            BrokerData("C", name, {0: f"{name}:1", 1: f"{name}:2"}) for name in told
        ),
        **members,  # type: ignore[arg-type]
    )


def clients_list(route: RouteData) -> list[SeenQueue]:
    """Return the queues as clients of Apache's sort them."""
    return sorted(
        SeenQueue(one.broker_name, number)
        for one in route.queue_datas
        for number in range(one.read_queue_nums)
    )


def addresses(name: str) -> dict[int, str]:
    return {0: f"{name}:9"}


@given(GROWTHS)
def test_the_list_only_grows_at_its_end_and_has_every_queue_once(
    steps: list[dict[str, int]],
) -> None:
    told: dict[str, int] = {}
    order, before = QueueOrder(), list[SeenQueue]()
    added: tuple[str, ...] = ()
    for step in steps:
        told = {name: max(step.get(name, 0), told.get(name, 0)) for name in {*told, *step}}
        order, added = extended(order, told, added)
        assert QueueOrder.decode(order.encode()) == order
        assert not order.lacks(told)
        seen = clients_list(seen_route(route_of(told), order, addresses))
        assert seen[: len(before)] == before
        assert seen == order.queues()
        by_place = {
            order.seen(name, number): (name, number)
            for name, count in told.items()
            for number in range(count)
        }
        assert sorted(by_place, key=str) == sorted(seen, key=str)
        for run in order.runs:
            assert run.broker in added
            assert added_number(run.name) == run.number
        assert [run.number for run in order.runs] == [*range(len(order.runs))]
        # Once it is the cluster's, so is the number of every queue.
        assert order.count == len(seen)
        assert order.is_the_clusters == all(place == of for place, of in by_place.items())
        assert extended(order, told, added) == (order, added)
        before = seen


@pytest.mark.parametrize(
    ("more", "is_the_clusters"),
    [
        ({"b": 4}, True),
        ({"c": 2}, True),
        ({"b": 3, "c": 2}, True),
        ({"a": 3}, False),
        ({"a-b": 1}, False),
    ],
)
def test_growth_at_the_end_of_the_clusters_order_is_no_other_order(
    more: dict[str, int], is_the_clusters: bool
) -> None:
    order, added = grown(A, {**A, **more})
    assert order.is_the_clusters is is_the_clusters
    assert bool(added) is not is_the_clusters


def test_added_brokers_are_few_and_shared_by_topics() -> None:
    order, added = grown(A, {"a": 4, "b": 2}, {"a": 6, "b": 2}, {"a": 6, "b": 4})
    assert [(run.number, run.broker, run.start, run.count) for run in order.runs] == [
        (0, "a", 2, 4),
        (1, "b", 2, 2),
    ]
    other, again = extended(extended(QueueOrder(), A, added)[0], {"a": 3, "b": 3}, added)
    assert again == added == ("a", "b")
    assert [(run.number, run.broker) for run in other.runs] == [(0, "a")]


def test_topics_that_appear_broker_by_broker_share_added_brokers() -> None:
    brokers = [f"broker-{number:02}" for number in range(16)]
    rng, behind = random.Random(1), tuple[str, ...]()
    for _ in range(500):
        order, told = QueueOrder(), dict[str, int]()
        for broker in rng.sample(brokers, len(brokers)):
            told[broker] = 2
            order, behind = extended(order, told, behind)
        assert not order.lacks(told)
        assert order.count == 32
        assert order.runs[-1].number < len(brokers)
    assert sorted(behind) == sorted({*behind})
    assert {*behind} <= {*brokers}


def test_a_position_says_which_broker_gave_it_out() -> None:
    behind = tuple(f"broker-{number}" for number in range(BEHIND_MAX))
    for own in (0, 1, (1 << 43) - 1, 1 << 43, (1 << 48) - 1):
        given = [tagged(tag_of(behind, broker), own) for broker in behind]
        assert len({*given}) == len(behind)
        assert [broker_of(behind, position) for position in given] == [
            (broker, own) for broker in behind
        ]
        assert broker_of(behind[:1], given[-1])[0] is None
    assert broker_of(behind, 77) == (None, 77)
    assert tag_of(behind, "other") == 0


def test_there_are_no_more_added_brokers_than_ports_can_be_had_for() -> None:
    told = dict(A)
    order, added = extended(QueueOrder(), told, ())
    for step in range(2 * ADDED_MAX):
        told["a" if step % 2 else "b"] += 1
        if step == 0:
            told["a"] += 1  # not at the end
        order, added = extended(order, told, added)
    assert added == ("a", "b")
    assert len(order.runs) == ADDED_MAX
    assert order.lacks(told)
    queues = order.queues()
    assert queues == sorted(queues)


def test_a_queue_that_cannot_be_read_comes_back_at_its_place() -> None:
    order, _ = grown(A, {"a": 4, "b": 2})
    route = route_of({"a": 4, "b": 2})
    all_seen = clients_list(seen_route(route, order, addresses))
    fewer = seen_route(route_of({"a": 3, "b": 2}), order, addresses)
    assert clients_list(fewer) == all_seen[:-1]
    gone = seen_route(route_of({"b": 2}), order, addresses)
    assert [one.broker_name for one in gone.queue_datas] == ["b"]
    assert clients_list(seen_route(route, order, addresses)) == all_seen


def test_queues_that_can_only_be_read_or_only_be_written_stay_so() -> None:
    order, _ = grown(A, {"a": 4, "b": 2})
    told = RouteData(
        queue_datas=(QueueData("a", 4, 3, perm=2), QueueData("b", 2, 2)),
        broker_datas=route_of(A).broker_datas,
    )
    seen = {one.broker_name: one for one in seen_route(told, order, addresses).queue_datas}
    assert (seen["a"].read_queue_nums, seen["a"].write_queue_nums, seen["a"].perm) == (2, 2, 2)
    late = seen[added_name(0)]
    assert (late.read_queue_nums, late.write_queue_nums, late.perm) == (2, 1, 2)


def test_the_brokers_themselves_stay_in_the_route() -> None:
    # Clients register at all of them, and ask them for the members of groups.
    order, _ = grown(A, {**A, "a-b": 2})
    told = route_of({**A, "a-b": 2})
    members = {0: "late:0", 1: "late:1"}
    route = seen_route(told, order, lambda _: members)
    assert {one.broker_name for one in route.queue_datas} == {"a", "b", added_name(0)}
    assert {one.broker_name for one in route.broker_datas} == {"a", "a-b", "b", added_name(0)}
    (late,) = (one for one in route.broker_datas if one.broker_name == added_name(0))
    assert late.broker_addrs == members


def test_queues_at_an_added_broker_are_not_written_while_their_own_has_no_master() -> None:
    # Its list of addresses is that of all brokers behind it: some have a master.
    order, _ = grown(A, {"a": 4, "b": 2})
    told = route_of({"a": 4, "b": 2})
    brokers = (BrokerData("C", "a", {1: "a:2"}), *told.broker_datas[1:])
    route = seen_route(RouteData(told.queue_datas, brokers), order, addresses)
    assert {
        one.broker_name: (one.read_queue_nums, one.write_queue_nums) for one in route.queue_datas
    } == {"a": (2, 2), "b": (2, 2), added_name(0): (2, 0)}
    assert clients_list(route) == clients_list(seen_route(told, order, addresses))


def test_what_an_operator_has_set_for_ordered_messages_is_changed_with_it() -> None:
    order, _ = grown(A, {"a": 4, "b": 2})
    told = route_of({"a": 4, "b": 2}, order_topic_conf="a:4;b:2")
    seen = seen_route(told, order, addresses).order_topic_conf
    assert seen == f"a:2;b:2;{added_name(0)}:2"
    for conf in ("", "a", "a:x;b:2", None):
        told = route_of({"a": 4, "b": 2}, order_topic_conf=conf)
        assert seen_route(told, order, addresses).order_topic_conf == conf


@pytest.mark.parametrize(
    ("topic", "members", "kept"),
    [
        ("T", {}, True),
        ("%RETRY%g", {}, False),
        ("%DLQ%g", {}, False),
        ("TBW102", {}, False),
        ("rmq_sys_wheel_timer", {}, False),
        ("LANEMQ_PROXY_queues", {}, False),
        ("LANEMQ_KEYS_default", {}, False),
        ("%LMQ%x", {}, False),
        ("C_REPLY_TOPIC", {}, False),
        ("C", {}, False),
        ("a", {}, False),
        ("T", {"extra": {"topicQueueMappingByBroker": {"a": {}}}}, False),
        ("T", {"extra": {"topicQueueMappingByBroker": {}}}, True),
    ],
)
def test_the_order_of_brokers_own_topics_is_theirs(
    topic: str, members: dict[str, object], kept: bool
) -> None:
    assert has_order(topic, route_of(A, **members)) is kept


def test_a_broker_that_sorts_behind_all_others_keeps_its_name() -> None:
    told = {"a": 2, "~~z": 2}
    order, _ = grown(told, {"a": 4, "~~z": 4})
    seen = clients_list(seen_route(route_of({"a": 4, "~~z": 4}), order, addresses))
    assert [one for one in seen if one.broker == "~~z"] == [SeenQueue("~~z", at) for at in range(4)]


def test_no_queues_are_told_of_a_broker_that_has_none() -> None:
    assert queues_told(route_of({"a": 0, "b": 1})) == {"b": 1}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[[]",
        b'[[["a","b"]],[]]',
        b"\xff",
        b'[[["a",-1]],[]]',
        b'[[["a",1000000000]],[]]',
        b'[[["a",1]],[[0,"a",1,1000000000]]]',
        b'[[["a",1]],[[100,"a",1,1]]]',
        b'[[["a",1]],[[1,"a",1,1],[0,"a",2,1]]]',
        b'[[["a",1]],[[0,"a",7,1]]]',
    ],
)
def test_what_is_no_order_is_told_from_one(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="no order of queues"):
        QueueOrder.decode(data)


@pytest.mark.parametrize(
    "name", ["~lanemq-", "~lanemq-1", "~lanemq-0000", "~lanemq-00a", "~lanemq-١٢٣", "broker-a"]
)
def test_names_that_are_no_added_brokers(name: str) -> None:
    assert added_number(name) is None


# Bodies


def rename(topic: str, broker: str, queue_id: int) -> SeenQueue | None:
    return SeenQueue("new", queue_id - 4) if (topic, broker) == ("T", "a") else None


@given(
    st.permutations([("brokerName", "a"), ("topic", "T"), ("queueId", 5), ("offset", 7)]),
    st.booleans(),
    st.sampled_from([(",", ":"), (", ", ": ")]),
)
def test_queues_in_bodies_get_their_names_however_they_are_written(
    members: list[tuple[str, object]], has_offset: bool, separators: tuple[str, str]
) -> None:
    queue = {name: value for name, value in members if has_offset or name != "offset"}
    other = {"brokerName": "a", "topic": "U", "queueId": 5}
    text = json.dumps({"mqSet": [queue, other], "clientId": "c"}, separators=separators)
    seen = json.loads(with_queues(text.encode(), rename))
    assert seen == {
        "mqSet": [{**queue, "brokerName": "new", "queueId": 1}, other],
        "clientId": "c",
    }


def test_keys_of_tables_are_queues_too_and_all_else_stays() -> None:
    body = b'{"offsetTable":{{"brokerName":"a","queueId":4,"topic":"T"}:-1},"x":{"topic":"T"}}'
    new = b'{"offsetTable":{{"brokerName":"new","queueId":0,"topic":"T"}:-1},"x":{"topic":"T"}}'
    assert with_queues(body, rename) == new


@given(st.binary(max_size=300))
def test_bodies_that_are_anything_stay(body: bytes) -> None:
    assert with_queues(body, rename) == body


def test_a_long_body_takes_linear_time() -> None:
    unit = b'{"brokerName":"a","topic":"T"'
    body = unit * 20_000
    assert with_queues(body, rename) == body
    assert not re.search(rb"new", body)


WORST = [
    b"{",
    b'{"topic":"',
    b'{"topic":"T","topic":"T","topic":"T",',
    b'{"queueId":1234567890' + b" " * 9 + b"," + b" " * 9,
    b'{"topic":"' + b"T" * 255 + b'","topic":"' + b"{" * 255 + b'",',
    b'{"queueId":1,"queueId":1,"queueId":1}:{' + b"a" * 999 + b"{",
    b'{"queueId":1,"topic":"T","brokerName":"a"},',
]


@pytest.mark.parametrize("unit", WORST)
def test_each_step_through_a_body_is_short_whatever_it_is(unit: bytes) -> None:
    def read(body: bytes) -> None:
        for pieces in (
            renamed_pieces(body, rename),
            chosen_pieces(body, rename, "a", has_rates=False),
        ):
            for _ in islice(pieces, 3):
                pass

    check_bound(TextReader("steps", lambda size: unit * (size // len(unit)), read, 8 << 20), 0.02)


def test_a_body_without_queues_is_gone_through_in_many_steps_and_stays() -> None:
    body = b"{" * (1 << 20)
    pieces = [*renamed_pieces(body, rename)]
    assert b"".join(pieces) == body
    assert len(pieces) > len(body) // LOOK_BYTES
    with pytest.raises(RemoteProtocolError, match="no table of queues"):
        b"".join(chosen_pieces(body, rename, "a", has_rates=True))


@given(st.integers(0, 3), st.integers(0, 200), st.integers(LOOK_BYTES - 300, LOOK_BYTES + 300))
def test_a_queue_is_found_wherever_a_step_ends(queues: int, rest: int, before: int) -> None:
    queue = b'{"brokerName":"a","queueId":4,"topic":"T"}'
    new = b'{"brokerName":"new","queueId":0,"topic":"T"}'
    body = b"%s%s" + b"{" * rest
    assert with_queues(body % (b" " * before, queue * queues), rename) == body % (
        b" " * before,
        new * queues,
    )


def tables(*queues: tuple[str, int]) -> bytes:
    entries = ",".join(
        f'{{"brokerName":"{broker}","queueId":{number},"topic":"T"}}:{{"brokerOffset":{number}}}'
        for broker, number in queues
    )
    return f'{{"consumeTps":1.5,"offsetTable":{{{entries}}}}}'.encode()


@pytest.mark.parametrize(
    ("name", "has_rates", "rate", "kept"),
    [
        ("b", True, "1.5", [("b", 1), ("b", 9)]),
        ("new", False, "0.0", [("new", 0), ("new", 1)]),
        ("none", False, "0.0", []),
    ],
)
def test_a_table_has_the_queues_of_one_port(
    name: str, has_rates: bool, rate: str, kept: list[tuple[str, int]]
) -> None:
    body = tables(("a", 4), ("b", 1), ("a", 5), ("b", 9))
    found = b"".join(chosen_pieces(body, rename, name, has_rates=has_rates))
    text = found.decode()
    assert f'"consumeTps":{rate}' in text
    table = ConsumeStats.decode(found).offset_table
    assert [(one.broker_name, one.queue_id) for one in table] == kept
    # The values are those of the same queues.
    numbers = [value.broker_offset for value in table.values()]
    assert numbers == [number + 4 if name == "new" else number for _, number in kept]


def test_a_table_with_something_else_in_it_is_none() -> None:
    body = tables(("a", 4), ("b", 1)).replace(b'},{"brokerName"', b'},"x":1,{"brokerName"')
    with pytest.raises(RemoteProtocolError, match="no table of queues"):
        b"".join(chosen_pieces(body, rename, "a", has_rates=True))


def test_a_list_of_brokers_behind_added_ones_has_a_bound() -> None:
    assert decode_behind(encode_behind(("a", "b"))) == ("a", "b")
    for names in (b'["a",1]', encode_behind(("a",) * (BEHIND_MAX + 1)), b""):
        with pytest.raises(RemoteProtocolError, match="no list of brokers"):
            decode_behind(names)
