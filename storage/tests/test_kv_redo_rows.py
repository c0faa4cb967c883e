"""A redo of records in batches makes the rows that applying them one by one makes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.storage.kv import LogRecord
from lanemq.storage.kv import _history as history_module
from lanemq.storage.kv import _recent as recent_module
from lanemq.storage.kv import _sessions as sessions_module
from lanemq.storage.kv._entries import Entries
from lanemq.storage.kv._heads import LARGE_BYTES, second_row
from lanemq.storage.kv._sessions import RESULTS_MAX, Session
from lanemq.storage.kv._state import State
from lanemq.storage.kv.engines._memory_table import MemoryTable
from lanemq.storage.kv.engines._rows import ENTRY, HEADS, SESSION, decode_meta, row_hash
from lanemq.wire.kv import (
    Action,
    LoadedEntry,
    OpType,
    Step,
    StepResult,
    WriteAnswer,
    encode_answer,
    encode_done,
    encode_load,
    encode_steps,
)

HOUR_MS = 3_600_000
keys = st.sampled_from([b"a", b"b", b"c", b"a/1", b"\xff"])
values = st.binary(max_size=4) | st.sampled_from([bytes(5000), b"x" * 6000])
ttls_ms = st.sampled_from([0, 0, 0, 3, 50])
plain = st.builds(Step, key=keys, action=st.just(Action.PUT), value=values)
steps = st.builds(
    Step,
    key=keys,
    action=st.sampled_from(Action),
    value=values,
    ttl_ms=ttls_ms,
    if_version=st.sampled_from([None, None, 0, 1, 2]),
)
entries = st.builds(
    LoadedEntry,
    key=keys,
    value=values,
    version=st.integers(1, 9),
    create_time_ms=st.just(1),
    update_time_ms=st.just(2),
    expires_ms=st.sampled_from([0, 1040]),
)
Operation = tuple[str, bytes]


def plainly(step: Step) -> Operation:
    return OpType.PUT, encode_steps([step])


operations: st.SearchStrategy[Operation] = st.one_of(
    *[plain.map(plainly)] * 6,
    steps.map(plainly),
    st.lists(steps, min_size=2, max_size=3, unique_by=lambda step: step.key).map(
        lambda made: (OpType.BATCH, encode_steps(made))
    ),
    st.lists(entries, max_size=3).map(lambda made: (OpType.LOAD, encode_load(made))),
    st.sampled_from([(OpType.CLEAR, b""), (OpType.TICK, b""), (OpType.PUT, b"?"), ("", b"")]),
)
numbers = st.integers(0, 4)
"""The distance of a writer's number from its last one, or from the one that it waits for."""
records = st.tuples(
    st.sampled_from([0, 0, 0, 1, 5, -5, 40, HOUR_MS]),
    operations,
    st.sampled_from(["", "w", "w", "x"]),
    numbers,
    numbers,
)
Given = list[tuple[int, Operation, str, int, int]]


def records_of(given_records: Given, *, bounds_at: int = 0) -> list[LogRecord]:
    made, time_ms, last = [], 1000, dict[str, int]()
    for position, (later_ms, (op_type, body), client, step, before) in enumerate(given_records):
        time_ms += later_ms
        sequence = last[client] = max(1, last.get(client, 0) + (step or -1))
        waits = max(0, sequence + 1 - before)
        bounds = position >= bounds_at
        made.append(
            LogRecord(position, time_ms, op_type, body, client, sequence, waits, bounds=bounds)
        )
    return made


def put_the_long_way(entries: Entries, key: bytes, value: bytes) -> int:
    return entries.put(Step(key, Action.PUT, value), entries.live(key), 0)


