"""Transactions against a model that is a dict, in histories that a machine chooses."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.kv import _txn
from lanemq.storage.kv._log import operation_properties, operation_record
from lanemq.storage.kv._outcomes import LogRecord, Outcome, Status
from lanemq.storage.kv._reads import read_entry
from lanemq.storage.kv._state import State
from lanemq.storage.kv.engines._memory import MemoryEngine
from lanemq.storage.kv.engines._rocks import RocksEngine
from lanemq.wire.kv import (
    Compare,
    Entry,
    Operation,
    OperationKind,
    OperationResult,
    OpType,
    Relation,
    Step,
    Target,
    Txn,
    TxnAnswer,
    encode_steps,
    encode_txn,
)

KEYS = [b"a", b"b", b"c", b"\xff"]
VALUES = [b"", b"one", b"two"]
WRITER: dict[str, Any] = {"client": "me"}


class Log:
    """A state in memory, its records, and a second state on the disk that is made of them."""

    def __init__(self, root: Path) -> None:
        self.engine = MemoryEngine(RealFiles(), root / "memory")
        self.state = State(self.engine.table("default"))
        self.records: list[LogRecord] = []
        self.time_ms = 1_000

    def do(self, op_type: str, body: bytes, **writer: Any) -> Outcome:  # noqa: ANN401
        properties = operation_properties(op_type, **writer)
        record = operation_record(len(self.records), self.time_ms, body, properties)
        self.records.append(record)
        outcome = self.state.apply(record)
        self.state.write()
        return outcome

    def txn(self, txn: Txn, **writer: Any) -> TxnAnswer:  # noqa: ANN401
        outcome = self.do(OpType.TXN, encode_txn(txn), **writer)
        assert isinstance(outcome.answer, TxnAnswer), outcome
        return outcome.answer


class Model:
    """The contract: entries as a dict, and what a transaction does to it."""

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.floor = 0

    def expire(self, now_ms: int) -> None:
        for key, entry in list(self.entries.items()):
            if 0 < entry.expires_ms <= now_ms:
                self.remove(key)

    def remove(self, key: bytes) -> None:
        self.floor = max(self.floor, self.entries.pop(key).version)

    def txn(self, txn: Txn, position: int, now_ms: int) -> TxnAnswer:
        self.expire(now_ms)
        holds = all(self.holds(one) for one in txn.compares)
        results = []
        for one in txn.then if holds else txn.otherwise:
            entry = self.entries.get(one.key)
            version = entry.version if entry else 0
            if one.kind is OperationKind.GET:
                results.append(OperationResult(version, entry))
                continue
            if one.kind is OperationKind.DELETE:
                if entry:
                    self.remove(one.key)
                results.append(OperationResult(version))
                continue
            version = version + 1 if entry else self.floor + 1
            created = entry.create_time_ms if entry else now_ms
            expires = now_ms + one.ttl_ms if one.ttl_ms else 0
            put = Entry(one.key, one.value, version, position, created, now_ms, expires)
            self.entries[one.key] = put
            results.append(OperationResult(version))
        return TxnAnswer(holds, position, results=tuple(results))

    def holds(self, one: Compare) -> bool:
        entry = self.entries.get(one.key)
        there: Any = {
            Target.VERSION: entry.version if entry else 0,
            Target.REVISION: entry.revision if entry else 0,
            Target.EXISTS: int(entry is not None),
            Target.VALUE: entry.value if entry else None,
        }[one.target]
        if there is None:
            return False
        given: Any = one.operand
        return bool(
            {
                Relation.EQUAL: there == given,
                Relation.NOT_EQUAL: there != given,
                Relation.LESS: there < given,
                Relation.GREATER: there > given,
            }[one.relation]
        )


keys = st.sampled_from(KEYS)
numbers = st.builds(
    Compare,
    key=keys,
    target=st.sampled_from([Target.VERSION, Target.REVISION, Target.EXISTS]),
    relation=st.sampled_from(Relation),
    operand=st.integers(0, 6),
)
values = st.builds(
    Compare,
    key=keys,
    target=st.just(Target.VALUE),
    relation=st.sampled_from(Relation),
    operand=st.sampled_from(VALUES),
)
operations = st.lists(
    st.builds(
        Operation,
        kind=st.sampled_from(OperationKind),
        key=keys,
        value=st.sampled_from(VALUES),
        ttl_ms=st.sampled_from([0, 0, 5, 50]),
    ),
    max_size=5,
).filter(
    lambda ones: (
        len(written := [one.key for one in ones if one.kind is not OperationKind.GET])
        == len(set(written))
    )
)
txns = st.builds(
    Txn,
    compares=st.lists(st.one_of(numbers, values), max_size=2),
    then=operations,
    otherwise=operations,
).filter(lambda txn: txn.compares or txn.then or txn.otherwise)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), txns), max_size=20))
def test_transactions_do_what_a_dict_would(history: list[tuple[int, Txn]]) -> None:
    """Every answer, the entries at the end, and the state of another engine from the same log."""
    with tempfile.TemporaryDirectory() as directory:
        log, model = Log(Path(directory)), Model()
        log.do(OpType.TICK, b"", identity="one")
        for later_ms, txn in history:
            log.time_ms += later_ms
            position = len(log.records)
            assert log.txn(txn) == model.txn(txn, position, log.time_ms)
        for key in KEYS:
            assert read_entry(log.state, key) == model.entries.get(key)
        engine = RocksEngine(Path(directory) / "rocks")
        again = State(engine.table("default"))
        again.redo(log.records)
        again.write()
        assert again.hash == log.state.hash
        assert dict(again.table.items(b"", b"\xff")) == dict(log.state.table.items(b"", b"\xff"))
        engine.close()


def test_a_repeated_transaction_is_done_once_and_gets_its_first_answer(tmp_path: Path) -> None:
    log = Log(tmp_path)
    txn = Txn(
        [Compare.missing(b"k")],
        then=[Operation.put(b"k", b"1")],
        otherwise=[Operation.get(b"k"), Operation.put(b"n", b"2")],
    )
    first = log.txn(txn, client="me", sequence=1, waits=1)
    other = log.txn(txn, client="me", sequence=2, waits=1)
    assert first.done
    assert not other.done
    assert other.results[0].entry is not None
    assert log.txn(txn, client="me", sequence=1, waits=1) == first
    assert log.txn(txn, client="me", sequence=2, waits=2) == other
    entry = read_entry(log.state, b"n")
    assert entry is not None
    assert entry.version == 1


def test_a_number_that_was_another_operations_changes_nothing(tmp_path: Path) -> None:
    """A client that takes a number twice harms itself only."""
    log = Log(tmp_path)
    put = encode_steps([Step(b"k", 0, b"v")])  # type: ignore[arg-type]
    txn = encode_txn(Txn([], [Operation.get(b"k")], []))
    for sequence, (one, other) in enumerate([(put, txn), (txn, put)], 1):
        for body in (one, other):
            op_type = OpType.PUT if body is put else OpType.TXN
            outcome = log.do(op_type, body, client="me", sequence=sequence, waits=1)
        assert outcome.status is Status.TAKEN


def test_long_values_are_left_out_of_what_a_session_keeps(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.txn(Txn([], [Operation.put(b"k", bytes(5000))], []))
    read = Txn([], [Operation.get(b"k")], [])
    first = log.txn(read, client="me", sequence=1, waits=1).results[0]
    assert first.entry is not None
    assert first.entry.value == bytes(5000)
    again = log.txn(read, client="me", sequence=1, waits=1).results[0]
    assert again.entry is not None
    assert (again.cut, again.entry.value, again.version) == (True, b"", 1)


def test_an_answer_has_a_mib_of_values_at_most(tmp_path: Path) -> None:
    log = Log(tmp_path)
    for key in KEYS:
        log.txn(Txn([], [Operation.put(key, bytes(400_000))], []))
    results = log.txn(Txn([], [Operation.get(key) for key in KEYS], [])).results
    assert [one.cut for one in results] == [False, False, True, True]


def test_entries_that_are_too_large_together_are_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_txn, "ROWS_BYTES_MAX", 1000)
    log = Log(tmp_path)
    for key in KEYS:
        log.txn(Txn([], [Operation.put(key, bytes(500))], []))
    before = log.state.hash
    for txn in (
        Txn([Compare.exists(key) for key in KEYS], [], []),
        Txn([], [Operation.put(b"new", b""), *(Operation.delete(key) for key in KEYS)], []),
        Txn([Compare.missing(b"a")], [], [Operation.get(key) for key in KEYS]),
    ):
        assert log.do(OpType.TXN, encode_txn(txn)).status is Status.TOO_LARGE
    assert log.state.meta.entries == len(KEYS)
    assert log.state.hash == before


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x93\x90\x90\x90",
        encode_txn(Txn([], [Operation.put(b"", b"")], [])),
        encode_txn(Txn([], [], [Operation.put(b"k", b""), Operation.delete(b"k")])),
        encode_txn(Txn([Compare(b"k", Target.VALUE, Relation.EQUAL, 1)], [], [])),
        encode_txn(Txn([Compare(b"k", Target.VERSION, Relation.LESS, b"1")], [], [])),
        encode_txn(Txn([Compare(b"k", Target.VERSION, Relation.LESS, -1)], [], [])),
        encode_txn(Txn([], [Operation.get(b"k")] * 1025, [])),
        encode_txn(Txn([], [Operation.put(b"k", b"", ttl_ms=-(1 << 53))], [])),
    ],
)
def test_what_is_no_transaction_does_nothing(tmp_path: Path, body: bytes) -> None:
    log = Log(tmp_path)
    assert log.do(OpType.TXN, body).status is Status.IGNORED
    assert log.state.meta.entries == 0
