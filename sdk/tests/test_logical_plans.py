"""Plans for logical queues: the proposal's tables, and rules that hold for any cluster."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.sdk.admin.logical._indices import Claims, choose
from lanemq.sdk.admin.logical._plan import (
    Destination,
    MapQueue,
    OpenSegment,
    SealSegment,
    plan_destination,
    plan_mapping,
    plan_number,
)
from lanemq.sdk.admin.logical._spread import Move, plan_balance, plan_drain, remains_at
from lanemq.sdk.admin.logical._view import BrokerView, ClusterTopic
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import Chain, LogicalQueues, Segment, SegmentState

T = "T"
NORMAL, READ_ONLY = SegmentState.NORMAL, SegmentState.READ_ONLY
EXPIRED, WRITE_ONLY = SegmentState.EXPIRED, SegmentState.WRITE_ONLY


def segment(place: str, index: int, delta: int, state: SegmentState, **more: Any) -> Segment:  # noqa: ANN401
    broker, _, queue_id = place.partition("/")
    return Segment(MessageQueue(T, broker, int(queue_id)), index, delta, state, **more)


def view(queues: dict[str, int], *segments: Segment) -> ClusterTopic:
    """The view from brokers with so many queues, each with its own segments only."""
    found = LogicalQueues.of(segments)
    return ClusterTopic(
        T,
        tuple(
            BrokerView(name, f"10.0.0.{number}:10911", count, found.of_broker(name))
            for number, (name, count) in enumerate(queues.items(), 1)
        ),
    )


def mapped(queues: dict[str, int]) -> ClusterTopic:
    """Step A of the proposal: every queue is a logical one."""
    steps = plan_mapping(view(queues))
    return view(queues, *(segment(f"{s.broker}/{s.queue_id}", s.index, 0, NORMAL) for s in steps))


TWO = {"broker1": 2, "broker2": 2}


def test_two_brokers_with_two_queues_each() -> None:
    assert [(s.broker, s.queue_id, s.index) for s in plan_mapping(view(TWO))] == [
        ("broker1", 0, 0),
        ("broker1", 1, 1),
        ("broker2", 0, 2),
        ("broker2", 1, 3),
    ]
    assert not plan_mapping(mapped(TWO))


def test_in_turn_is_in_the_order_of_names_as_listeners_stand_for_brokers() -> None:
    """Whatever ports brokers have: see ``Listeners.numbered``."""
    brokers = (
        BrokerView("broker1", "10.0.0.1:30911", 2),
        BrokerView("broker2", "10.0.0.1:10911", 2),
    )
    steps = plan_mapping(ClusterTopic(T, brokers), in_turn=True)
    assert [(s.broker, s.queue_id, s.index) for s in steps] == [
        ("broker1", 0, 0),
        ("broker2", 0, 1),
        ("broker1", 1, 2),
        ("broker2", 1, 3),
    ]


def test_mapping_goes_on_after_a_failure_and_fills_gaps() -> None:
    found = view(TWO, segment("broker2/1", 1, 0, NORMAL), segment("broker1/1", 3, 0, NORMAL))
    assert plan_mapping(found) == [
        MapQueue("broker1", "10.0.0.1:10911", 0, 0),
        MapQueue("broker2", "10.0.0.2:10911", 0, 2),
    ]


def destination(found: ClusterTopic, index: int, name: str) -> Destination:
    broker = found.broker(name)
    assert broker is not None
    return plan_destination(found, index, broker)


def test_where_all_queues_are_taken_a_new_one_is_made() -> None:
    assert destination(mapped(TWO), 0, "broker2").queue_id is None


def table_c(state: SegmentState) -> ClusterTopic:
    return view(
        {"broker1": 2, "broker2": 3},
        segment("broker1/0", 0, 0, state, offset_max=101),
        segment("broker2/2", 0, 101, NORMAL),
        segment("broker1/1", 1, 0, NORMAL),
        segment("broker2/0", 2, 0, NORMAL),
        segment("broker2/1", 3, 0, NORMAL),
    )


def test_back_after_expiry_the_queue_is_used_again() -> None:
    assert destination(table_c(EXPIRED), 0, "broker1").queue_id == 0


def test_back_before_expiry_a_new_queue_is_made() -> None:
    assert destination(table_c(READ_ONLY), 0, "broker1").queue_id is None


def test_a_queue_that_was_left_empty_is_used_again_for_the_same_logical_queue_alone() -> None:
    found = view(
        {"broker1": 1, "broker2": 2},
        segment("broker1/0", 0, 0, EXPIRED, offset_max=0),
        segment("broker2/0", 0, 0, NORMAL),
        segment("broker2/1", 1, 0, NORMAL),
    )
    assert destination(found, 0, "broker1").queue_id == 0
    assert destination(found, 1, "broker1").queue_id is None


def test_a_queue_that_was_closed_empty_is_opened_again() -> None:
    closed = segment("broker1/1", 1, 0, EXPIRED, offset_max=0)
    found = view(TWO, *_but(mapped(TWO), 1), closed)
    assert plan_number(found, 4) == [OpenSegment("broker1", "10.0.0.1:10911", 1, 1, 0)]


def test_a_queue_that_was_closed_empty_is_not_opened_where_messages_can_still_be_read() -> None:
    """Its broker refuses that, and the number of queues would never be what was asked for."""
    read = segment("broker1/1", 1, 0, READ_ONLY, offset_max=4)
    closed = segment("broker1/1", 1, 4, EXPIRED, offset_delta=4, offset_max=4)
    found = view(TWO, *_but(mapped(TWO), 1), read, closed)
    assert plan_number(found, 4) == [OpenSegment("broker1", "10.0.0.1:10911", None, 1, 4)]


def test_the_least_offset_is_where_the_readable_part_begins() -> None:
    assert table_c(EXPIRED).chains()[0].min_offset == 101


def table_e() -> ClusterTopic:
    return view(
        {"broker1": 4, "broker2": 2},
        segment("broker1/0", 0, 0, NORMAL),
        segment("broker1/1", 1, 0, NORMAL),
        segment("broker1/2", 2, 101, NORMAL),
        segment("broker1/3", 3, 101, NORMAL),
        segment("broker2/0", 2, 0, READ_ONLY, offset_max=101, last_time_ms=7),
        segment("broker2/1", 3, 0, READ_ONLY, offset_max=101, last_time_ms=9),
    )


def test_a_broker_is_emptied() -> None:
    chains = {T: mapped(TWO).chains()}
    assert plan_drain(chains, "broker2", ["broker1", "broker2"]) == [
        Move(T, 2, "broker2", "broker1"),
        Move(T, 3, "broker2", "broker1"),
    ]
    remains = remains_at({T: table_e().chains()}, "broker2")
    assert (remains.written, remains.segments, remains.messages, remains.last_time_ms) == (
        *(0, 2),
        202,
        9,
    )


def test_a_removed_broker_leaves_nothing_behind() -> None:
    gone = view(
        {"broker1": 4},
        *(s for chain in table_e().chains().values() for s in chain if s.broker_name == "broker1"),
    )
    assert [chain.min_offset for chain in gone.chains().values()] == [0, 0, 101, 101]
    assert not plan_drain({T: gone.chains()}, "broker2", ["broker1"])


def test_table_g_a_new_broker_gets_its_queues_one_by_one() -> None:
    found = view(
        {"broker1": 4, "broker3": 0},
        *(s for chain in table_e().chains().values() for s in chain if s.broker_name == "broker1"),
    )
    assert destination(found, 2, "broker3") == Destination("broker3", "10.0.0.2:10911", None)
    assert plan_balance({T: found.chains()}, ["broker1", "broker3"]) == [
        Move(T, 2, "broker1", "broker3"),
        Move(T, 3, "broker1", "broker3"),
    ]


def test_what_was_begun_is_the_destination_and_never_the_source() -> None:
    begun = segment("broker2/2", 0, -1, WRITE_ONLY)
    found = view({"broker1": 1, "broker2": 3}, segment("broker1/0", 0, 0, NORMAL), begun)
    assert destination(found, 0, "broker2").begun == begun
    assert plan_drain({T: found.chains()}, "broker1", ["broker2"]) == [
        Move(T, 0, "broker1", "broker2")
    ]


def test_copies_count_only_where_their_broker_does_not_answer() -> None:
    stale = segment("broker2/0", 0, 0, NORMAL)
    told = Chain(0, [stale, segment("broker1/0", 0, 50, NORMAL)])
    present = view({"broker1": 1}).brokers[0]
    one = replace(present, mapping={0: told})
    two = BrokerView("broker2", "10.0.0.2:10911", 1, {0: Chain(0, [stale.sealed(50)])})
    assert ClusterTopic(T, (one, two)).chains()[0][0].is_sealed
    assert not ClusterTopic(T, (one,)).chains()[0][0].is_sealed


# The number of logical queues


def test_more_logical_queues_take_free_queues_then_new_ones() -> None:
    found = view({"broker1": 3, "broker2": 1}, segment("broker1/0", 0, 0, NORMAL))
    assert plan_number(found, 5) == [
        OpenSegment("broker1", "10.0.0.1:10911", 1, 1, 0),
        OpenSegment("broker1", "10.0.0.1:10911", 2, 2, 0),
        OpenSegment("broker2", "10.0.0.2:10911", 0, 3, 0),
        OpenSegment("broker2", "10.0.0.2:10911", None, 4, 0),
    ]


def test_fewer_close_the_greatest_indices() -> None:
    steps = plan_number(mapped(TWO), 2)
    assert [s.segment.logical_index for s in steps if isinstance(s, SealSegment)] == [3, 2]


@pytest.mark.parametrize(("state", "queue_id"), [(EXPIRED, 1), (READ_ONLY, None)])
def test_a_closed_index_comes_back_first_and_where_it_ended(
    state: SegmentState, queue_id: int | None
) -> None:
    closed = segment("broker1/1", 1, 0, state, offset_max=70)
    found = view(TWO, *_but(mapped(TWO), 1), closed)
    assert plan_number(found, 4) == [OpenSegment("broker1", "10.0.0.1:10911", queue_id, 1, 70)]


def test_what_is_left_of_a_migration_that_was_called_off_is_not_where_a_closed_index_ended() -> (
    None
):
    found = view(
        {"broker1": 1, "broker2": 1},
        segment("broker1/0", 0, 0, READ_ONLY, offset_max=40),
        segment("broker2/0", 0, 40, EXPIRED, offset_max=0),
    )
    assert plan_number(found, 1) == [OpenSegment("broker1", "10.0.0.1:10911", None, 0, 40)]


def test_a_closed_index_that_got_no_message_since_takes_no_further_queue() -> None:
    """However often it is opened and closed again."""
    found = view(
        {"broker1": 4},
        segment("broker1/0", 0, 0, READ_ONLY, offset_max=40),
        *(segment(f"broker1/{q}", 0, 40, EXPIRED, offset_max=0) for q in (1, 2, 3)),
    )
    assert plan_number(found, 1) == [OpenSegment("broker1", "10.0.0.1:10911", 3, 0, 40)]


def test_a_queue_that_is_read_for_another_index_is_not_taken() -> None:
    found = view(
        {"broker1": 1},
        segment("broker1/0", 0, 0, READ_ONLY, offset_max=5),
    )
    (first, second) = plan_number(found, 2)
    assert isinstance(first, OpenSegment)
    assert isinstance(second, OpenSegment)
    assert (first.queue_id, first.index, first.delta) == (None, 0, 5)
    assert (second.queue_id, second.index, second.delta) == (None, 1, 0)


def _but(found: ClusterTopic, index: int) -> list[Segment]:
    return [s for chain in found.chains().values() for s in chain if s.logical_index != index]


# Spreading

topics = st.dictionaries(
    st.sampled_from("TUVWX"),
    st.lists(st.sampled_from(["b1", "b2", "b3", "b4"]), max_size=9),
    max_size=5,
)


def placed(brokers: dict[str, list[str]]) -> dict[str, dict[int, Chain]]:
    return {
        topic: {
            index: Chain(index, [Segment(MessageQueue(topic, name, index), index, 0)])
            for index, name in enumerate(names)
        }
        for topic, names in brokers.items()
    }


def after(brokers: dict[str, list[str]], moves: list[Move]) -> dict[str, list[str]]:
    result = {topic: list(names) for topic, names in brokers.items()}
    for move in moves:
        assert result[move.topic][move.index] == move.source != move.destination
        result[move.topic][move.index] = move.destination
    return result


def spread(names: list[str], brokers: list[str]) -> int:
    counts = Counter(dict.fromkeys(brokers, 0)) + Counter(names)
    numbers = [counts[name] for name in brokers]
    return max(numbers) - min(numbers)


@given(topics, st.integers(1, 4))
def test_balanced_brokers_differ_by_one_in_each_topic_and_a_second_plan_is_empty(
    brokers: dict[str, list[str]], count: int
) -> None:
    names = ["b1", "b2", "b3", "b4"][:count]
    result = after(brokers, plan_balance(placed(brokers), names))
    assert all(spread(queues, names) <= 1 for queues in result.values())
    assert {name for queues in result.values() for name in queues} <= set(names)
    total = [name for queues in result.values() for name in queues]
    assert spread(total, names) <= 1
    assert not plan_balance(placed(result), names)


@given(topics, st.integers(1, 3))
def test_a_drained_broker_is_written_no_more_and_the_others_get_even_shares(
    brokers: dict[str, list[str]], count: int
) -> None:
    others = ["b1", "b2", "b3"][:count]
    moves = plan_drain(placed(brokers), "b4", others)
    assert {move.source for move in moves} <= {"b4"}
    result = after(brokers, moves)
    assert all("b4" not in queues for queues in result.values())
    for topic, queues in brokers.items():
        if set(queues) == {"b4"}:
            assert spread(result[topic], others) <= 1


def test_the_only_broker_cannot_be_drained() -> None:
    with pytest.raises(ValueError, match="only broker"):
        plan_drain(placed({"T": ["b1"]}), "b1", ["b1"])
    assert plan_drain(placed({"T": []}), "b1", ["b1"]) == []


def test_what_was_claimed_and_never_used_goes_to_the_same_broker_alone() -> None:
    claims = Claims(
        {0: frozenset({"a"}), 1: frozenset({"b"}), 2: frozenset({"a", "b"})}, frozenset("ab")
    )
    assert choose(claims, ClusterTopic("T"), ["a", "a", "b", "c"]) == [0, 3, 1, 4]
