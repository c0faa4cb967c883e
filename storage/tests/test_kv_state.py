"""The state machine of a namespace, on both engines, against a dict."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.kv import _expiry, _history
from lanemq.storage.kv._log import operation_properties, operation_record
from lanemq.storage.kv._outcomes import LogRecord, Outcome, Status
from lanemq.storage.kv._reads import read_changes, read_entry, read_page, under_prefix
from lanemq.storage.kv._sessions import GENERATION_MS, RESULTS_MAX
from lanemq.storage.kv._state import State
from lanemq.storage.kv.engines import _rocks, _rocks_view
from lanemq.storage.kv.engines._engine import Batch, Engine
from lanemq.storage.kv.engines._memory import MemoryEngine
from lanemq.storage.kv.engines._rocks import RocksEngine
from lanemq.storage.kv.engines._rows import (
    CHANGE,
    ENTRY,
    EXPIRY,
    META,
    SESSION,
    after_prefix,
    change_key,
    row_hash,
)
from lanemq.wire.kv import (
    Action,
    Change,
    ChangeKind,
    Compare,
    LoadedEntry,
    Operation,
    OpType,
    Step,
    StepResult,
    Txn,
    WriteAnswer,
    encode_compact,
    encode_load,
    encode_steps,
    encode_txn,
)

KEYS = [b"a", b"a/1", b"a/2", b"b", b"\xff", b"\xff\xff"]
VALUES = [b"", b"one", b"two"]


def open_memory(directory: Path) -> Engine:
    return MemoryEngine(RealFiles(), directory)


ENGINES = pytest.mark.parametrize("open_engine", [open_memory, RocksEngine])


@contextmanager
def new_state(open_engine: Callable[[Path], Engine]) -> Iterator[State]:
    with tempfile.TemporaryDirectory() as directory:
        engine = open_engine(Path(directory))
        yield State(engine.table("default"))
        engine.close()


class Records:
    """Makes records of a log, one after another."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.position = 0
        self.time_ms = 1_000_000

    def do(self, op_type: str, *steps: Step, **writer: object) -> Outcome:
        outcome = self.state.apply(self.record(op_type, encode_steps(steps), **writer))
        self.state.write()
        return outcome

    def record(self, op_type: str, body: bytes, **writer: object) -> LogRecord:
        properties = operation_properties(op_type, **writer)  # type: ignore[arg-type]
        if op_type in (OpType.TICK, OpType.CLEAR):
            body = b""
        record = operation_record(self.position, self.time_ms, body, properties)
        self.position += 1
        return record

    def put(self, key: bytes, value: bytes, **writer: object) -> Outcome:
        return self.do(OpType.PUT, Step(key, Action.PUT, value), **writer)


def rows_of(state: State) -> dict[bytes, bytes]:
    return dict(state.table.items(b"", b"\xff\xff"))


# Against a model


class Model:
    """The contract as a model: the entries of a namespace as a dict."""

    def __init__(self) -> None:
        self.entries: dict[bytes, tuple[bytes, int, int]] = {}  # value, version, expires
        self.clock_ms = 0

    def apply(self, time_ms: int, steps: list[Step]) -> bool:
        self.clock_ms = max(self.clock_ms, time_ms)
        for key in [k for k, (_, _, at) in self.entries.items() if 0 < at <= self.clock_ms]:
            del self.entries[key]
        for step in steps:
            value, version, _ = self.entries.get(step.key, (None, 0, 0))
            if step.if_version is not None and step.if_version != version:
                return False
            if step.if_value is not None and step.if_value != value:
                return False
        for step in steps:
            _, version, _ = self.entries.get(step.key, (None, 0, 0))
            if step.action is Action.PUT:
                at = self.clock_ms + step.ttl_ms if step.ttl_ms else 0
                self.entries[step.key] = (step.value, version + 1, at)
            elif step.action is Action.DELETE:
                self.entries.pop(step.key, None)
        return True


