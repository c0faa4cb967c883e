"""States that are made in small turns are those made in one, and engines keep their order."""

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage import NewMessage, StoreConfig, open_store
from lanemq.storage._config import KvEngine
from lanemq.storage.kv._log import operation_properties
from lanemq.storage.kv.engines import _memory
from lanemq.storage.kv.engines._memory import MemoryTable
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


@pytest.mark.parametrize("step", [1, 7])
def test_many_rows_are_removed_together_and_not_one_by_one(step: int) -> None:
    """Each removal by itself moves half of all keys, and a lease may have very many."""

    class Keys(list[bytes]):
        removed = 0

        def __delitem__(self, place: object) -> None:
            self.removed += 1
            super().__delitem__(place)  # type: ignore[arg-type]

    rows = {b"%05d" % number: b"" for number in range(10_000)}
    keys = Keys(sorted(rows))
    table = MemoryTable(dict(rows), keys)
    gone = sorted(rows)[::step][:1000]
    table.write([], {**dict.fromkeys(gone), b"absent": None})
    assert keys.removed == 0
    left = sorted((key, b"") for key in rows.keys() - set(gone))
    assert list(table.items(b"", b"\xff")) == left
    table.write([], {left[0][0]: None})
    assert list(table.items(b"", b"\xff")) == left[1:]


@given(st.dictionaries(st.text(max_size=3), st.dictionaries(keys, keys, max_size=40), max_size=4))
def test_a_file_that_is_encoded_in_pieces_reads_as_a_whole(
    rows: dict[str, dict[bytes, bytes]],
) -> None:
    for piece in (1, 15, 16, 17, 10_000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_memory, "ENCODED_ROWS", piece)
            assert _memory._decode(_memory._encode(rows), Path("memory.kv")) == rows
