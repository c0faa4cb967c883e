"""Searches for progress: the latest place that has an offset counts, up to its segment's end."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire.bodies import MessageQueue
from lanemq.wire.logical import (
    Chain,
    ProgressSearch,
    Segment,
    SegmentState,
    progress_keepers,
    progress_places,
    progress_topic,
)
from lanemq.wire.message import StageRecord, stage_group

GROUP = "readers"
EXPIRED, READ_ONLY = SegmentState.EXPIRED, SegmentState.READ_ONLY


def at(broker: str, delta: int, begin: int = 0, end: int = -1) -> Segment:
    state = SegmentState.NORMAL if end < 0 else READ_ONLY
    return Segment(MessageQueue("T", broker, 3), 7, delta, state, begin, end)


FIRST, SECOND, THIRD = at("a", 0, 0, 100), at("b", 100, 5, 55), at("c", 150)
CHAIN = Chain(7, [FIRST, SECOND, THIRD])


class Told(NamedTuple):
    """The answer of a broker; None of all for one that cannot be asked."""

    offset: int | None = None
    is_certain: bool = False


NOTHING, YOUNG = Told(), Told(0)


def search(
    *answers: Told | None, group: str = GROUP, chain: Chain = CHAIN
) -> tuple[list[str], int | None]:
    """Search with the brokers' answers, in order; the topics asked for, and the result."""
    found, asked = ProgressSearch(group, chain), []
    for place, told in zip(found, answers, strict=False):
        asked.append(place.queue.topic)
        if told is not None:
            found.told(place, told.offset, is_certain=told.is_certain)
    return asked, found.offset


def test_the_places_are_those_of_the_segments_from_the_last_back_and_then_the_origin() -> None:
    keys = [place.queue for place in progress_places(CHAIN)]
    assert keys == [
        MessageQueue(progress_topic("T", 150), "c", 7),
        MessageQueue(progress_topic("T", 100), "b", 7),
        MessageQueue(progress_topic("T", 0), "a", 7),
        MessageQueue("T", "a", 3),
    ]
    assert [place.queue for place in progress_keepers(CHAIN)] == keys[:-1]
    used_before = Chain(7, [at("a", 0, 12)])
    assert [place.is_origin for place in progress_places(used_before)] == [False]
    waiting = at("b", -1)
    assert list(progress_places(Chain(7, [waiting]))) == []


def test_only_a_place_that_may_have_the_latest_offset_is_needed() -> None:
    chain = CHAIN.put(FIRST.with_state(EXPIRED))
    assert [place.is_needed for place in progress_places(chain)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("answers", "asked", "expected"),
    [
        ([Told(170)], 1, 170),
        ([Told(0, is_certain=True)], 1, 0),
        ([Told(None, is_certain=True)], 1, None),
        ([NOTHING, Told(120)], 2, 120),
        ([NOTHING, Told(180)], 2, 150),  # behind the segment's end nobody has read here
        ([YOUNG, NOTHING, None, NOTHING], 4, 0),
        ([YOUNG, Told(None, is_certain=True)], 2, None),
        ([NOTHING, None, NOTHING, Told(80)], 4, 80),
        ([YOUNG, YOUNG, YOUNG, Told(0)], 4, 0),
        ([NOTHING, NOTHING, NOTHING, Told(130)], 4, 100),
        ([NOTHING, NOTHING, NOTHING, NOTHING], 4, None),
    ],
)
def test_the_first_certain_answer_counts(
    answers: list[Told | None], asked: int, expected: int | None
) -> None:
    topics, offset = search(*answers, *[Told(1)] * (4 - len(answers)))
    assert (len(topics), offset) == (asked, expected)


def test_a_stage_record_is_no_offset_and_stays_whole() -> None:
    record = StageRecord(90, 7).pack()
    group = stage_group(GROUP)
    assert search(NOTHING, Told(record), group=group)[1] == record
    assert search(NOTHING, NOTHING, NOTHING, Told(record), group=group)[1] == record


answers = st.none() | st.builds(Told, st.none() | st.integers(0, 300), st.booleans())


@given(st.lists(st.integers(0, 50), max_size=5), st.booleans(), st.data())
def test_the_result_is_what_one_place_told_and_the_latest_certain_one(
    counts: list[int], is_open: bool, data: st.DataObject
) -> None:
    segments, delta = [], 0
    for number, count in enumerate(counts):
        is_last = number == len(counts) - 1
        end = -1 if is_open and is_last else count
        segments.append(at(f"b{number}", delta, 0, end))
        delta += count
    chain = Chain(7, segments)
    places = list(progress_places(chain))
    told = data.draw(st.lists(answers, min_size=len(places), max_size=len(places)))
    topics, offset = search(*told, chain=chain)
    of_all = list(zip(places, told, strict=True))
    certain = [
        (place, one)
        for place, one in of_all
        if one is not None and not place.is_origin and (one.offset or one.is_certain)
    ]
    if certain:
        place, one = certain[0]
        assert topics == [p.queue.topic for p in places[: places.index(place) + 1]]
        assert offset == (None if one.offset is None else place.worth(GROUP, one.offset))
        last = place.segment.end_offset
        assert offset is None or last is None or offset <= last
        return
    assert len(topics) == len(places)
    heard = [one.offset for _, one in reversed(of_all) if one is not None]
    known = [value for value in heard if value is not None]
    if places and places[-1].is_origin and told[-1] is not None and told[-1].offset is not None:
        assert offset == places[-1].worth(GROUP, told[-1].offset)
    else:
        assert offset == (0 if known else None)
