"""The ends to which messages of a logical queue go while some brokers are away."""

from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import Chain, Segment, SegmentState

NORMAL, WRITE_ONLY = SegmentState.NORMAL, SegmentState.WRITE_ONLY
BROKERS = ("a", "b", "c")


def at(broker: str, delta: int, state: SegmentState = NORMAL, queue_id: int = 0) -> Segment:
    return Segment(MessageQueue("T", broker, queue_id), 0, delta, state)


SOURCE, UNPLACED = at("a", 0), at("b", -1, WRITE_ONLY)


def test_a_destination_without_a_place_takes_messages_only_while_the_source_is_away() -> None:
    moving = Chain(0, [SOURCE, UNPLACED])
    assert moving.tail_without({"b"}.__contains__) == moving.tail == SOURCE
    assert moving.tail_without({"a"}.__contains__) == UNPLACED
    assert moving.tail_without({"a", "b"}.__contains__) == UNPLACED
    opened = Chain(0, [SOURCE.sealed(9), at("b", 9, WRITE_ONLY)])
    assert opened.tail_without({"a"}.__contains__) == opened.tail == at("b", 9, WRITE_ONLY)


def test_what_there_is_no_other_for_stays_the_tail() -> None:
    assert Chain(0, [SOURCE]).tail_without({"a"}.__contains__) == SOURCE
    assert Chain(0, [UNPLACED]).tail_without({"b"}.__contains__) == UNPLACED
    assert Chain(0, [SOURCE.sealed(9)]).tail_without(set[str]().__contains__) is None


segments = st.builds(
    at,
    st.sampled_from(BROKERS),
    st.integers(-1, 3),
    st.sampled_from(SegmentState),
    st.integers(0, 2),
)


@given(st.lists(segments, max_size=5), st.sets(st.sampled_from(BROKERS)))
def test_it_is_the_tail_or_the_last_that_takes_messages(
    chosen: list[Segment], away: set[str]
) -> None:
    chain = Chain(0).put(*chosen)
    found = chain.tail_without(away.__contains__)
    assert found in (chain.tail, chain.writable)
    assert (found is None) == (chain.writable is None)
    if found != chain.tail:
        assert chain.tail is not None
        assert found is not None
        assert chain.tail.broker_name in away
        assert found.delta < 0
    if found is not None and found.broker_name in away:
        assert found == chain.writable  # there is no other
