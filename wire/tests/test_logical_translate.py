"""Translation between a message queue's numbers and those of its logical queue."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from lanemq.wire import ResponseCode
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import Chain, Segment, SegmentState, translate
from lanemq.wire.logical.translate import Numbers

FOUND, NOT_FOUND = ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND
RETRY, ILLEGAL = ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED


def segment(
    broker: str = "a",
    *,
    begin: int = 0,
    end: int = -1,
    delta: int = 0,
    state: SegmentState = SegmentState.NORMAL,
) -> Segment:
    return Segment(
        MessageQueue("T", broker, 0),
        logical_index=0,
        delta=delta,
        state=state,
        offset_delta=begin,
        offset_max=end,
    )


def sealed(broker: str = "a", *, begin: int = 0, end: int, delta: int = 0) -> Segment:
    return segment(broker, begin=begin, end=end, delta=delta, state=SegmentState.READ_ONLY)


# A queue of 10 messages at broker a, from its offset 5 on, and of more at b, from its 100 on.
FIRST = sealed("a", begin=5, end=15, delta=0)
SECOND = segment("b", begin=100, delta=10)
CHAIN = Chain(0, (FIRST, SECOND))


def test_an_answer_that_finds_messages_is_shifted_to_the_logical_queue() -> None:
    assert translate.pulled(FOUND, Numbers(132, 90, 140), SECOND, 12) == (
        FOUND,
        Numbers(42, 10, 50),
    )


def test_numbers_of_a_whole_message_queue_are_cut_down_to_the_segment() -> None:
    assert translate.within(Numbers(40, 0, 40), FIRST) == Numbers(15, 5, 15)
    assert translate.within(Numbers(0, 0, 3), FIRST) == Numbers(5, 5, 5)


def test_an_answer_that_leads_nowhere_is_not_found() -> None:
    for code in (RETRY, ILLEGAL, NOT_FOUND):
        assert translate.pulled(code, Numbers(110, 100, 110), SECOND, 20)[0] == NOT_FOUND


def test_a_number_that_the_broker_does_not_tell_is_what_was_asked_for() -> None:
    code, numbers = translate.pulled(RETRY, Numbers(-1, -1, -1), SECOND, 20)
    assert (code, numbers) == (NOT_FOUND, Numbers(20, 10, 20))
    code, numbers = translate.pulled(ILLEGAL, Numbers(-1, -1, -1), SECOND, 20)
    assert (code, numbers.next_offset) == (NOT_FOUND, 20)


def test_only_an_illegal_offset_leads_back() -> None:
    assert translate.pulled(ILLEGAL, Numbers(100, 100, 110), SECOND, 50)[1].next_offset == 10
    assert translate.pulled(RETRY, Numbers(100, 100, 110), SECOND, 50)[1].next_offset == 50


def test_bounds_are_those_of_the_whole_queue() -> None:
    assert translate.in_chain(Numbers(3, 2, 8), CHAIN) == Numbers(3, 0, 10)
    assert translate.in_chain(Numbers(20, 10, 33), CHAIN) == Numbers(20, 0, 33)
    closed = Chain(0, (FIRST, sealed("b", begin=100, end=120, delta=10)))
    assert translate.in_chain(Numbers(20, 10, 33), closed).max_offset == 30


def test_a_gap_is_passed_over_and_what_is_gone_is_illegal() -> None:
    chain = Chain(0, (sealed("a", begin=5, end=10, delta=3), SECOND))
    for asked, code, following in ((8, RETRY, 10), (0, ILLEGAL, 3), (20, ILLEGAL, 10)):
        assert translate.passed_over(following, asked, chain) == (code, Numbers(following, 3, 10))


def test_questions_for_offsets() -> None:
    assert translate.end_of(FIRST, 40) == 10
    assert translate.end_of(SECOND, 120) == 30
    assert translate.end_of(SECOND, 7) == 10
    assert translate.first_of(FIRST, 0) == 0
    assert translate.first_of(FIRST, 14) == 9
    assert translate.first_of(FIRST, 15) is None
    assert translate.searched(FIRST, 40) == 15
    assert translate.searched(FIRST, 0) == 5


def test_a_stored_offset_is_not_known_before_the_segment_has_its_place() -> None:
    assert translate.stored_at(SECOND, 103) == 13
    assert translate.stored_at(SECOND, -1) == -1
    assert translate.stored_at(segment("c", delta=-1), 7) == -1
    assert translate.as_if_at(FIRST, SECOND, 103) == 18
    assert translate.as_if_at(FIRST, segment("c", delta=-1), 3) == -1


@given(
    begin=st.integers(0, 100),
    count=st.none() | st.integers(0, 100),
    delta=st.integers(0, 1000),
    told=st.tuples(*[st.integers(0, 300)] * 3),
    code=st.sampled_from([FOUND, NOT_FOUND, RETRY, ILLEGAL]),
    into=st.integers(0, 100),
)
def test_no_number_lies_outside_of_the_segment_and_no_reader_is_led_back_unasked(
    begin: int,
    count: int | None,
    delta: int,
    told: tuple[int, int, int],
    code: ResponseCode,
    into: int,
) -> None:
    end = -1 if count is None else begin + count
    part = segment(begin=begin, end=end, delta=delta)
    asked = delta + (into if count is None else min(into, count))
    seen, numbers = translate.pulled(code, Numbers(*told), part, asked)
    for number in astuple(numbers):
        assert number >= delta
        assert count is None or number <= delta + count
    assert code == ILLEGAL or numbers.next_offset >= asked
    if code == FOUND:
        assert seen == FOUND
    elif numbers.next_offset == asked:
        assert seen == NOT_FOUND
    else:
        assert seen == (RETRY if code == NOT_FOUND else code)


# Where a queue ends


def test_the_tail_takes_messages_and_the_last_is_where_the_queue_ends() -> None:
    assert (CHAIN.tail, CHAIN.last) == (SECOND, SECOND)
    waiting = segment("c", delta=-1, state=SegmentState.WRITE_ONLY)
    moving = CHAIN.put(waiting)
    assert (moving.tail, moving.last) == (SECOND, SECOND)
    closed = Chain(0, (FIRST, waiting))
    assert (closed.tail, closed.last) == (waiting, FIRST)
    assert (Chain(0, (FIRST,)).tail, Chain(0, (FIRST,)).last) == (None, FIRST)
    assert (Chain(0).tail, Chain(0).last) == (None, None)


def test_what_is_left_of_a_called_off_migration_is_not_where_the_queue_ends() -> None:
    left = segment("c", begin=3, end=3, delta=30, state=SegmentState.EXPIRED)
    assert CHAIN.put(left).last == SECOND
    assert Chain(0, (left,)).last == left
