"""States that are made in small turns are those made in one, and engines keep their order."""

import random
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage import NewMessage, StoreConfig, open_store
from lanemq.storage._config import KvEngine
from lanemq.storage.kv import _kv
from lanemq.storage.kv._log import operation_properties
from lanemq.storage.kv.engines import _memory, _memory_table
from lanemq.storage.kv.engines._memory_table import MemoryTable
from lanemq.testkit.reading_time import slowness
from lanemq.testkit.storage.kv import hurry
from lanemq.testkit.storage.stores import HOST
from lanemq.wire.kv import Action, OpType, Step, encode_steps, kv_topic

keys = st.binary(max_size=2)
writes = st.tuples(
    st.lists(st.tuples(keys, keys), max_size=1),
    st.dictionaries(keys, st.none() | st.binary(max_size=2), max_size=30),
)


@pytest.mark.parametrize("engine", list(KvEngine))
async def test_a_redo_in_small_turns_makes_the_same_state(
    tmp_path: Path, engine: KvEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = StoreConfig(root=tmp_path, kv_engine=engine)
    rng = random.Random(7)
    hurry(monkeypatch)
    async with open_store(config) as store:
        assert store.kv is not None
        await store.kv.make("default")
        for number in range(300):
            size = rng.choice([1, 1, 1, 40])
            steps = [
                Step(b"%d" % n, Action.PUT, b"%d" % number, rng.choice([0, 0, 50]))
                for n in rng.sample(range(100), size)
            ]
            store.put(
                NewMessage(
                    topic=kv_topic("default"),
                    queue_id=0,
                    body=encode_steps(steps),
                    properties=operation_properties(OpType.BATCH),
                    born_timestamp_ms=1,
                    born_host=HOST,
                    store_host=HOST,
                )
            )
        store.commit()
        await store.kv.catch_up()
    hashes = []
    for is_hurried in (True, False):
        shutil.rmtree(tmp_path / "kv")
        if not is_hurried:
            monkeypatch.undo()
        async with open_store(config) as store:
            assert store.kv is not None
            state = store.kv.states["default"]
            assert state.meta.next == 300
            hashes.append(state.hash)
    assert hashes[0] == hashes[1]


async def test_records_of_many_partitions_are_not_applied_in_one_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond its time a turn applies none of the next partition, not even one."""
    names, tick = ["a", "b", "c", "d"], operation_properties(OpType.TICK)
    async with open_store(StoreConfig(root=tmp_path, kv_engine=KvEngine.MEMORY)) as store:
        assert store.kv is not None
        for name in names:
            await store.kv.make(name)
        hurry(monkeypatch, _kv)
        for name in names:
            store.put(
                NewMessage(
                    topic=kv_topic(name),
                    queue_id=0,
                    body=b"",
                    properties=tick,
                    born_timestamp_ms=1,
                    born_host=HOST,
                    store_host=HOST,
                )
            )
        store.commit()
        applied = []
        for _ in names:
            applied.append(sum(state.meta.next for state in store.kv.states.values()))
            store.kv._apply_pending()
        assert applied == [1, 2, 3, 4]


@given(st.lists(writes, max_size=6))
def test_a_table_in_memory_is_a_sorted_map(
    changes: list[tuple[list[tuple[bytes, bytes]], dict[bytes, bytes | None]]],
) -> None:
    table, model = MemoryTable({}), dict[bytes, bytes]()
    for drops, rows in changes:
        table.write(drops, rows)
        for begin, end in drops:
            model = {key: row for key, row in model.items() if not begin <= key < end}
        model.update({key: row for key, row in rows.items() if row is not None})
        for key, row in rows.items():
            if row is None:
                model.pop(key, None)
        assert list(table.items(b"", b"\xff" * 3)) == sorted(model.items())


@given(
    st.integers(1, 5),
    st.lists(writes, max_size=8),
    st.sets(st.integers(0, 7)),
    st.tuples(keys, keys),
)
def test_snapshots_of_a_table_in_memory_stay_as_they_were(
    chunk_rows: int,
    changes: list[tuple[list[tuple[bytes, bytes]], dict[bytes, bytes | None]]],
    taken: set[int],
    ends: tuple[bytes, bytes],
) -> None:
    """Whatever is written later, to the table or to a snapshot, and however rows are divided."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_memory_table, "CHUNK_ROWS", chunk_rows)
        table, seen = MemoryTable({b"first": b""}), []
        for number, (drops, rows) in enumerate(changes):
            if number in taken:
                view = table.snapshot()
                seen.append((view, list(view.items(b"", b"\xff" * 3))))
            table.write(drops, rows)
            found = dict(table.items(b"", b"\xff" * 3))
            part = [(key, row) for key, row in sorted(found.items()) if ends[0] <= key < ends[1]]
            assert list(table.items(*ends)) == part
            assert list(table.some_back(*ends)) == part[::-1]
            assert all(table.get(key) == found.get(key) for key in (*rows, *ends))
            assert [len(one) for one in table.chunks if len(one) > 2 * chunk_rows] == []
        for view, expected in seen:
            assert list(view.items(b"", b"\xff" * 3)) == expected
            table.write([(b"", b"\xff" * 3)], {})
            assert list(view.items(b"", b"\xff" * 3)) == expected
            view.write([], {b"other": b"1"})


def test_a_write_among_many_rows_looks_at_few() -> None:
    """Nor does a snapshot copy them: a proxy has a million in memory."""
    table = MemoryTable({b"%07d" % number: b"" for number in range(100_000)})
    batch: dict[bytes, bytes | None] = {b"%07d-" % (97 * number): b"1" for number in range(1000)}
    begun_s = time.process_time()
    for number in range(20):
        view = table.snapshot()
        table.write([], {b"%07d" % (number * 5000): b"new"})
        assert view.get(b"%07d" % (number * 5000)) == b""
    assert time.process_time() - begun_s < 0.02 * slowness()  # 9 ms each, once
    table.write([], batch)
    table.write([], dict.fromkeys(batch))
    assert sum(map(len, table.chunks)) == 100_000


@given(st.dictionaries(st.text(max_size=3), st.dictionaries(keys, keys, max_size=40), max_size=4))
def test_a_file_that_is_encoded_in_pieces_reads_as_a_whole(
    rows: dict[str, dict[bytes, bytes]],
) -> None:
    for rows_in_one in (1, 15, 16, 17, 10_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_memory_table, "CHUNK_ROWS", rows_in_one)
            chunks = {name: MemoryTable(one).chunks for name, one in rows.items()}
        assert _memory._decode(_memory._encode(chunks), Path("memory.kv")) == rows
