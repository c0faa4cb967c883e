"""A redo of many records at once gives the rows that the records gave one by one, byte for byte."""

import shutil
import tempfile
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.storage import NewMessage, Store, StoreConfig, open_store
from lanemq.storage._config import KvEngine
from lanemq.storage.kv import KvState, Outcome, operation_properties
from lanemq.storage.kv import _redo as redo_module
from lanemq.testkit.storage.stores import HOST
from lanemq.wire.kv import (
    Action,
    LoadedEntry,
    OpType,
    Step,
    encode_drop,
    encode_load,
    encode_steps,
    kv_topic,
)

KEYS = [b"a", b"a/1", b"b", b"\xff\xff"]
VALUES = [b"", b"one", b"two"]
Operation = tuple[str, bytes]
Writer = tuple[str, int, int]

keys, values = st.sampled_from(KEYS), st.sampled_from(VALUES)
ttls_ms = st.sampled_from([0, 0, 0, 1, 50])
puts = st.builds(Step, key=keys, action=st.just(Action.PUT), value=values, ttl_ms=ttls_ms)
steps = st.builds(
    Step,
    key=keys,
    action=st.sampled_from(Action),
    value=values,
    ttl_ms=ttls_ms,
    if_version=st.sampled_from([None, None, 0, 1, 2]),
    if_value=st.sampled_from([None, None, *VALUES]),
)
loaded = st.builds(
    LoadedEntry,
    key=keys,
    value=values,
    version=st.integers(1, 9),
    create_time_ms=st.just(1),
    update_time_ms=st.just(2),
    expires_ms=st.sampled_from([0, 0, 1_000_050]),
)


def of(op_type: str, made: st.SearchStrategy[Step]) -> st.SearchStrategy[Operation]:
    return made.map(lambda step: (op_type, encode_steps([step])))


batches = st.lists(steps, min_size=1, max_size=3, unique_by=lambda step: step.key)
operations: st.SearchStrategy[Operation] = st.one_of(
    of(OpType.PUT, puts),
    of(OpType.PUT, puts),
    of(OpType.CAS, steps),
    of(OpType.DELETE, st.builds(Step, key=keys, action=st.just(Action.DELETE))),
    batches.map(lambda made: (OpType.BATCH, encode_steps(made))),
    st.lists(loaded, max_size=3).map(lambda made: (OpType.LOAD, encode_load(made))),
    st.sampled_from(
        [(OpType.TICK, b""), (OpType.CLEAR, b""), ("unknown", b""), (OpType.PUT, b"?")]
    ),
    of("identity", puts),
    st.sampled_from(["one", "two"]).map(lambda name: (OpType.DROP, encode_drop(name))),
)
numbers = st.integers(1, 12)  # of which some are retries, and some come too late
writers: st.SearchStrategy[Writer | None] = st.one_of(
    st.none(), st.tuples(st.sampled_from(["c", "c/1", "c/2", "/c"]), numbers, numbers)
)
hour_ms = 3_600_000
later_ms = st.sampled_from([0, 1, 20, 60, -20, hour_ms])
histories = st.lists(st.tuples(later_ms, operations, writers), max_size=30)
History = list[tuple[int, Operation, Writer | None]]


def config(root: Path, engine: KvEngine) -> StoreConfig:
    return StoreConfig(
        root=root,
        commit_log_file_bytes=1 << 13,
        consume_queue_file_bytes=200,
        max_hash_slots=7,
        max_index_entries=40,
        kv_engine=engine,
    )


def message(operation: Operation, writer: Writer | None) -> NewMessage:
    op_type, body = operation
    identity = ""
    if op_type == "identity":
        op_type, identity = OpType.PUT, "one"
    client, sequence, waits = writer or ("", 0, 0)
    return NewMessage(
        topic=kv_topic("default"),
        queue_id=0,
        body=body,
        properties=operation_properties(
            op_type,
            key=b"k",
            client=client,
            sequence=sequence,
            waits=waits,
            identity=identity,
        ),
        born_timestamp_ms=1,
        born_host=HOST,
        store_host=HOST,
    )


def state_of(store: Store, outcomes: list[tuple[int, Outcome]]) -> KvState:
    assert store.kv is not None
    store.kv.on_applied.append(lambda _, found: outcomes.extend(found))
    return store.kv.states["default"]


def contents(state: KvState) -> tuple[dict[bytes, bytes], str]:
    return dict(state.table.items(b"", b"\xff\xff")), state.hash


async def one_by_one(
    given_config: StoreConfig, history: History
) -> tuple[tuple[dict[bytes, bytes], str], list[tuple[int, Outcome]]]:
    now_ms, outcomes = 1_000_000, list[tuple[int, Outcome]]()
    async with open_store(given_config, clock_ms=lambda: now_ms) as store:
        assert store.kv is not None
        await store.kv.make("default")
        state = state_of(store, outcomes)
        for step_ms, operation, writer in history:
            now_ms += step_ms
            store.put(message(operation, writer))
            store.commit()
        with trio.fail_after(60):  # a commit applies what fits a turn
            while state.meta.next < len(history):
                await trio.lowlevel.checkpoint()
        return contents(state), outcomes


@pytest.mark.slow
@pytest.mark.parametrize("engine", list(KvEngine))
@given(history=histories, slice_records=st.sampled_from([1, 3, 7, 256]))
@settings(max_examples=40)
def test_a_redo_gives_what_the_records_gave_one_by_one(
    engine: KvEngine, history: History, slice_records: int
) -> None:
    """Rows and hash after the state was lost, however many records are applied together."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        root = Path(directory)
        given_config = config(root, engine)
        patch.setattr(redo_module, "SLICE", slice_records)

        async def both() -> None:
            expected, outcomes = await one_by_one(given_config, history)
            assert [position for position, _ in outcomes] == list(range(len(history)))
            shutil.rmtree(root / "kv")
            async with open_store(given_config) as store:
                assert store.kv is not None
                if history:
                    assert contents(store.kv.states["default"]) == expected

        trio.run(both)
