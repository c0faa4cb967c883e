"""A record of stages is one number that no queue offset can be taken for, and comes back whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.wire.message import (
    STAGE_OFFSET_MAX,
    STAGED_QUEUE_OFFSET_MAX,
    StageRecord,
    Stages,
    group_of_stage_group,
    stage_group,
)

SIZES = st.lists(st.integers(1, 50), max_size=6)
OFFSETS = st.integers(0, STAGED_QUEUE_OFFSET_MAX)
STAGE_OFFSETS = st.integers(0, STAGE_OFFSET_MAX)
RECORDS = st.builds(StageRecord, OFFSETS, STAGE_OFFSETS, st.booleans())


@given(RECORDS)
def test_a_record_comes_back_from_its_number(record: StageRecord) -> None:
    assert StageRecord.unpack(record.pack()) == record


@given(RECORDS)
def test_the_number_fits_a_java_long_and_is_above_any_queue_offset(record: StageRecord) -> None:
    assert 1 << 62 <= record.pack() < 1 << 63


@given(RECORDS, RECORDS)
def test_a_later_record_has_a_greater_number(one: StageRecord, other: StageRecord) -> None:
    fields = [(r.queue_offset, r.stage_offset, r.settled) for r in (one, other)]
    assert (fields[0] < fields[1]) == (one.pack() < other.pack())


@given(st.integers(-(1 << 63), (1 << 62) - 1))
def test_an_ordinary_offset_is_no_record(offset: int) -> None:
    assert StageRecord.unpack(offset) is None


def test_a_record_is_these_bits() -> None:
    number = StageRecord(queue_offset=5, stage_offset=3, settled=True).pack()
    assert number == 1 << 62 | 5 << 20 | 3 << 1 | 1


@pytest.mark.parametrize("queue_offset", [-1, STAGED_QUEUE_OFFSET_MAX + 1])
def test_a_queue_offset_that_does_not_fit_is_refused(queue_offset: int) -> None:
    with pytest.raises(OverflowError, match="does not fit"):
        StageRecord(queue_offset, 0).pack()


def test_a_negative_stage_offset_is_refused() -> None:
    with pytest.raises(OverflowError, match="negative"):
        StageRecord(0, -1).pack()


def test_a_stage_offset_stops_where_the_tail_is_certain() -> None:
    packed = StageRecord(7, STAGE_OFFSET_MAX + 1000).pack()
    assert StageRecord.unpack(packed) == StageRecord(7, STAGE_OFFSET_MAX)
    assert Stages([STAGE_OFFSET_MAX]).end_of(STAGE_OFFSET_MAX) is None


@given(SIZES, st.integers(0, 400))
def test_stages_and_their_ends_agree_with_counting(sizes: list[int], number: int) -> None:
    stages = Stages(sizes)
    owners = [stage for stage, size in enumerate(sizes) for _ in range(size)]
    expected = owners[number] if number < len(owners) else len(sizes)
    assert stages.stage_of(number) == expected
    end = stages.end_of(number)
    if expected == len(sizes):
        assert end is None
    else:
        assert end == sum(sizes[: expected + 1])
    assert stages.total == sum(sizes)
    assert bool(stages) == bool(sizes)


@pytest.mark.parametrize("sizes", [[0], [3, -1], [True], [STAGE_OFFSET_MAX, 1]])
def test_sizes_that_make_no_stages_are_refused(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="stage"):
        Stages(sizes)


def test_equal_stages_are_equal() -> None:
    assert Stages([1, 2]) == Stages((1, 2)) != Stages([2, 1])
    assert hash(Stages([1, 2])) == hash(Stages((1, 2)))
    assert repr(Stages([1, 2])) == "Stages([1, 2])"


def test_the_shadow_group_is_named_after_the_group() -> None:
    assert stage_group("orders") == "%STAGE%orders"
    assert stage_group("orders", "fast") == "%STAGE%|fast|orders"
    assert stage_group("|orders") == "%STAGE%|orders"


STAGED = st.tuples(st.text("ag|%", min_size=1, max_size=7), st.text("ag", max_size=2))


@given(STAGED, STAGED)
def test_a_shadow_group_is_that_of_one_group_and_strategy(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    assert group_of_stage_group(stage_group(*one)) == one[0]
    assert (stage_group(*one) == stage_group(*other)) == (one == other)


def test_a_group_that_is_called_like_a_strategy_has_records_of_its_own() -> None:
    assert stage_group("|a|victim") != stage_group("victim", "a")
    assert group_of_stage_group(stage_group("|a|victim")) == "|a|victim"
    assert group_of_stage_group("%STAGE%|a|victim") == "victim"