steps_of_a_batch = st.lists(
    st.builds(
        Step,
        key=st.sampled_from(KEYS),
        action=st.sampled_from(Action),
        value=st.sampled_from(VALUES),
        ttl_ms=st.sampled_from([0, 0, 1, 50]),
        if_version=st.sampled_from([None, None, None, 0, 1, 2]),
        if_value=st.sampled_from([None, None, None, *VALUES]),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda step: step.key,
)
histories = st.lists(st.tuples(st.integers(-20, 60), steps_of_a_batch), max_size=25)


@pytest.mark.parametrize(
    "open_engine", [open_memory, pytest.param(RocksEngine, marks=pytest.mark.slow)]
)
@given(history=histories, batches=st.data())
@settings(max_examples=15)
def test_every_history_gives_what_a_dict_gives(
    open_engine: Callable[[Path], Engine],
    history: list[tuple[int, list[Step]]],
    batches: st.DataObject,
) -> None:
    model = Model()
    with new_state(open_engine) as state:
        records = Records(state)
        for later_ms, steps in history:
            records.time_ms += later_ms  # which may go back: the log's time does not
            outcome = state.apply(records.record(OpType.BATCH, encode_steps(steps)))
            assert outcome.status is Status.APPLIED
            assert outcome.answer.done == model.apply(records.time_ms, steps)
            if batches.draw(st.booleans()):
                state.write()
                entries = read_page(state, b"", cursor=None, limit=100).entries
                found = {one.key: (one.value, one.version, one.expires_ms) for one in entries}
                assert found == model.entries
                assert [one.key for one in entries] == sorted(found)


@pytest.mark.slow
@given(history=histories, cuts=st.sets(st.integers(0, 24)))
@settings(max_examples=15)
def test_the_same_log_gives_the_same_rows_on_both_engines_however_it_is_cut_into_batches(
    history: list[tuple[int, list[Step]]], cuts: set[int]
) -> None:
    with new_state(open_memory) as one, new_state(RocksEngine) as other:
        records = Records(one)
        made = []
        for number, (later_ms, steps) in enumerate(history):
            records.time_ms += later_ms
            writer = {"client": f"c{number % 2}", "sequence": number, "waits": max(0, number - 3)}
            made.append(records.record(OpType.BATCH, encode_steps(steps), **writer))
        outcomes = [one.apply(record) for record in made]
        one.write()
        for number, record in enumerate(made):
            assert other.apply(record) == outcomes[number]
            if number in cuts:
                other.write()
        other.write()
        assert rows_of(one) == rows_of(other)
        assert one.hash == other.hash


@pytest.mark.slow
@given(history=histories, at=st.integers(0, 25))
@settings(max_examples=15)
def test_a_redo_from_any_prefix_gives_the_same_rows(
    history: list[tuple[int, list[Step]]], at: int
) -> None:
    with new_state(open_memory) as state, tempfile.TemporaryDirectory() as directory:
        records = Records(state)
        made = [records.record(OpType.BATCH, encode_steps(steps)) for _, steps in history]
        for record in made:
            state.apply(record)
        state.write()
        engine = RocksEngine(Path(directory))
        early = State(engine.table("default"))
        for record in made[:at]:
            early.apply(record)
        early.write()
        engine.close()
        engine = RocksEngine(Path(directory))
        late = State(engine.table("default"))
        assert late.meta.next == min(at, len(made))
        for record in made[late.meta.next :]:
            late.apply(record)
        late.write()
        assert rows_of(late) == rows_of(state)
        engine.close()


@given(history=histories)
@settings(max_examples=30)
def test_the_sums_behind_the_hash_are_those_of_the_rows(
    history: list[tuple[int, list[Step]]],
) -> None:
    with new_state(open_memory) as state:
        records = Records(state)
        for number, (later_ms, steps) in enumerate(history):
            records.time_ms += later_ms
            records.do(OpType.BATCH, *steps, client="c", sequence=number + 1, waits=number)
        entries = sum(row_hash(key[1:], row) for key, row in state.table.items(ENTRY, b"f"))
        assert entries % (1 << 256) == int.from_bytes(state.meta.entry_sum, "big")
        sessions = sum(
            row_hash(key, row) for key, row in state.table.items(SESSION, after_prefix(SESSION))
        )
        assert sessions % (1 << 256) == int.from_bytes(state.meta.session_sums[0], "big")
        assert state.meta.entries == sum(1 for _ in state.table.items(ENTRY, b"f"))


# Promises of the contract, one by one


@pytest.fixture
def records() -> Iterator[Records]:
    with new_state(open_memory) as state:
        yield Records(state)


def test_versions_of_a_log_of_an_earlier_version_begin_anew_after_a_delete(
    records: Records,
) -> None:
    assert records.put(b"k", b"1").answer.results == (StepResult(1),)
    assert records.put(b"k", b"2").answer.results == (StepResult(2),)
    deleted = records.do(OpType.DELETE, Step(b"k", Action.DELETE))
    assert deleted.answer.results == (StepResult(2),)
    again = records.do(OpType.DELETE, Step(b"k", Action.DELETE))
    assert (again.answer.done, again.answer.results) == (True, (StepResult(0),))
    assert records.put(b"k", b"3").answer.results == (StepResult(1),)


def test_an_entry_says_when_and_where_it_was_made_and_changed(records: Records) -> None:
    records.put(b"other", b"")
    records.put(b"k", b"1")
    records.time_ms += 5
    records.do(OpType.PUT, Step(b"k", Action.PUT, b"2", ttl_ms=100))
    entry = read_entry(records.state, b"k")
    assert entry is not None
    assert (entry.value, entry.version, entry.modified) == (b"2", 2, 2)
    assert (entry.create_time_ms, entry.update_time_ms) == (1_000_000, 1_000_005)
    assert entry.expires_ms == 1_000_105


def test_a_condition_that_does_not_hold_is_answered_with_what_is_there(records: Records) -> None:
    records.put(b"k", b"1")
    outcome = records.do(OpType.CAS, Step(b"k", Action.PUT, b"2", if_version=7))
    assert not outcome.answer.done
    assert outcome.answer.results == (StepResult(1, holds=False),)
    assert outcome.answer.value == b"1"
    absent = records.do(OpType.CAS, Step(b"no", Action.PUT, b"2", if_value=b"x"))
    assert (absent.answer.done, absent.answer.results) == (False, (StepResult(0, holds=False),))


def test_a_batch_is_done_as_a_whole_or_not_at_all(records: Records) -> None:
    records.put(b"a", b"1")
    steps = Step(b"b", Action.PUT, b"2"), Step(b"a", Action.CHECK, if_version=2)
    refused = records.do(OpType.BATCH, *steps)
    assert isinstance(refused.answer, WriteAnswer)
    assert not refused.answer.done
    assert [result.holds for result in refused.answer.results] == [True, False]
    assert read_entry(records.state, b"b") is None
    records.put(b"a", b"1")
    assert records.do(OpType.BATCH, *steps).answer.done
    assert read_entry(records.state, b"b") is not None


@ENGINES
def test_an_entry_with_a_ttl_goes_by_the_time_of_the_log_alone(
    open_engine: Callable[[Path], Engine],
) -> None:
    with new_state(open_engine) as state:
        records = Records(state)
        records.do(OpType.PUT, Step(b"k", Action.PUT, b"v", ttl_ms=100))
        records.time_ms += 99
        records.do(OpType.TICK)
        assert read_entry(state, b"k") is not None
        records.time_ms -= 50_000  # a clock set back
        records.do(OpType.TICK)
        assert read_entry(state, b"k") is not None
        records.time_ms += 50_001
        records.do(OpType.TICK)
        assert read_entry(state, b"k") is None
        assert (state.meta.entries, state.meta.next_expiry_ms) == (0, 0)
        assert records.put(b"k", b"new").answer.results == (StepResult(1),)


def test_more_entries_than_one_record_removes_are_gone_for_every_reader(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_expiry, "EXPIRED_MAX", 2)
    for number in range(5):
        records.do(OpType.PUT, Step(b"k%d" % number, Action.PUT, b"", ttl_ms=10))
    records.time_ms += 10
    records.do(OpType.TICK)
    assert read_page(records.state, b"", cursor=None, limit=10).entries == []
    assert records.state.meta.entries == 3
    records.do(OpType.TICK)
    records.do(OpType.TICK)
    assert records.state.meta.entries == 0


def test_a_retry_gets_the_first_result_and_changes_nothing(records: Records) -> None:
    writer = {"client": "c", "sequence": 1, "waits": 1}
    first = records.put(b"k", b"1", **writer)
    records.put(b"k", b"2")
    again = records.put(b"k", b"1", **writer)
    assert again.status is Status.REPEATED
    assert again.answer == first.answer
    entry = read_entry(records.state, b"k")
    assert entry is not None
    assert entry.value == b"2"


def test_a_refused_condition_is_remembered_too(records: Records) -> None:
    step = Step(b"k", Action.PUT, b"1", if_version=5)
    writer = {"client": "c", "sequence": 1, "waits": 1}
    assert not records.do(OpType.CAS, step, **writer).answer.done
    for _ in range(5):
        records.put(b"k", b"x")
    assert not records.do(OpType.CAS, step, **writer).answer.done


GET, CHECK = Operation.get(b"k"), Step(b"k", Action.CHECK, if_version=0)
KINDS: list[tuple[str, bytes]] = [
    (OpType.PUT, encode_steps([Step(b"k", Action.PUT, b"1")])),
    (OpType.BATCH, encode_steps([Step(b"k", Action.DELETE), Step(b"l", Action.DELETE)])),
    (OpType.BATCH, encode_steps([CHECK, Step(b"l", Action.PUT), Step(b"m", Action.PUT)])),
    (OpType.TXN, encode_txn(Txn([], [GET], []))),
    (OpType.TXN, encode_txn(Txn([Compare.missing(b"k")], [GET, GET], [GET] * 3))),
    (OpType.TXN, encode_txn(Txn([Compare.exists(b"k")], [GET] * 4, [GET] * 2))),
    (OpType.LOAD, encode_load([])),
    (OpType.COMPACT, encode_compact(0)),
]


@pytest.mark.parametrize("first", range(len(KINDS)))
@pytest.mark.parametrize("second", range(len(KINDS)))
def test_a_number_is_one_operations_and_no_others(
    records: Records, first: int, second: int
) -> None:
    """As far as the result tells what it is of: a load and a compact have the same."""
    writer = {"client": "c", "sequence": 1, "waits": 1}
    (one_type, one_body), (other_type, other_body) = KINDS[first], KINDS[second]
    done = records.state.apply(records.record(one_type, one_body, **writer))
    assert done.status is Status.APPLIED
    records.state.write()
    before = rows_of(records.state)
    again = records.state.apply(records.record(other_type, other_body, **writer))
    records.state.write()
    is_same = first == second or {one_type, other_type} == {
        OpType.LOAD,
        OpType.COMPACT,
    }
    assert again.status is (Status.REPEATED if is_same else Status.TAKEN)
    if is_same:
        assert again.answer == done.answer
    else:
        assert not again.answer.done
    after = rows_of(records.state)
    assert {key for key in after if after[key] != before.get(key)} == {META}


def test_a_body_that_was_never_done_repeats_nothing(records: Records) -> None:
    writer = {"client": "c", "sequence": 1, "waits": 1}
    records.put(b"k", b"", **writer)
    for op_type in (OpType.BATCH, OpType.TXN):
        record = records.record(op_type, b"?", **writer)
        assert records.state.apply(record).status is Status.TAKEN


def test_what_a_writer_waits_for_no_more_is_forgotten_and_refused(records: Records) -> None:
    for sequence in range(1, 6):
        records.put(b"k", b"", client="c", sequence=sequence, waits=sequence)
    assert records.put(b"k", b"", client="c", sequence=2, waits=5).status is Status.FORGOTTEN
    entry = read_entry(records.state, b"k")
    assert entry is not None
    assert entry.version == 5


def test_a_writer_of_an_account_gets_nothing_of_another_with_its_id(records: Records) -> None:
    first = records.put(b"k", b"", client="c/1", sequence=1, waits=1)
    for client in ("c/2", "c", "/c"):
        other = records.put(b"k", b"", client=client, sequence=1, waits=1)
        assert (other.status, other.answer.position) == (Status.APPLIED, records.position - 1)
    again = records.put(b"k", b"", client="c/1", sequence=1, waits=1)
    assert (again.status, again.answer) == (Status.REPEATED, first.answer)


@pytest.mark.parametrize("later_ms", [0, GENERATION_MS])
def test_what_a_writer_did_without_an_account_is_not_done_again_with_one(
    records: Records, later_ms: int
) -> None:
    for sequence in range(1, 4):
        records.put(b"k", b"", client="c", sequence=sequence, waits=1)
    records.time_ms += later_ms
    for client in ("c/1", "c/2"):
        for sequence in range(1, 4):
            again = records.put(b"k", b"", client=client, sequence=sequence, waits=1)
            assert again.status is Status.FORGOTTEN
        # What the other does from now on is nothing to it.
        records.put(b"k", b"", client="c", sequence=9, waits=1)
        for sequence in range(4, 6):
            new = records.put(b"k", b"", client=client, sequence=sequence, waits=1)
            assert new.status is (Status.APPLIED if client == "c/1" else Status.FORGOTTEN)
    assert records.put(b"k", b"", client="c", sequence=1, waits=1).status is Status.REPEATED


def test_a_session_keeps_only_so_many_results(records: Records) -> None:
    for sequence in range(1, RESULTS_MAX + 3):
        records.put(b"k", b"", client="c", sequence=sequence, waits=1)
    assert records.put(b"k", b"", client="c", sequence=2, waits=1).status is Status.FORGOTTEN
    assert records.put(b"k", b"", client="c", sequence=3, waits=1).status is Status.REPEATED


def test_a_session_lives_for_a_generation_at_least_and_two_at_most(records: Records) -> None:
    records.put(b"k", b"", client="c", sequence=1, waits=1)
    records.time_ms += GENERATION_MS - 1
    records.do(OpType.TICK)
    assert records.put(b"k", b"", client="c", sequence=1, waits=1).status is Status.REPEATED
    records.put(b"k", b"", client="c", sequence=2, waits=1)
    records.time_ms += GENERATION_MS
    assert records.put(b"k", b"", client="c", sequence=1, waits=1).status is Status.REPEATED
    for _ in range(2):
        records.time_ms += GENERATION_MS
        records.do(OpType.TICK)
    assert records.put(b"k", b"", client="c", sequence=1, waits=1).status is Status.APPLIED


@ENGINES
def test_a_clear_empties_everything_a_reader_can_see(
    open_engine: Callable[[Path], Engine],
) -> None:
    with new_state(open_engine) as state:
        records = Records(state)
        records.do(OpType.PUT, Step(b"k", Action.PUT, b"v", ttl_ms=10))
        records.do(OpType.CLEAR)
        assert read_page(state, b"", cursor=None, limit=10).entries == []
        assert (state.meta.entries, state.meta.entry_bytes, state.meta.changes) == (0, 0, 0)
        assert changes(state, position=0) is None
        assert changes(state, position=2) == []


def test_loads_of_many_entries_leave_no_more_changes_than_other_records_do(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_history, "CHANGES_MAX", 10)
    monkeypatch.setattr(_history, "CHANGES_SLICE", 2)
    for part in range(3):
        entries = [LoadedEntry(b"%d/%02d" % (part, one), b"v", 1, 1, 1) for one in range(30)]
        records.state.apply(records.record(OpType.LOAD, encode_load(entries)))
        records.state.write()
        assert records.state.meta.changes <= 12
    for number in range(40):
        records.put(b"k%d" % number, b"v")
    kept = list(records.state.table.items(CHANGE, after_prefix(CHANGE)))
    assert len(kept) == records.state.meta.changes
    assert min(kept)[0] >= change_key(records.state.meta.changes_from - 1, 0)


def test_what_was_pruned_or_has_expired_is_not_looked_at_again(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB passes over deleted rows one by one, for as long as it has not compacted them."""
    monkeypatch.setattr(_history, "CHANGES_MAX", 10)
    monkeypatch.setattr(_history, "CHANGES_SLICE", 5)
    table = records.state.table
    begins: list[bytes] = []
    items = table.items

    def noted(begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        begins.append(begin)
        return items(begin, end)

    monkeypatch.setattr(table, "items", noted)
    for number in range(40):
        records.time_ms += 10
        records.do(OpType.PUT, Step(b"k%d" % number, Action.PUT, b"v", ttl_ms=25))
    for kind in (CHANGE, EXPIRY):
        looked = [begin for begin in begins if begin.startswith(kind)]
        assert len(looked) > 3
        assert looked == sorted(looked)
        assert len(set(looked)) > len(looked) // 3, "it goes on where it was"
        assert looked[-1][1:9] > bytes(8), "and not from the begin"
    assert records.state.meta.entries <= 4


def test_entries_of_a_snapshot_are_taken_over_as_they_are(records: Records) -> None:
    loaded = [LoadedEntry(b"k", b"v", 7, 11, 12, 0), LoadedEntry(b"old", b"v", 1, 1, 1, 5)]
    body = encode_load(loaded)
    assert records.state.apply(records.record(OpType.LOAD, body)).answer.done
    records.state.write()
    (entry,) = read_page(records.state, b"", cursor=None, limit=10).entries
    assert (entry.key, entry.version, entry.create_time_ms) == (b"k", 7, 11)
    assert records.put(b"k", b"w").answer.results == (StepResult(8),)


@pytest.mark.parametrize(
    ("op_type", "body"),
    [
        ("put", b"no msgpack"),
        ("put", encode_steps([])),
        ("put", encode_steps([Step(b"", Action.PUT)])),
        ("put", encode_steps([Step(b"k", Action.PUT, ttl_ms=-(1 << 53))])),
        ("batch", encode_steps([Step(b"k", Action.PUT), Step(b"k", Action.DELETE)])),
        ("load", b"\x91\x01"),
        ("dance", b""),
        ("", b""),
    ],
)
def test_what_is_no_operation_changes_nothing(records: Records, op_type: str, body: bytes) -> None:
    records.put(b"k", b"v")
    before = records.state.hash
    outcome = records.state.apply(records.record(op_type, body))
    assert outcome.status is Status.IGNORED
    records.state.write()
    assert (records.state.hash, records.state.meta.next) == (before, 2)


def test_a_lost_state_takes_nothing_but_a_clear(records: Records) -> None:
    records.state.mark_lost(100)
    records.position = 100
    assert records.put(b"k", b"v").status is Status.LOST
    assert read_entry(records.state, b"k") is None
    assert records.do(OpType.CLEAR).status is Status.APPLIED
    assert records.put(b"k", b"v").status is Status.APPLIED


# Reads


class ListLog:
    """A log of records in memory, of which the first may be gone."""

    def __init__(self, *records: LogRecord, begin: int = 0) -> None:
        self.records = list(records)
        self.begin = begin

    def bounds(self) -> tuple[int, int]:
        return self.begin, len(self.records)

    def read(self, position: int, count: int) -> list[LogRecord]:
        return self.records[position : position + count]

    def time_of(self, position: int) -> int:
        return self.records[position].time_ms

    def place(self, position: int) -> int | None:
        return position if position < len(self.records) else None


def changes(
    state: State, log: ListLog | None = None, *, position: int = 0, prefix: bytes = b""
) -> list[Change] | None:
    found, index = [], 0
    while True:
        page = read_changes(
            state, log or ListLog(), under_prefix(prefix), position=position, index=index, limit=2
        )
        if page is None:
            return None
        found += page.changes
        if (page.next_position, page.next_index) == (max(position, state.meta.next), 0):
            return found
        position, index = page.next_position, page.next_index


def test_changes_come_in_the_order_of_the_log_with_the_values_of_their_time() -> None:
    with new_state(open_memory) as state:
        records = Records(state)
        bodies = [
            (OpType.PUT, [Step(b"a", Action.PUT, b"1")]),
            (OpType.BATCH, [Step(b"a", Action.PUT, b"2"), Step(b"b", Action.PUT, b"3", 10)]),
            (OpType.DELETE, [Step(b"a", Action.DELETE)]),
            (OpType.CAS, [Step(b"a", Action.PUT, b"4", if_version=9)]),
        ]
        made = [records.record(op_type, encode_steps(steps)) for op_type, steps in bodies]
        records.time_ms += 10
        made.append(records.record(OpType.TICK, b""))
        for record in made:
            state.apply(record)
        state.write()
        log = ListLog(*made)
        expected = [
            Change(0, 0, ChangeKind.PUT, b"a", 1, b"1"),
            Change(1, 0, ChangeKind.PUT, b"a", 2, b"2"),
            Change(1, 1, ChangeKind.PUT, b"b", 1, b"3"),
            Change(2, 0, ChangeKind.DELETE, b"a", 2),
            Change(4, 0, ChangeKind.EXPIRE, b"b", 1),
        ]
        assert changes(state, log) == expected
        assert changes(state, log, position=2) == expected[3:]
        assert changes(state, log, prefix=b"b") == [expected[2], expected[4]]
        # Values that are in neither the state nor the log are not left out.
        assert changes(state, ListLog(*made, begin=3)) is None
        assert changes(state, ListLog(*made, begin=3), position=2) == expected[3:]


@ENGINES
def test_a_watcher_that_is_too_far_behind_is_told_so(
    open_engine: Callable[[Path], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_history, "CHANGES_MAX", 10)
    monkeypatch.setattr(_history, "CHANGES_SLICE", 3)
    with new_state(open_engine) as state:
        records = Records(state)
        for number in range(40):
            records.put(b"k%d" % number, b"v")
        assert state.meta.changes <= 13
        assert changes(state, position=0) is None
        recent = changes(state, position=30)
        assert recent is not None
        assert [change.key for change in recent] == [b"k%d" % n for n in range(30, 40)]


@ENGINES
def test_pages_go_on_where_the_last_one_ended(open_engine: Callable[[Path], Engine]) -> None:
    with new_state(open_engine) as state:
        records = Records(state)
        for key in KEYS:
            records.put(key, b"v")
        found, cursor = [], None
        while True:
            page = read_page(state, b"a", cursor=cursor, limit=2, keys_only=True)
            found += page.entries
            cursor = page.cursor
            if cursor is None:
                break
        assert [(entry.key, entry.value) for entry in found] == [
            (b"a", b""),
            (b"a/1", b""),
            (b"a/2", b""),
        ]
        last = read_page(state, b"\xff", cursor=None, limit=10).entries
        assert [entry.key for entry in last] == [b"\xff", b"\xff\xff"]


@pytest.mark.parametrize("of_snapshot", [False, True])
def test_pages_go_on_over_many_keys_that_are_gone(
    monkeypatch: pytest.MonkeyPatch, of_snapshot: bool
) -> None:
    monkeypatch.setattr(_rocks, "SKIPPED_MAX", 10)
    monkeypatch.setattr(_rocks, "LOOKS_MAX", 20)
    monkeypatch.setattr(_rocks_view, "PASSED_MAX", 10)
    monkeypatch.setattr(_rocks_view, "CHANGES_LOOKED_AT_MAX", 50)
    with new_state(RocksEngine) as state:
        records = Records(state)
        keys = [b"k%04d" % number for number in range(400)]
        kept = {keys[0], keys[200], keys[399]}
        for key in keys if not of_snapshot else sorted(kept):
            records.put(key, b"v")
        view = state.freeze() if of_snapshot else state
        if of_snapshot:  # made and deleted since, so they are not entries of that moment
            for key in keys:
                records.put(key, b"new")
        for key in keys:
            if of_snapshot or key not in kept:
                records.do(OpType.DELETE, Step(key, Action.DELETE))
        found, cursor, pages = [], None, 0
        while pages == 0 or cursor is not None:
            page = read_page(view, b"k", cursor=cursor, limit=1000)
            found += page.entries
            cursor, pages = page.cursor, pages + 1
        assert [(entry.key, entry.value) for entry in found] == [
            (key, b"v") for key in sorted(kept)
        ]
        assert pages > 400 // (10 * 20)


def test_a_page_is_bounded_whatever_is_asked_for(records: Records) -> None:
    for number in range(30):
        records.put(b"k%02d" % number, bytes(100_000))
    page = read_page(records.state, b"", cursor=None, limit=1_000_000_000)
    assert len(page.entries) < 15
    assert page.cursor is not None


def test_a_write_that_the_engine_refuses_leaves_the_state_as_it_was(records: Records) -> None:
    records.put(b"k", b"v")
    before = rows_of(records.state)
    table = records.state.table

    class Refusing:
        get, items, some, snapshot = table.get, table.items, table.some, table.snapshot
        some_back = table.some_back

        def write(self, drops: object, rows: object) -> None:
            raise OSError(28, "No space left on device")

    records.state._batch.table = Refusing()
    with pytest.raises(OSError, match="No space"):
        records.put(b"k", b"w")
    records.state._batch.table = table
    assert rows_of(records.state) == before
    assert records.state.meta.next == 1
    records.position = 1
    assert records.put(b"k", b"w").answer.results == (StepResult(2),)
    assert META in rows_of(records.state)


loads = st.lists(
    st.builds(
        LoadedEntry,
        key=st.sampled_from(KEYS),
        value=st.sampled_from(VALUES),
        version=st.integers(1, 3),
        create_time_ms=st.integers(0, 5),
        update_time_ms=st.integers(0, 5),
        expires_ms=st.sampled_from([0, 0, 0, 500, 2_000, 10_000]),
    ),
    max_size=6,
)


@pytest.mark.slow
@ENGINES
@given(
    operations=st.lists(
        st.one_of(
            loads.map(lambda made: (OpType.LOAD, encode_load(made))),
            st.sampled_from(KEYS).map(
                lambda key: (OpType.DELETE, encode_steps([Step(key, Action.DELETE)]))
            ),
            st.just((OpType.CLEAR, b"")),
        ),
        max_size=6,
    ),
    written_after=st.sets(st.integers(0, 5)),
)
def test_entries_that_one_look_finds_to_be_new_make_the_same_rows_as_those_looked_at_one_by_one(
    open_engine: Callable[[Path], Engine],
    operations: list[tuple[str, bytes]],
    written_after: set[int],
) -> None:
    made = []
    for looks_at_all in (True, False):
        with pytest.MonkeyPatch.context() as patch, new_state(open_engine) as state:
            if not looks_at_all:
                patch.setattr(Batch, "table_has_none", lambda *_: False)
            for position, (op_type, body) in enumerate(operations):
                state.apply(LogRecord(position, 1_000 * position, op_type, body))
                if position in written_after:
                    state.write()
            state.write()
            made.append((dict(state.table.items(b"", b"\xff")), state.hash))
    assert made[0] == made[1]
