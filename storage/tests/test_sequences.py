"""Offsets of a queue that a flipped bit changed are told from queues that go on elsewhere."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage.derive._sequence import HELD_MAX, Sequences
from lanemq.storage.derive._units import DerivedUnit

BYTES = 200


def unit(number: int, offset: int, *, queue_id: int = 0) -> DerivedUnit:
    """The unit of the log's message ``number``."""
    return DerivedUnit("T", queue_id, offset, number * BYTES, BYTES, 0, 0)


def judged(
    offsets: Sequence[int], expected: int | None = None
) -> tuple[list[int], dict[int, int | None]]:
    """The numbers of the units that are right, and those that are damaged with their slots."""
    damaged: dict[int, int | None] = {}

    def note(one: DerivedUnit, slot: int | None) -> None:
        damaged[one.log_position // BYTES] = slot

    sequences = Sequences(note, expected=lambda _: (expected, 0) if expected is not None else None)
    right = [
        taken
        for number, offset in enumerate(offsets, 1)
        for taken in sequences.take(unit(number, offset))
    ]
    assert sequences.is_undecided or sequences.held_from is None
    right += sequences.finish()
    assert not sequences.is_undecided
    return [one.log_position // BYTES for one in right], damaged


def test_offsets_that_follow_each_other_are_right() -> None:
    assert judged([7, 8, 9]) == ([1, 2, 3], {})
    assert judged([7]) == ([1], {})


def test_an_offset_that_its_neighbours_contradict_is_damaged_and_its_slot_is_known() -> None:
    for offset in (1, 8, 13, 0, 11, 10, 1 << 40):
        assert judged([7, 8, offset, 10, 11]) == ([1, 2, 4, 5], {3: 9}), offset


def test_the_first_message_may_be_the_damaged_one() -> None:
    assert judged([9 + 64, 10, 11]) == ([2, 3], {1: None})
    assert judged([9 + 64, 10, 11], expected=9) == ([2, 3], {1: 9})
    far = 1_000_000
    assert judged([far ^ 1 << 19, far + 1, far + 2])[0] == [2, 3]


def test_the_newest_message_that_goes_back_by_a_bit_is_damaged_and_keeps_its_slot() -> None:
    assert judged([17, 18, 19 ^ 16]) == ([1, 2], {3: 19})


def test_a_queue_goes_back_where_messages_agree_or_more_than_a_bit_differs() -> None:
    assert judged([7, 8, 9, 3, 4]) == ([1, 2, 3, 4, 5], {})
    assert judged([17, 18, 0]) == ([1, 2, 3], {})
    assert judged([198, 199, 99]) == ([1, 2, 3], {})


def test_messages_that_are_gone_leave_a_gap() -> None:
    assert judged([7, 8, 11, 12]) == ([1, 2, 3, 4], {})
    assert judged([7, 8, 11]) == ([1, 2, 3], {})
    assert judged([10, 12, 14, 16, 18]) == ([1, 2, 3, 4, 5], {})


def test_no_queue_goes_on_by_more_than_the_log_has_room_for() -> None:
    assert judged([7, 8, 9, 1 << 40]) == ([1, 2, 3], {4: 10})


def test_two_damaged_messages_one_after_the_other_cost_no_third() -> None:
    assert judged([7, 8, 9 ^ 64, 10 ^ 8, 11, 12]) == ([1, 2, 5, 6], {3: 9, 4: 10})


def test_what_is_held_back_is_bounded() -> None:
    sequences = Sequences(lambda _one, _slot: None)
    held = 0
    for number in range(1, 1000):
        taken = sequences.take(unit(number, 5 if number % 2 else 900))
        held += 1 - len(taken)
        assert (sequences.held_from or number * BYTES) >= (number - HELD_MAX) * BYTES


@st.composite
def pasts(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """Offsets of the messages of a queue, which one is damaged, and by which bit."""
    offsets: list[int] = []
    first = draw(st.integers(0, 5000))
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(3, 30))
        offsets += range(first, first + count)
        first = draw(st.integers(0, first + count - 1))
    return offsets, draw(st.integers(0, len(offsets) - 1)), draw(st.integers(0, 57))


@given(pasts())
def test_a_flipped_bit_costs_no_other_message(past: tuple[list[int], int, int]) -> None:
    offsets, which, bit = past
    damaged = [*offsets]
    damaged[which] ^= 1 << bit
    right, told = judged(damaged)
    assert [number for number in right if number != which + 1] == [
        number for number in range(1, len(offsets) + 1) if number != which + 1
    ]
    assert set(told) <= {which + 1}


@given(pasts())
def test_a_sound_queue_has_no_damage(past: tuple[list[int], int, int]) -> None:
    offsets, _, _ = past
    assert judged(offsets) == ([*range(1, len(offsets) + 1)], {})
