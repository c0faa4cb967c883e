"""The end of what is written in a file of fixed size."""

from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage.disk._zeros import BLOCK_BYTES, without_zeros

NEAR_BLOCKS = st.builds(
    lambda blocks, more: max(0, blocks * BLOCK_BYTES + more), st.integers(0, 3), st.integers(-2, 2)
)


@given(begin=st.binary(max_size=8), inside=NEAR_BLOCKS, last=st.integers(1, 255), zeros=NEAR_BLOCKS)
def test_what_is_written_ends_with_its_last_byte_that_is_not_zero(
    begin: bytes, inside: int, last: int, zeros: int
) -> None:
    written = begin + bytes(inside) + bytes([last])
    assert without_zeros(written + bytes(zeros)) == written


@given(zeros=NEAR_BLOCKS)
def test_of_zeros_alone_nothing_is_left(zeros: int) -> None:
    assert without_zeros(bytes(zeros)) == b""
