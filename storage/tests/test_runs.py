"""Records that lie together in the log are read together, and are the same as one by one."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lanemq.storage._layouts import BLANK_SIZE
from lanemq.storage.messages._runs import GAP_BYTES, QueueRuns, read_close
from lanemq.testkit.storage.disk import SimulatedFile, SimulatedFiles
from lanemq.testkit.storage.stores import MakeMessage, OpenSmall
from lanemq.wire import tags_code


class Log:
    """A log of numbered bytes, of which those before ``begin`` are gone."""

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self.reads = 0

    def read(self, position: int, size_bytes: int) -> bytes | None:
        self.reads += 1
        if position < self.begin or size_bytes <= 0 or position + size_bytes > 40_000:
            return None
        return bytes(number * 7 % 251 for number in range(position, position + size_bytes))


PIECES = st.lists(
    st.tuples(st.sampled_from([-90, 0, 3, 700, GAP_BYTES, GAP_BYTES + 1]), st.integers(-1, 90)),
    min_size=1,
    max_size=9,
)


def units_of(pieces: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Units from the gaps before their records and their sizes; a size of 0 is a blank unit."""
    units, end = [], 0
    for gap, size in pieces:
        position = max(end + gap, 0)
        units.append((position, BLANK_SIZE if size == 0 else size, 0))
        end = position + max(size, 0)
    return units


@given(
    pieces=PIECES,
    asked=st.lists(st.booleans(), min_size=9, max_size=9),
    count_max=st.integers(1, 9),
    bytes_max=st.integers(1, 3000),
    begin=st.integers(0, 900),
)
@example([(3, -1), (0, 2)], [True, True], 2, 2, 0)
def test_a_record_is_what_the_log_has_there(
    pieces: list[tuple[int, int]], asked: list[bool], count_max: int, bytes_max: int, begin: int
) -> None:
    units, log = units_of(pieces), Log(begin)
    runs = QueueRuns(log, units, None, count_max, bytes_max)  # type: ignore[arg-type] # reads alone
    for (position, size, _), is_asked in zip(units, asked, strict=False):
        if is_asked and size != BLANK_SIZE:
            assert runs.read(position, size) == Log(begin).read(position, size)


@given(
    pieces=PIECES,
    count_max=st.integers(0, 9),
    bytes_max=st.integers(0, 300),
    begin=st.sampled_from([0, 50, 900]),
)
def test_records_that_lie_close_are_one_read_and_any_others_are_looked_at(
    pieces: list[tuple[int, int]], count_max: int, bytes_max: int, begin: int
) -> None:
    units, log, taken = units_of(pieces), Log(begin), list[tuple[int, int]]()
    for position, size, _ in units:
        total = sum(size for _, size in taken) + size
        if taken and (len(taken) >= count_max or total > bytes_max):
            break
        taken.append((position, size))
    gaps = [after[0] - sum(before) for before, after in pairwise(taken)]
    is_close = all(0 < size < BLANK_SIZE for _, size in taken)
    is_close = is_close and all(0 <= gap <= GAP_BYTES for gap in gaps)
    records = read_close(log, units, count_max, bytes_max)  # type: ignore[arg-type] # reads alone
    one_by_one = [Log(begin).read(position, size) for position, size in taken]
    if is_close and None not in one_by_one:
        assert (records, log.reads) == (one_by_one, 1)
    else:
        assert records is None


@pytest.fixture
def log_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of reads of the log's files."""
    sizes: list[int] = []
    real = SimulatedFile.read

    def read(file: SimulatedFile, position: int, size_bytes: int) -> bytes:
        if file.path.parent.name == "commitlog":
            sizes.append(size_bytes)
        return real(file, position, size_bytes)

    monkeypatch.setattr(SimulatedFile, "read", read)
    return sizes


async def test_messages_of_a_pull_are_one_read(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles, log_reads: list[int]
) -> None:
    changes = {"commit_log_file_bytes": 1 << 16}
    async with open_small(**changes) as store:
        puts = []
        for number in range(20):
            puts.append(store.put(make_message(tags="AB"[number % 2])))
            store.put(make_message(topic="U"))
        store.commit()
    async with open_small(**changes) as store:
        log_reads.clear()
        got = store.get("T", 0, 2, max_count=8)
        assert log_reads == [puts[9].end - puts[2].log_position]
        assert got.records == [store.record_at(put.log_position) for put in puts[2:10]]
        log_reads.clear()
        got = store.get("T", 0, 0, max_count=1)
        assert log_reads == [puts[0].size_bytes]
        log_reads.clear()
        wanted = frozenset({tags_code("B")})
        got = store.get("T", 0, 0, max_count=4, tag_codes=wanted)
        assert log_reads == [puts[7].end - puts[1].log_position]
        assert got.records == [store.record_at(put.log_position) for put in puts[1:9:2]]
