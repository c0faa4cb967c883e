"""Walks that go beside each other find what one walk finds, whatever the bytes are."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.testkit.spark import require_packages
from lanemq.wire.message import MAGIC_BLANK, MAGIC_V1, MAGIC_V2

require_packages()

from lanemq.spark.records import _walk  # noqa: E402

pytestmark = pytest.mark.slow
LEAST = 12
MAGICS = tuple(one.to_bytes(4, "big", signed=True) for one in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK))


@pytest.fixture(autouse=True, scope="module")
def short_strides() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_walk, "STRIDE_BYTES", 40)
        patch.setattr(_walk, "WALKS_MIN", 2)
        yield


def one_by_one(data: bytes, at: int, stop: int) -> tuple[list[int], int]:
    """The walk as it is defined."""
    found = []
    while at <= min(len(data) - LEAST, stop - 1):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if data[at + 4 : at + 8] not in MAGICS[:2] or size < LEAST or at + size > len(data):
            break
        found.append(at)
        at += size
    return found, at


@st.composite
def record(draw: st.DrawFn) -> bytes:
    """Size, magic, and bytes in which other records seem to begin; the size may be wrong."""
    magic = draw(st.sampled_from([*MAGICS[:2]] * 10 + [MAGICS[2]]))
    seeming = st.tuples(st.integers(-20, 200), st.sampled_from(MAGICS)).map(
        lambda one: one[0].to_bytes(4, "big", signed=True) + one[1]
    )
    rest = b"".join(draw(st.lists(st.one_of(seeming, st.binary(max_size=30)), max_size=6)))
    rest = rest.ljust(LEAST - 8, b"\0")
    wrong = draw(st.sampled_from([0] * 40 + [-3, 5, 1 << 20, -(1 << 20)]))
    return (8 + len(rest) + wrong).to_bytes(4, "big", signed=True) + magic + rest


@given(st.lists(record(), max_size=60), st.binary(max_size=20), st.data())
def test_walks_together_are_one_walk(
    records: list[bytes], torn: bytes, data: st.DataObject
) -> None:
    window = b"".join(records) + torn
    stop = data.draw(st.integers(0, len(window) + 50))
    first = data.draw(st.sampled_from([0, 0, len(records[0]) if records else 0]))
    starts, end = _walk.walk_sizes(memoryview(window), first, stop, least=LEAST)
    assert (starts.tolist(), end) == one_by_one(window, first, stop)


@pytest.mark.parametrize("sizes", [(20, 20), (20, 4000), (4000, 20), (20, 90, 500, 7000)])
def test_records_of_different_sizes_are_all_found(sizes: tuple[int, ...]) -> None:
    records = [
        size.to_bytes(4, "big") + MAGICS[0] + bytes(size - 8) for size in sizes for _ in range(300)
    ]
    window = b"".join(records)
    starts, end = _walk.walk_sizes(window, 0, len(window), least=LEAST)
    assert (len(starts), end) == (len(records), len(window))


def test_what_is_not_written_yet_is_not_walked() -> None:
    one = (64).to_bytes(4, "big") + MAGICS[1] + bytes(56)
    window = one * 100 + bytes(1 << 20)
    starts, end = _walk.walk_sizes(window, 0, len(window), least=LEAST)
    assert (len(starts), end) == (100, 6400)
