"""Ranges of keys that are looked at one after another cover everything, without an overlap."""

from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage.kv.engines._gaps import Ranges, ReversedRanges, range_end

KEYS = st.binary(max_size=6)


@given(KEYS, st.integers(1, 64))
def test_a_range_ends_behind_its_begin_and_not_behind_a_larger_one(
    begin: bytes, level: int
) -> None:
    end, smaller = range_end(begin, level), range_end(begin, level + 1)
    assert end is None or end > begin
    assert smaller is None or smaller > begin
    assert end is None or (smaller is not None and smaller <= end)


@given(st.sets(KEYS, max_size=40), st.integers(1, 5))
def test_every_key_is_in_one_range_however_few_a_look_takes(keys: set[bytes], most: int) -> None:
    ranges, found = Ranges(b"", b"\xff" * 7), []
    while not ranges.is_done:
        begin, end = ranges.begin, ranges.end
        here = sorted(key for key in keys if begin <= key < end)
        assert begin < end
        if len(here) <= most:
            found += here
            ranges.read(end)
        else:  # as a look does that found a row before it gave up, or none
            ranges.gave_up(begin)
    assert found == sorted(keys)


@given(st.sets(KEYS, max_size=40), st.integers(1, 5))
def test_every_key_is_in_one_range_backwards_too(keys: set[bytes], most: int) -> None:
    keys = {key.rstrip(b"\0") for key in keys}
    ranges, found = ReversedRanges(b"", b"\xff" * 7), []
    while not ranges.is_done:
        begin, end = ranges.begin, ranges.end
        here = sorted((key for key in keys if begin <= key < end), reverse=True)
        assert begin < end
        if len(here) <= most:
            found += here
            ranges.read(begin)
        else:
            ranges.gave_up(end)
    assert found == sorted(keys, reverse=True)