@given(
    given_records=st.lists(records, max_size=60),
    batch_records=st.sampled_from([1, 2, 7, 1000]),
    recent_bytes=st.sampled_from([0, 800, 1 << 20]),
    changes_max=st.sampled_from([2, 10, 1000]),
    bounds_at=st.integers(0, 60),
    change_bytes=st.sampled_from([200, 1000, 1 << 20]),
    results_bytes=st.sampled_from([20, 60, 1 << 20]),
)
@settings(max_examples=300)
def test_a_redo_in_batches_makes_the_rows_of_one_by_one(
    given_records: Given,
    batch_records: int,
    recent_bytes: int,
    changes_max: int,
    bounds_at: int,
    change_bytes: int,
    results_bytes: int,
) -> None:
    made = records_of(given_records, bounds_at=bounds_at)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent_module, "RECENT_BYTES", recent_bytes)
        patch.setattr(history_module, "CHANGES_MAX", changes_max)
        patch.setattr(history_module, "CHANGES_SLICE", 3)
        patch.setattr(history_module, "CHANGE_BYTES_MAX", change_bytes)
        patch.setattr(history_module, "BYTES_SLICE", 100)
        patch.setattr(sessions_module, "RESULTS_BYTES_MAX", results_bytes)
        expected, found = MemoryTable({}), MemoryTable({})
        one_by_one, redone = State(expected), State(found)
        with pytest.MonkeyPatch.context() as slow:
            slow.setattr(Entries, "put_for_ever", put_the_long_way)
            for record in made:
                one_by_one.apply(record)
                one_by_one.write()
        redone.remember(rows=True)
        for begin in range(0, len(made), batch_records):
            redone.redo(made[begin : begin + batch_records])
            redone.write()
    assert rows_of(found) == rows_of(expected)
    assert redone.hash == one_by_one.hash
    if made:
        check_sums(found)


def rows_of(table: MemoryTable) -> dict[bytes, bytes]:
    return dict(table.items(b"", b"\xff"))


def check_sums(table: MemoryTable) -> None:
    """The hash is made of the sum of the hashes of the rows that there are."""
    meta = decode_meta(table.get(b"m"))
    rows = rows_of(table).items()
    total = sum(row_hash(key[1:], row) for key, row in rows if key.startswith(ENTRY))
    assert total % (1 << 256) == int.from_bytes(meta.entry_sum, "big")
    entries = [(key[1:], row) for key, row in rows if key.startswith(ENTRY)]
    seconds = {
        HEADS + key: second_row(row, row_hash(key, row))
        for key, row in entries
        if len(row) > LARGE_BYTES
    }
    assert {key: row for key, row in rows if key.startswith(HEADS)} == seconds
    total = sum(row_hash(key, row) for key, row in rows if key.startswith(SESSION))
    sums = sum(int.from_bytes(one, "big") for one in meta.session_sums)
    assert total % (1 << 256) == sums % (1 << 256)


def no_room(*_: object) -> None:
    raise OSError("no room")


def test_rows_of_a_batch_that_was_not_written_are_not_remembered() -> None:
    made = records_of(
        [(1, plainly(Step(b"k", Action.PUT, b"%d" % n)), "w", 1, 1) for n in range(9)]
    )
    table, expected = MemoryTable({}), MemoryTable({})
    state, one_by_one = State(table), State(expected)
    for record in made:
        one_by_one.apply(record)
    one_by_one.write()
    state.remember(rows=True)
    for batch in (made[:3], made[3:6], made[6:]):
        state.redo(batch)
        with pytest.MonkeyPatch.context() as full:
            full.setattr(MemoryTable, "write", no_room)
            with pytest.raises(OSError, match="no room"):
                state.write()
        state.redo(batch)
        state.write()
    assert rows_of(table) == rows_of(expected)


@given(position=st.integers(0, 1 << 62), version=st.integers(1, 1 << 62))
def test_the_answer_to_a_put_is_encoded_as_any_other(position: int, version: int) -> None:
    answer = WriteAnswer(True, position, (StepResult(version),))
    assert encode_done(position, version) == encode_answer(answer)


@given(writes=st.lists(st.tuples(st.integers(1, 400), st.integers(0, 400)), max_size=40))
def test_a_session_keeps_the_results_that_are_waited_for(writes: list[tuple[int, int]]) -> None:
    session, kept, floor = Session(results=[]), dict[int, bytes](), 0
    for sequence, waits in writes:
        if sequence in kept or sequence <= floor:
            continue
        session.add(sequence, b"%d" % sequence, waits=waits, is_bounded=True)
        kept = {one: result for one, result in kept.items() if one >= waits}
        kept[sequence] = b"%d" % sequence
        floor = max(floor, min(waits, sequence) - 1)
        assert session.results == sorted(kept.items())
        assert session.floor == floor
        assert len(kept) <= RESULTS_MAX
