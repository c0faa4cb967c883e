"""A fleet's keeper of topics acts by what it sees at the brokers."""

from lanemq.proxy.cli._fleet_topics import Seen, new_topics, shares
from lanemq.wire.bodies import MessageQueue, TopicConfig
from lanemq.wire.logical import LogicalQueues, Segment

T = "orders"


def broker(name: str, *indices: int, queues: int | None = None) -> Seen:
    """One that has the topic, with a queue for each of ``indices``; ``queues`` in all."""
    segments = [
        Segment(MessageQueue(T, name, queue_id), logical_index=index, delta=0, broker_address=name)
        for queue_id, index in enumerate(indices)
    ]
    count = len(indices) if queues is None else queues
    config = TopicConfig(T, read_queue_nums=count, write_queue_nums=count)
    return Seen(name, name, {T: config}, {T: LogicalQueues.of(segments)} if indices else {})


def without(name: str) -> Seen:
    return Seen(name, name, {}, {})


def test_a_new_topic_is_taken_up_wherever_it_was_made() -> None:
    assert list(new_topics([broker("a", queues=4), without("b")], set())) == [T]
    assert list(new_topics([broker("a", queues=4), without("b")], {T})) == []


def test_what_is_being_deleted_is_left_alone() -> None:
    assert list(new_topics([without("a"), broker("b", 2, 3)], set())) == []
    assert list(new_topics([broker("a", 0, 1), without("b")], set())) == []


def test_queues_that_an_operator_adds_become_logical_ones() -> None:
    assert list(new_topics([broker("a", 0, 1, queues=3), broker("b", 2, 3)], set())) == [T]
    assert list(new_topics([broker("a", 0, 1), broker("b", 2, 3)], set())) == []


def test_a_broker_that_joins_gets_its_share_of_the_queues_there_are() -> None:
    there = [broker("a", 0, 1, 2, 3), broker("b", 4, 5, 6, 7)]
    assert list(shares(there)) == []
    joined = [*there, without("c")]
    assert list(new_topics(joined, set())) == []
    moves = list(shares(joined))
    assert [destination for _, _, destination in moves] == ["c", "c"]
    assert {index // 4 for _, index, _ in moves} == {0, 1}  # one of each of the others
