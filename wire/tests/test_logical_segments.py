"""Offsets of a segment, row by row of the table that 5.0.0-PREVIEW's arithmetic is fixed by."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire import RemoteProtocolError, fastjson
from lanemq.wire.bodies import MessageQueue
from lanemq.wire.bodies._body import Body
from lanemq.wire.logical import (
    Chain,
    Reached,
    Segment,
    SegmentState,
    check_chain,
    sort_key,
)

QUEUE = MessageQueue("T", "broker1", 0)
EXPIRED, READ_ONLY = SegmentState.EXPIRED, SegmentState.READ_ONLY
NORMAL, WRITE_ONLY = SegmentState.NORMAL, SegmentState.WRITE_ONLY


def segment(delta: int, begin: int, end: int, state: SegmentState | None = None) -> Segment:
    if state is None:
        state = NORMAL if end < 0 else READ_ONLY
    return Segment(QUEUE, 0, delta, state, begin, end)


def test_physical_offsets_of_a_first_segment_are_the_logical_ones() -> None:
    first = segment(0, 0, 101)
    assert (first.to_logical(0), first.to_logical(100)) == (0, 100)


def test_the_end_is_exclusive() -> None:
    first = segment(0, 0, 101)
    assert first.contains_physical(first.to_physical(100))
    assert not first.contains_physical(first.to_physical(101))


def test_the_successor_begins_where_a_segment_ends() -> None:
    assert (segment(0, 0, 101).count, segment(0, 0, 101).next_delta) == (101, 101)


def test_a_second_segment_counts_on() -> None:
    second = segment(101, 0, -1)
    assert (second.to_physical(101), second.to_physical(150)) == (0, 49)


def test_a_sealed_second_segment_has_an_end_of_its_own() -> None:
    second = segment(101, 0, 100)
    assert second.end_offset == 201
    assert second.contains_physical(second.to_physical(200))
    assert not second.contains_physical(second.to_physical(201))


def test_a_queue_that_is_used_again_begins_behind_its_old_messages() -> None:
    third = segment(201, 101, -1)
    assert (third.to_logical(101), third.to_physical(250)) == (201, 150)


def test_the_least_offset_of_the_queue_is_not_that_of_the_segment() -> None:
    third = segment(201, 101, -1)
    assert third.to_logical(0) == 100, "a logical offset that belongs to another segment"
    assert third.to_logical(third.clamp_min(0)) == 201


def test_without_a_delta_logical_offsets_are_not_known() -> None:
    assert segment(-1, 0, -1).to_logical(5) == -1


def test_physical_offsets_mean_nothing_without_a_delta() -> None:
    assert segment(-1, 7, -1).to_physical(0) == 8


def test_a_seal_fixes_end_count_and_the_successors_delta() -> None:
    sealed = segment(500, 10, -1).sealed(100, first_time_ms=1, last_time_ms=2)
    assert (sealed.offset_max, sealed.count, sealed.next_delta) == (100, 90, 590)
    assert (sealed.state, sealed.first_time_ms, sealed.last_time_ms) == (READ_ONLY, 1, 2)


def test_a_segment_that_was_sealed_empty_has_its_successors_delta() -> None:
    empty = segment(6, 3, 3)
    assert (empty.count, empty.next_delta) == (0, 6)


def test_messages_behind_the_end_are_not_kept() -> None:
    sealed = segment(0, 0, 460)
    assert sealed.keeps(459)
    assert not sealed.keeps(460)


def test_a_pull_is_cut_at_the_end() -> None:
    assert segment(0, 0, 101).clamp_count(90, 32) == 11
    assert segment(0, 0, 101).clamp_count(200, 32) == 0
    assert segment(0, 0, -1).clamp_count(90, 32) == 32


def test_the_end_of_a_segment_is_read_in_the_next_one() -> None:
    first = segment(0, 0, 101)
    second = Segment(MessageQueue("T", "broker2", 2), 0, 101)
    chain = Chain(0, [second, first])
    assert not first.contains_physical(101)
    following = chain.next_readable(first)
    assert following == second
    assert following.delta == 101
    located = chain.locate(101)
    assert located is not None
    assert (located.segment, located.queue_offset, located.is_legal) == (second, 0, True)


def test_one_message_is_not_none() -> None:
    assert segment(0, 0, -1).sealed(1).state is READ_ONLY


def test_a_segment_sealed_empty_is_expired() -> None:
    sealed = segment(0, 0, -1).sealed(0)
    assert (sealed.state, sealed.next_delta) == (EXPIRED, 0)


def test_a_seal_of_messages_that_are_gone_expires_the_segment_and_keeps_its_count() -> None:
    sealed = segment(0, 0, -1).sealed(7, has_messages=False)
    assert (sealed.state, sealed.next_delta) == (EXPIRED, 7)
    with pytest.raises(ValueError, match="before its begin"):
        segment(0, 10, -1).sealed(9)


def test_the_greatest_offset_of_the_queue_is_clamped_to_a_sealed_segment() -> None:
    assert segment(0, 0, 101).clamp_max(500) == 101
    assert segment(0, 0, 101).clamp_max(50) == 50
    assert segment(0, 0, -1).clamp_max(500) == 500


def test_segments_sort_by_delta_then_by_state_and_unknown_deltas_last() -> None:
    wanted = [
        (0, READ_ONLY),
        (101, EXPIRED),
        (101, READ_ONLY),
        (101, NORMAL),
        (201, WRITE_ONLY),
        (-1, WRITE_ONLY),
    ]
    segments = [Segment(QUEUE, 0, delta, state) for delta, state in wanted]
    ordered = sorted([*segments[3:], *segments[:3]], key=sort_key)
    assert [(found.delta, found.state) for found in ordered] == wanted


def test_segments_that_are_equal_so_far_sort_by_queue_and_first_offset() -> None:
    wanted = [
        Segment(MessageQueue("S", "b", 9), 0, 5, NORMAL, 9),
        Segment(MessageQueue("T", "a", 9), 0, 5, NORMAL, 9),
        Segment(MessageQueue("T", "b", 1), 0, 5, NORMAL, 2),
        Segment(MessageQueue("T", "b", 2), 0, 5, NORMAL, 0),
        Segment(MessageQueue("T", "b", 2), 0, 5, NORMAL, 1),
        # Java compares UTF-16 units: the surrogates of the first come before U+FFxx.
        Segment(MessageQueue("T", "\U0001f600", 0), 0, 5, NORMAL),
        Segment(MessageQueue("T", "\uff41", 0), 0, 5, NORMAL),
    ]
    assert sorted([*wanted[4:], *wanted[:4]], key=sort_key) == wanted


def test_the_numbers_of_the_states_are_part_of_the_order() -> None:
    assert [state.ordinal for state in (EXPIRED, READ_ONLY, NORMAL, WRITE_ONLY)] == [0, 1, 2, 3]
    assert [s for s in SegmentState if s.is_writable] == [NORMAL, WRITE_ONLY]
    assert [s for s in SegmentState if s.is_readable] == [READ_ONLY, NORMAL]


def test_a_state_is_read_by_name_or_number_and_nothing_else() -> None:
    assert SegmentState.from_json("WriteOnly") is WRITE_ONLY
    assert SegmentState.from_json(1) is READ_ONLY
    for wrong in ("normal", "", 4, -1, True, None, 1.5):
        with pytest.raises(RemoteProtocolError):
            SegmentState.from_json(wrong)


OFFSETS = st.integers(0, 1 << 40)


@given(delta=OFFSETS, begin=OFFSETS, count=st.integers(0, 1000), at=st.integers(0, 2000))
def test_physical_and_logical_offsets_are_the_inverse_of_each_other(
    delta: int, begin: int, count: int, at: int
) -> None:
    sealed = segment(delta, begin, begin + count)
    assert sealed.to_physical(sealed.to_logical(begin + at)) == begin + at
    assert sealed.contains_physical(begin + at) == (at < count)
    successor = segment(sealed.next_delta, 0, -1)
    assert [f for f in check_chain(Chain(0, [sealed, successor])) if f.is_gap] == []


@given(st.integers(-1, 40), st.integers(0, 40), st.integers(-1, 40))
def test_a_segment_is_meant_where_nothing_known_of_it_is_another(
    delta: int, begin: int, said_delta: int
) -> None:
    meant, said = segment(delta, begin, -1), segment(said_delta, begin, -1)
    assert meant.is_meant(meant.meant)
    assert meant.is_meant(said.meant) == (delta == said_delta or -1 in (delta, said_delta))
    assert not meant.is_meant(segment(delta, begin + 1, -1).meant)
    assert not meant.is_meant(f"1:{begin}")


NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
SEGMENTS = st.builds(
    Segment,
    st.builds(MessageQueue, st.text(max_size=3), st.text(max_size=3), st.integers(0, 99)),
    *(NUMBERS, NUMBERS, st.sampled_from(SegmentState), NUMBERS, NUMBERS, NUMBERS, NUMBERS),
    st.none() | st.text(max_size=3),
    st.none() | NUMBERS,
    st.none() | st.booleans(),
)
UNUSUAL: st.SearchStrategy[object] = st.sampled_from(
    [None, True, 1.0, 1.5, "7", "x", 1 << 63, [], {}]
)


@given(SEGMENTS)
def test_a_segment_is_written_as_its_declaration_says(written: Segment) -> None:
    assert written.to_json() == Body.to_json(written)
    assert list(written.to_json()) == list(Body.to_json(written))
    assert fastjson.dumps([written]) == fastjson.dumps([Body.to_json(written)])
    assert Segment.decode(fastjson.dumps(written)) == written


@given(SEGMENTS, st.data())
def test_a_segment_is_read_as_its_declaration_says(written: Segment, data: st.DataObject) -> None:
    value = fastjson.loads(fastjson.dumps(written))
    assert isinstance(value, dict)
    name = data.draw(st.sampled_from(sorted(written.to_json())))
    value[name] = data.draw(UNUSUAL)
    if data.draw(st.booleans()):
        del value[name]
    quick, declared = (_read(read, value) for read in (Segment.from_json, _as_declared))
    assert quick == declared


def _as_declared(value: object) -> Segment:
    return super(Segment, Segment).from_json(value)


def _read(read: Callable[[object], Segment], value: object) -> Segment | str:
    try:
        return read(value)
    except RemoteProtocolError as error:
        return str(error)


def test_a_commit_names_the_segment_that_was_read() -> None:
    read = Segment(MessageQueue("T", "a:b", 7), 3, 182, READ_ONLY, 20, 40)
    said = Reached(read, 219).meant
    named = Reached.named("T", 3, 219, said)
    assert named is not None
    assert (named.segment.key, named.segment.delta, named.offset) == (read.key, 182, 219)
    forced = Segment(MessageQueue("T", "c", 1), 3, 190)
    assert named.worth(219, Chain(3, [read, forced])) == 190
    for said in ("", "1:2:3", "1:-2:3:b", "1:2:x:b", f"{'9' * 20}:2:3:b"):
        assert Reached.named("T", 3, 219, said) is None
