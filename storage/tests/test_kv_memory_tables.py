"""Tables in memory: what their snapshots keep is known, and no write looks at each of many rows."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage.kv.engines import _memory_table
from lanemq.storage.kv.engines._memory_table import MEMORY_COSTS, MemoryTable
from lanemq.testkit.calls import calls_of_this_thread

ALL = b"", b"\xff" * 4
keys = st.binary(max_size=2)
writes = st.tuples(
    st.lists(st.tuples(keys, keys), max_size=1),
    st.dictionaries(keys, st.none() | st.binary(max_size=9), max_size=20),
)


def costs(rows: list[tuple[bytes, bytes]]) -> int:
    return sum(MEMORY_COSTS + len(key) + len(row) for key, row in rows)


@given(st.integers(1, 5), st.lists(writes, max_size=8), st.sets(st.integers(0, 7)))
def test_a_snapshot_says_what_it_keeps_and_the_table_has_no_more(
    chunk_rows: int,
    changes: list[tuple[list[tuple[bytes, bytes]], dict[bytes, bytes | None]]],
    taken: set[int],
) -> None:
    """No less than that, and no more than it has; whatever other snapshots there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_memory_table, "CHUNK_ROWS", chunk_rows)
        table, views = MemoryTable({b"first": b""}), list[MemoryTable]()
        for number, (drops, rows) in enumerate(changes):
            if number in taken:
                views.append(table.snapshot())
                assert views[-1].pinned_bytes == 0
            table.write(drops, rows)
            for view in views:
                had = list(view.items(*ALL))
                gone = [(key, row) for key, row in had if table.get(key) != row]
                assert costs(gone) <= view.pinned_bytes <= costs(had)
        assert table.pinned_bytes == 0


def test_snapshots_of_rows_that_are_all_written_again_keep_all_they_have() -> None:
    rows = {b"%04d" % number: bytes(1000) for number in range(2000)}
    table, views = MemoryTable(rows), list[MemoryTable]()
    for number in range(3):
        views.append(table.snapshot())
        table.write([], dict.fromkeys(rows, b"%d" % number * 1000))
    assert [view.pinned_bytes for view in views] == 3 * [table.size_bytes]


def test_a_snapshot_of_a_table_that_is_gone_keeps_all_of_it() -> None:
    """As of a namespace that was deleted: no table counts its rows any more."""
    table = MemoryTable({b"%04d" % number: b"v" for number in range(2000)})
    view, size_bytes = table.snapshot(), table.size_bytes
    del table
    gc.collect()
    assert view.pinned_bytes == size_bytes


def test_a_row_that_is_written_among_many_keeps_little_for_a_snapshot() -> None:
    table = MemoryTable({b"%05d" % number: bytes(1000) for number in range(10_000)})
    view = table.snapshot()
    for number in range(10):
        table.write([], {b"00001": b"%d" % number})
        table.share()  # as a flush does: its copies are not for the snapshot
    assert view.pinned_bytes < 100_000


def test_a_drop_of_very_many_rows_looks_at_chunks_and_not_at_rows() -> None:
    """A clear of 800,000 rows took 90 ms of the event loop."""
    rows = {b"e%06d" % number: b"v" for number in range(200_000)}
    table = MemoryTable(rows | {b"a": b"", b"f": b""})
    view = table.snapshot()
    with calls_of_this_thread() as calls:
        table.write([(b"e", b"f")], {})
    assert calls.count < 5_000
    assert list(table.items(*ALL)) == [(b"a", b""), (b"f", b"")]
    assert table.size_bytes == 2 * (MEMORY_COSTS + 1)
    assert view.pinned_bytes >= costs(list(rows.items()))


def test_the_memory_of_very_many_rows_is_given_back_by_the_next_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not by the one that drops them: that takes its time too."""
    monkeypatch.setattr(_memory_table, "CHUNK_ROWS", 10)
    monkeypatch.setattr(_memory_table, "RELEASED_CHUNKS", 4)
    table = MemoryTable({b"%03d" % number: b"v" for number in range(100)})
    table.write([ALL], {})
    left = [len(table._emptied)]
    for _ in range(2):
        table.write([], {})
        left.append(len(table._emptied))
    assert left == [6, 2, 0]
