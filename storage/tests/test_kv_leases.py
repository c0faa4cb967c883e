"""Leases: against a model that is a dict, on both engines, and what bounds them."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.kv import _expiry, _leases
from lanemq.storage.kv._copy import StateCopy, read_rows
from lanemq.storage.kv._log import operation_properties, operation_record
from lanemq.storage.kv._outcomes import LogRecord, Outcome, Status
from lanemq.storage.kv._ranges import RangeRead, Span
from lanemq.storage.kv._reads import read_changes, read_entry, read_page, under_prefix
from lanemq.storage.kv._state import State
from lanemq.storage.kv.engines._engine import Engine
from lanemq.storage.kv.engines._memory import MemoryEngine
from lanemq.storage.kv.engines._memory_table import MemoryTable
from lanemq.storage.kv.engines._rocks import RocksEngine
from lanemq.storage.kv.engines._rows import (
    DEADLINE,
    EXPIRY,
    LEASE,
    LEASED,
    LeaseRow,
    Meta,
    after_prefix,
    deadline_key,
    decode_lease,
    expiry_key,
)
from lanemq.storage.kv.engines._salvage import is_sound
from lanemq.wire import RemoteProtocolError
from lanemq.wire.kv import (
    LEASE_MAX,
    OF_LEASES,
    Action,
    ChangeKind,
    Compare,
    LeaseTerms,
    LoadedEntry,
    Operation,
    OpType,
    Step,
    StepResult,
    Txn,
    TxnAnswer,
    WriteAnswer,
    decode_terms,
    encode_load,
    encode_steps,
    encode_terms,
    encode_txn,
    lessor_account,
    lessor_of,
)

KEYS = [b"a", b"b", b"c", b"\xff"]
NUMBERS = [1, 2, LEASE_MAX]
HOST, OTHER_HOST = lessor_of("", "10.0.0.1"), lessor_of("", "10.0.0.2")
ALICE, BOB = lessor_of("alice", "10.0.0.1"), lessor_of("bob", "10.0.0.1")


class Log:
    """A state, and the records that it was made of."""

    def __init__(self, engine: Engine) -> None:
        self.state = State(engine.table("default"))
        self.records: list[LogRecord] = []
        self.time_ms = 1_000

    def do(self, op_type: str, body: bytes = b"", **named: Any) -> Outcome:  # noqa: ANN401
        properties = operation_properties(op_type, **named)
        record = operation_record(len(self.records), self.time_ms, body, properties)
        self.records.append(record)
        outcome = self.state.apply(record)
        self.state.write()
        return outcome

    def lease(self, op_type: str, lease: int, ttl_ms: int = 0, **named: Any) -> Outcome:  # noqa: ANN401
        of_any = named.pop("of_any", False)
        return self.do(op_type, encode_terms(LeaseTerms(lease, ttl_ms, of_any)), **named)

    def put(self, key: bytes, *, lease: int = 0, **named: Any) -> Outcome:  # noqa: ANN401
        step = Step(key, Action.PUT, b"v", ttl_ms=-lease)
        return self.do(OpType.PUT, encode_steps([step]), **named)

    def keys(self) -> list[bytes]:
        page = read_page(self.state, b"", cursor=None, limit=1000)
        return [entry.key for entry in page.entries]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(MemoryEngine(RealFiles(), tmp_path))


# Against a model


@dataclass
class Model:
    """The contract: entries and leases as dicts."""

    entries: dict[bytes, tuple[bytes, int, int]] = field(default_factory=dict)
    """Key -> value, time at which it expires, lease."""
    leases: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    """Number -> ttl, time at which it ends, account."""

    def expire(self, now_ms: int) -> None:
        for key, (_, expires_ms, _) in list(self.entries.items()):
            if 0 < expires_ms <= now_ms:
                del self.entries[key]
        for lease, (_, ends_ms, _) in list(self.leases.items()):
            if ends_ms <= now_ms:
                self.end(lease)

    def end(self, lease: int) -> None:
        del self.leases[lease]
        self.entries = {key: one for key, one in self.entries.items() if one[2] != lease}

    def of_lease(self, op_type: str, terms: LeaseTerms, lessor: str, now_ms: int) -> Any:  # noqa: ANN401
        there = self.leases.get(terms.lease)
        if op_type == OpType.LEASE:
            if there is None:
                ends_ms = now_ms + terms.ttl_ms
                self.leases[terms.lease] = terms.ttl_ms, ends_ms, lessor_account(lessor)
            return there is None
        if there is None or (there[2] != lessor_account(lessor) and not terms.of_any):
            return Status.NO_LEASE
        if op_type == OpType.REVOKE:
            self.end(terms.lease)
        else:
            self.leases[terms.lease] = there[0], now_ms + there[0], there[2]
        return True

    def may_put(self, operations: list[Operation], lessor: str) -> bool:
        named = {-one.ttl_ms for one in operations if one.ttl_ms < 0}
        account = lessor_account(lessor)
        return all(one in self.leases and self.leases[one][2] == account for one in named)

    def put(self, operations: list[Operation], now_ms: int) -> None:
        for one in operations:
            expires_ms = now_ms + one.ttl_ms if one.ttl_ms > 0 else 0
            self.entries[one.key] = one.value, expires_ms, max(0, -one.ttl_ms)


numbers = st.sampled_from(NUMBERS)
lessors = st.sampled_from([HOST, OTHER_HOST, ALICE, BOB])
of_leases = st.one_of(
    st.tuples(
        st.just(OpType.LEASE),
        st.builds(LeaseTerms, lease=numbers, ttl_ms=st.sampled_from([5, 20, 60])),
    ),
    st.tuples(
        st.sampled_from([OpType.ALIVE, OpType.REVOKE]),
        st.builds(LeaseTerms, lease=numbers, of_any=st.booleans()),
    ),
)
puts = st.lists(
    st.builds(
        Operation,
        kind=st.just(Operation.put(b"k", b"").kind),
        key=st.sampled_from(KEYS),
        value=st.sampled_from([b"", b"one"]),
        ttl_ms=st.sampled_from([0, 10, -1, -1, -2, -LEASE_MAX]),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda one: one.key,
)
histories = st.lists(
    st.tuples(
        st.integers(-5, 25),
        lessors,
        st.one_of(
            of_leases,
            puts,
            st.tuples(st.just(OpType.TXN), puts),
            st.tuples(st.just(OpType.DELETE), st.sampled_from(KEYS)),
            st.sampled_from([OpType.TICK, OpType.TICK, OpType.CLEAR]),
        ),
    ),
    max_size=30,
)


def done(log: Log, model: Model, what: Any, lessor: str) -> None:  # noqa: ANN401
    """Do one thing in both, and compare the answers."""
    now_ms = max(log.time_ms, log.state.meta.clock_ms)
    model.expire(now_ms)
    if isinstance(what, str):
        log.do(what)
        if what == OpType.CLEAR:
            model.entries, model.leases = {}, {}
    elif what[0] in OF_LEASES:
        outcome = log.do(what[0], encode_terms(what[1]), lessor=lessor)
        expected = model.of_lease(what[0], what[1], lessor, now_ms)
        is_done = outcome.status is Status.APPLIED
        assert (outcome.answer.done if is_done else outcome.status) == expected
    elif what[0] == OpType.DELETE:
        outcome = log.do(OpType.DELETE, encode_steps([Step(what[1], Action.DELETE)]))
        assert isinstance(outcome.answer, WriteAnswer)
        assert (outcome.answer.results[0].version > 0) == (what[1] in model.entries)
        model.entries.pop(what[1], None)
    else:
        is_txn = what[0] == OpType.TXN
        operations: list[Operation] = what[1] if is_txn else what
        may = model.may_put(operations, lessor)
        op_type, body = OpType.TXN, encode_txn(Txn([], operations, []))
        named: dict[str, Any] = {"lessor": lessor}
        if not is_txn:
            op_type, body = OpType.BATCH, encode_steps([one.step for one in operations])
        if not is_txn and len(operations) == 1:
            # A redo does puts of writers with numbers in a way of its own.
            number = len(log.records) + 1
            op_type, named = OpType.PUT, {"client": "me", "sequence": number, "waits": number}
            may = model.may_put(operations, "")
        outcome = log.do(op_type, body, **named)
        assert outcome.status is (Status.APPLIED if may else Status.NO_LEASE)
        if may:
            model.put(operations, now_ms)


def compared(log: Log, model: Model) -> None:
    """Compare everything that a reader can see."""
    for key in KEYS:
        entry = read_entry(log.state, key)
        found = None if entry is None else (entry.value, entry.expires_ms, entry.lease)
        assert found == model.entries.get(key)
    kept = {
        int.from_bytes(key[1:], "big"): decode_lease(row)
        for key, row in log.state.table.items(LEASE, after_prefix(LEASE))
    }
    assert {n: (one.ttl_ms, one.expires_ms) for n, one in kept.items()} == {
        n: one[:2] for n, one in model.leases.items()
    }
    for lease, row in kept.items():
        under = {key for key, one in model.entries.items() if one[2] == lease}
        assert row.keys == len(under)
    assert log.state.meta.leases == len(model.leases)
    assert is_sound(log.state.table)


@settings(max_examples=120, deadline=None)
@given(histories, st.integers(1, 7))
def test_leases_do_what_a_dict_would(
    history: list[tuple[int, str, Any]], records_at_once: int
) -> None:
    """Every answer and every entry; and the same rows from the same log on the other engine,
    however it is cut into batches, and from a copy of the rows."""
    with tempfile.TemporaryDirectory() as directory:
        log, model = Log(MemoryEngine(RealFiles(), Path(directory))), Model()
        log.do(OpType.TICK, identity="one")
        for later_ms, lessor, what in history:
            log.time_ms += later_ms
            done(log, model, what, lessor)
            compared(log, model)
        engine = RocksEngine(Path(directory) / "rocks")
        again = State(engine.table("default"))
        for begin in range(0, len(log.records), records_at_once):
            again.redo(log.records[begin : begin + records_at_once])
            again.write()
        rows = dict(log.state.table.items(b"", b"\xff\xff"))
        assert again.hash == log.state.hash
        assert dict(again.table.items(b"", b"\xff\xff")) == rows
        copy = StateCopy(engine.table("other"))
        copy.put(read_rows(again, None).rows)
        copy.finish(Meta(first=again.meta.next, queue_id=again.meta.queue_id))
        assert State(engine.table("other")).hash == log.state.hash
        engine.close()


# How a lease ends


def test_the_keys_of_a_lease_go_together_in_one_record_each_with_its_change(log: Log) -> None:
    log.lease(OpType.LEASE, 7, 50)
    for key in KEYS[:3]:
        log.put(key, lease=7)
    log.put(b"stays")
    log.time_ms += 50
    begin = len(log.records)
    log.do(OpType.TICK)
    assert log.keys() == [b"stays"]
    changes = read_changes(
        log.state, Records(log.records), under_prefix(b""), position=begin, index=0, limit=10
    )
    assert changes is not None
    assert [(one.key, one.kind, one.position) for one in changes.changes] == [
        (key, ChangeKind.EXPIRE, begin) for key in KEYS[:3]
    ]
    assert list(log.state.table.items(LEASED, after_prefix(LEASED))) == []


def test_a_revoked_lease_deletes_its_keys_and_a_kept_one_lives_on(log: Log) -> None:
    log.lease(OpType.LEASE, 7, 50)
    log.lease(OpType.LEASE, 8, 50)
    log.put(b"a", lease=7)
    log.put(b"b", lease=8)
    for _ in range(5):
        log.time_ms += 40
        assert log.lease(OpType.ALIVE, 7).status is Status.APPLIED
    assert log.keys() == [b"a"]
    assert log.lease(OpType.ALIVE, 8).status is Status.NO_LEASE
    assert log.lease(OpType.REVOKE, 7).answer == WriteAnswer(True, len(log.records) - 1)
    assert log.keys() == []


def test_a_lease_whose_time_has_come_is_not_kept_alive_even_if_it_has_not_ended_yet(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of very many, each record ends some: the others take nothing any more."""
    monkeypatch.setattr(_expiry, "EXPIRED_MAX", 2)
    for lease in range(1, 9):
        log.lease(OpType.LEASE, lease, 50)
        log.put(b"%d" % lease, lease=lease)
    log.time_ms += 50
    assert log.lease(OpType.ALIVE, 8).status is Status.NO_LEASE
    assert log.put(b"more", lease=8).status is Status.NO_LEASE
    assert log.lease(OpType.LEASE, 8, 50).answer.done is False
    for _ in range(8):
        log.do(OpType.TICK)
    assert log.keys() == []
    assert (log.state.meta.leases, log.state.meta.next_expiry_ms) == (0, 0)


def noted_looks(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return a list that gets the begin of each look at a range of rows."""
    looks: list[bytes] = []
    items = MemoryTable.items

    def noted(table: MemoryTable, begin: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        looks.append(begin)
        return items(table, begin, end)

    monkeypatch.setattr(MemoryTable, "items", noted)
    return looks


def test_leases_that_end_together_are_looked_for_together(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look passes over all that have ended at that time before: a record looks twice."""
    for lease in range(1, 401):
        log.lease(OpType.LEASE, lease, 50 + lease % 2)
    looks = noted_looks(monkeypatch)
    log.time_ms += 60
    for left in (144, 0):
        looks.clear()
        log.do(OpType.TICK)
        assert log.state.meta.leases == left
        assert sum(begin.startswith(DEADLINE) for begin in looks) <= 2
    assert log.state.meta.next_expiry_ms == 0


def test_a_look_for_what_is_due_begins_behind_what_has_ended(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB passes over rows that were deleted one by one, and all may be of one time."""
    for number in range(1, 9):
        log.lease(OpType.LEASE, number, 50)
        log.do(OpType.PUT, encode_steps([Step(b"%d" % number, Action.PUT, b"v", 50)]))
    monkeypatch.setattr(_expiry, "EXPIRED_MAX", 2)
    looks = noted_looks(monkeypatch)
    log.time_ms += 60
    for number in (2, 4, 6, 8):
        looks.clear()
        log.do(OpType.TICK)
        assert min(key for key in looks if key.startswith(EXPIRY)) >= expiry_key(
            1050, b"%d" % (number - 2) if number > 2 else b""
        )
    assert log.state.meta.leases == 8
    for number in (2, 4, 6, 8):
        looks.clear()
        log.do(OpType.TICK)
        begins = [key for key in looks if key.startswith(DEADLINE)]
        assert min(begins, default=b"z") >= deadline_key(1050, number - 2)
    log.lease(OpType.LEASE, 1, 50)  # what comes later is found
    log.put(b"a", lease=1)
    log.time_ms += 50
    log.do(OpType.TICK)
    assert (log.keys(), log.state.meta.leases, log.state.meta.next_expiry_ms) == ([], 0, 0)


def test_a_put_without_the_lease_takes_its_key_out_of_it(log: Log) -> None:
    log.lease(OpType.LEASE, 7, 50)
    log.lease(OpType.LEASE, 8, 90)
    log.put(b"a", lease=7)
    log.put(b"a")
    log.put(b"b", lease=7)
    log.put(b"b", lease=8)
    log.lease(OpType.REVOKE, 7)
    assert log.keys() == [b"a", b"b"]
    log.lease(OpType.REVOKE, 8)
    assert log.keys() == [b"a"]


def test_a_read_of_the_past_has_the_entries_of_leases_of_then(log: Log) -> None:
    log.lease(OpType.LEASE, 7, 50)
    log.put(b"a", lease=7)
    then = len(log.records)
    log.lease(OpType.REVOKE, 7)
    assert log.keys() == []
    page = RangeRead(Span(b"", None), then).page(log.state, Records(log.records))
    assert page is not None
    assert [(one.key, one.value, one.lease) for one in page.entries] == [(b"a", b"v", 7)]


def test_a_condition_is_judged_before_the_lease(log: Log) -> None:
    step = Step(b"a", Action.PUT, b"v", ttl_ms=-7, if_version=3)
    outcome = log.do(OpType.CAS, encode_steps([step]))
    assert outcome.answer == WriteAnswer(False, 0, (StepResult(0, holds=False),))


def test_a_transaction_compares_leases_and_puts_under_them(log: Log) -> None:
    log.lease(OpType.LEASE, 7, 50)
    log.put(b"a", lease=7)
    txn = Txn(
        [Compare.lease(b"a", "=", 7), Compare.lease(b"b", "=", 0)],
        [Operation.put(b"b", b"", lease=7)],
        [],
    )
    outcome = log.do(OpType.TXN, encode_txn(txn))
    assert isinstance(outcome.answer, TxnAnswer)
    assert outcome.answer.done
    log.lease(OpType.REVOKE, 7)
    assert log.keys() == []


def test_a_repeated_grant_and_revocation_get_their_first_answer(log: Log) -> None:
    grant = encode_terms(LeaseTerms(7, 50))
    first = log.do(OpType.LEASE, grant, client="me", sequence=1, waits=1)
    again = log.do(OpType.LEASE, grant, client="me", sequence=1, waits=1)
    assert (first.status, again.status) == (Status.APPLIED, Status.REPEATED)
    assert first.answer == again.answer
    terms = encode_terms(LeaseTerms(7))
    first = log.do(OpType.REVOKE, terms, client="me", sequence=2, waits=1)
    again = log.do(OpType.REVOKE, terms, client="me", sequence=2, waits=1)
    assert (again.status, again.answer) == (Status.REPEATED, first.answer)


def test_an_import_over_leases_ends_them(log: Log) -> None:
    log.lease(OpType.LEASE, 7, 50)
    log.put(b"a", lease=7)
    log.do(OpType.IMPORT)
    log.do(OpType.LOAD, encode_load([LoadedEntry(b"a", b"old", 3, 1, 1)]))
    log.do(OpType.IMPORTED)
    assert log.lease(OpType.ALIVE, 7).status is Status.NO_LEASE
    log.time_ms += 100
    log.do(OpType.TICK)
    assert log.keys() == [b"a"]


def test_a_load_over_a_key_of_a_lease_takes_it_out_of_it(log: Log) -> None:
    log.lease(OpType.LEASE, 7, 50)
    log.put(b"a", lease=7)
    log.do(OpType.LOAD, encode_load([LoadedEntry(b"a", b"old", 3, 1, 1)]))
    log.lease(OpType.REVOKE, 7)
    assert log.keys() == [b"a"]
    assert is_sound(log.state.table)


# Whose it is, and how many there may be


def test_a_lease_is_its_accounts_and_without_one_everybodys(log: Log) -> None:
    log.lease(OpType.LEASE, 7, 50, lessor=ALICE)
    log.put(b"a", lease=7, lessor=ALICE)
    for other in (BOB, HOST, ""):
        assert log.put(b"b", lease=7, lessor=other).status is Status.NO_LEASE
        for op_type in (OpType.ALIVE, OpType.REVOKE):
            assert log.lease(op_type, 7, lessor=other).status is Status.NO_LEASE
    assert log.lease(OpType.REVOKE, 7, of_any=True, lessor=BOB).answer.done
    log.lease(OpType.LEASE, 8, 50, lessor=HOST)
    assert log.put(b"b", lease=8, lessor=OTHER_HOST).answer.done
    assert log.put(b"b", lease=8, lessor=ALICE).status is Status.NO_LEASE


def test_a_lease_has_so_many_keys_and_no_more(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_leases, "LEASE_KEYS_MAX", 2)
    log.lease(OpType.LEASE, 7, 50)
    log.put(b"a", lease=7)
    two = encode_steps([Step(key, Action.PUT, ttl_ms=-7) for key in (b"b", b"c")])
    assert log.do(OpType.BATCH, two).status is Status.TOO_MANY_KEYS
    assert log.keys() == [b"a"]
    log.put(b"b", lease=7)
    assert log.put(b"b", lease=7).status is Status.APPLIED  # it is one of them
    txn = encode_txn(Txn([], [Operation.put(b"c", b"", lease=7)], []))
    assert log.do(OpType.TXN, txn).status is Status.TOO_MANY_KEYS


def test_a_lease_has_keys_of_so_many_bytes_and_no_more(log: Log) -> None:
    """All of them go in one turn, whose time is that of their bytes."""
    log.lease(OpType.LEASE, 7, 50, bounds=True)
    keys = [b"%03d" % number + bytes(4093) for number in range(65)]
    for key in keys[:64]:
        assert log.put(key, lease=7).status is Status.APPLIED
    assert log.put(keys[64], lease=7).status is Status.TOO_MANY_KEYS
    assert log.put(keys[63], lease=7).status is Status.APPLIED  # it is one of them
    two = encode_steps([Step(keys[0], Action.PUT), Step(keys[64], Action.PUT, ttl_ms=-7)])
    assert log.do(OpType.BATCH, two).status is Status.TOO_MANY_KEYS
    log.put(keys[0])
    assert log.put(keys[64], lease=7).status is Status.APPLIED
    assert log.lease(OpType.REVOKE, 7).answer.done
    assert log.keys() == [keys[0]]
    check_redo(log)


def test_a_lease_of_an_earlier_version_has_the_row_that_it_had(log: Log) -> None:
    log.lease(OpType.LEASE, 7, 50)
    for number in range(100):
        log.put(b"%03d" % number + bytes(4000), lease=7)
    (row,) = (row for _, row in log.state.table.items(LEASE, after_prefix(LEASE)))
    assert len(msgspec.msgpack.decode(row)) == 4
    log.put(b"a", lease=7, bounds=True)
    (row,) = (row for _, row in log.state.table.items(LEASE, after_prefix(LEASE)))
    assert msgspec.msgpack.decode(row)[3:] == [101, 1]
    log.put(b"%03d" % 5 + bytes(4000))
    check_redo(log)
    log.lease(OpType.REVOKE, 7)
    assert len(log.keys()) == 1
    check_redo(log)


def test_a_lease_with_many_keys_ends_in_a_record_of_its_own(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside entries and other leases it would be too much for a turn."""
    monkeypatch.setattr(_expiry, "EXPIRED_MAX", 4)
    log.lease(OpType.LEASE, 7, 50, bounds=True)
    log.lease(OpType.LEASE, 8, 50)
    for number in range(6):
        log.put(b"%d" % number, lease=8)
    log.do(OpType.PUT, encode_steps([Step(b"timed", Action.PUT, b"", ttl_ms=50)]))
    log.time_ms += 50
    log.do(OpType.TICK)
    assert (log.state.meta.entries, log.state.meta.leases) == (6, 1)
    log.do(OpType.TICK)
    assert (log.state.meta.entries, log.state.meta.leases) == (0, 0)
    assert log.state.meta.next_expiry_ms == 0
    check_redo(log)


def test_the_end_of_a_lease_decodes_what_is_known_of_it_a_few_times(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once for each of its keys."""
    log.lease(OpType.LEASE, 7, 50)
    for number in range(100):
        log.put(b"%d" % number, lease=7)
    decoded: list[bytes] = []

    def counted(row: bytes) -> LeaseRow:
        decoded.append(row)
        return decode_lease(row)

    monkeypatch.setattr(_leases, "decode_lease", counted)
    log.lease(OpType.REVOKE, 7)
    assert log.keys() == []
    assert len(decoded) < 10


def check_redo(log: Log) -> None:
    """A redo of the records makes the rows that there are."""
    again = MemoryTable({})
    state = State(again)
    state.redo(log.records)
    state.write()
    assert dict(again.items(b"", b"\xff")) == dict(log.state.table.items(b"", b"\xff"))
    assert state.hash == log.state.hash
    assert is_sound(log.state.table)


def test_the_leases_of_one_lessor_leave_some_to_others(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_leases, "LEASES_MAX", 20)
    granted = dict.fromkeys((ALICE, HOST, OTHER_HOST, BOB), 0)
    for number, lessor in enumerate(one for one in granted for _ in range(20)):
        outcome = log.lease(OpType.LEASE, number + 1, 50, lessor=lessor)
        granted[lessor] += outcome.status is Status.APPLIED
        assert outcome.status in (Status.APPLIED, Status.TOO_MANY_LEASES)
    assert granted[ALICE] <= 20 // 5 + 1
    assert all(granted.values())
    log.time_ms += 50
    log.do(OpType.TICK)
    log.do(OpType.TICK)
    assert log.lease(OpType.LEASE, 1, 50, lessor=ALICE).status is Status.APPLIED


@pytest.mark.parametrize(
    ("op_type", "body"),
    [
        (OpType.LEASE, b""),
        (OpType.LEASE, encode_terms(LeaseTerms(1))),
        (OpType.LEASE, encode_terms(LeaseTerms(0, 5))),
        (OpType.LEASE, encode_terms(LeaseTerms(LEASE_MAX + 1, 5))),
        (OpType.LEASE, encode_terms(LeaseTerms(1, 5, of_any=True))),
        (OpType.LEASE, encode_terms(LeaseTerms(1, 10**15))),
        (OpType.ALIVE, encode_terms(LeaseTerms(1, 5))),
        (OpType.REVOKE, b"\x91\xa1x"),
    ],
)
def test_what_is_no_operation_on_a_lease_does_nothing(log: Log, op_type: str, body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_terms(op_type, body)
    assert log.do(op_type, body).status is Status.IGNORED
    assert log.state.meta.leases == 0


class Records:
    """The records of a log for reads of values."""

    def __init__(self, records: list[LogRecord]) -> None:
        self._records = records

    def bounds(self) -> tuple[int, int]:
        return 0, len(self._records)

    def read(self, position: int, count: int) -> list[LogRecord]:
        return self._records[position : position + count]

    def time_of(self, position: int) -> int:
        return self._records[position].time_ms

    def place(self, position: int) -> int | None:
        return None
