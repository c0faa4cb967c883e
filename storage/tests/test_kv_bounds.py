"""The rows of a partition that are no entries have bounds in bytes, from a record of its log on."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage.kv import _history, _sessions
from lanemq.storage.kv._log import operation_properties, operation_record
from lanemq.storage.kv._outcomes import LogRecord, Outcome, Status
from lanemq.storage.kv._retention import HALVED_LEAST, history_for_room
from lanemq.storage.kv._sessions import RESULTS_BYTES_MAX
from lanemq.storage.kv._state import State
from lanemq.storage.kv.engines._memory_table import MEMORY_COSTS, MemoryTable
from lanemq.storage.kv.engines._rows import (
    CHANGE,
    META,
    SESSION,
    Meta,
    after_prefix,
    encode_row,
)
from lanemq.wire.kv import (
    BOUNDS_PROPERTY,
    LOAD_ENTRIES_MAX,
    Action,
    LoadedEntry,
    Operation,
    OpType,
    Step,
    Txn,
    TxnAnswer,
    encode_load,
    encode_steps,
    encode_txn,
)
from lanemq.wire.message import decode_properties

LONG = b"k" * 4096
READS = encode_txn(Txn([], [Operation.get(LONG)] * 1020, []))


def put(key: bytes, value: bytes = b"v") -> tuple[str, bytes]:
    return OpType.PUT, encode_steps([Step(key, Action.PUT, value)])


def delete(key: bytes) -> tuple[str, bytes]:
    return OpType.DELETE, encode_steps([Step(key, Action.DELETE)])


class Log:
    """A state over rows in memory, and the records that made it."""

    def __init__(self, *, bounds: bool = True) -> None:
        self.table = MemoryTable({})
        self.state = State(self.table)
        self.records: list[LogRecord] = []
        self.bounds = bounds

    def do(self, operation: tuple[str, bytes], **writer: object) -> Outcome:
        op_type, body = operation
        properties = operation_properties(
            op_type,
            bounds=self.bounds and not self.state.meta.is_bounded,
            **writer,  # type: ignore[arg-type]
        )
        record = operation_record(len(self.records), 1_000, body, properties)
        self.records.append(record)
        outcome = self.state.apply(record)
        self.state.write()
        return outcome

    def write(self, sequence: int, operation: tuple[str, bytes]) -> Outcome:
        """Do it for a writer that has got no answer so far."""
        return self.do(operation, client="c", sequence=sequence, waits=1)

    def rows(self, prefix: bytes = b"") -> dict[bytes, bytes]:
        return dict(self.table.items(prefix, after_prefix(prefix) if prefix else b"\xff"))

    def replayed(self) -> dict[bytes, bytes]:
        """The rows that a redo makes of the records."""
        again = MemoryTable({})
        state = State(again)
        state.redo(self.records)
        state.write()
        assert state.hash == self.state.hash
        return dict(again.items(b"", b"\xff"))


def test_results_of_reads_of_long_keys_are_kept_without_these_and_within_their_bytes() -> None:
    log = Log()
    log.write(1, put(LONG))
    last = None
    for sequence in range(2, 18):
        last = log.write(sequence, (OpType.TXN, READS))
        (row,) = log.rows(SESSION).values()
        assert len(row) <= RESULTS_BYTES_MAX + 4096
    assert last is not None
    (row,) = log.rows(SESSION).values()
    log.write(18, put(b"small"))
    assert log.replayed() == log.rows()
    again = log.write(17, (OpType.TXN, READS))
    assert again.status is Status.REPEATED
    assert isinstance(again.answer, TxnAnswer)
    (entry,) = {one.entry for one in again.answer.results}
    assert entry is not None
    assert (entry.key, entry.value, entry.version) == (LONG, b"", 1)
    assert again.answer.results[0].cut


def test_a_write_whose_result_was_forgotten_for_its_bytes_is_not_done_again() -> None:
    log = Log()
    log.write(1, put(b"k", b"first"))
    for sequence in range(2, 18):
        log.write(sequence, (OpType.TXN, READS))
        if sequence == 2:
            log.do(put(LONG))
    for sequence in (1, 2):
        assert log.write(sequence, put(b"k", b"again")).status is Status.FORGOTTEN
    assert log.table.get(b"ek") == log.replayed()[b"ek"]
    assert (log.table.get(b"ek") or b"").endswith(b"first")


def test_a_log_of_an_earlier_version_makes_the_results_that_it_made() -> None:
    """The results decide it: a late write is done by a redo if it was done before."""
    log = Log(bounds=False)
    log.write(1, put(LONG))
    for sequence in range(3, 19):
        log.write(sequence, (OpType.TXN, READS))
    (row,) = log.rows(SESSION).values()
    assert len(row) > 16 * 1020 * len(LONG)
    assert log.write(2, put(b"late")).status is Status.APPLIED
    assert log.replayed() == log.rows()

    log.bounds = True
    assert log.write(19, put(b"small")).status is Status.APPLIED
    (row,) = log.rows(SESSION).values()
    assert len(row) < 100
    assert log.write(18, (OpType.TXN, READS)).status is Status.FORGOTTEN
    assert log.replayed() == log.rows()


def test_a_row_of_an_earlier_version_is_bounded_by_the_next_record() -> None:
    log = Log()
    log.do(put(b"k"))
    fields = msgspec.structs.astuple(log.state.meta)
    names = Meta.__struct_fields__
    old = encode_row(fields[: names.index("bounds_from")])  # type: ignore[arg-type]
    log.table.write([], {META: old})
    log.state = State(log.table)
    assert not log.state.meta.is_bounded
    log.do(put(b"k"))
    assert log.state.meta.bounds_from == 1
    log.do(put(b"k"))
    assert log.state.meta.bounds_from == 1
    told = operation_properties(OpType.PUT, bounds=True)
    assert BOUNDS_PROPERTY in decode_properties(told)


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_history, "CHANGE_BYTES_MAX", 100_000)
    monkeypatch.setattr(_history, "BYTES_SLICE", 10_000)


@pytest.mark.usefixtures("narrow")
def test_changes_of_long_keys_are_forgotten_by_their_bytes() -> None:
    """Entries that are gone leave their keys in the rows of their changes."""
    log = Log()
    for number in range(100):
        key = LONG[:2000] + b"%d" % number
        for operation in (put(key), delete(key)):
            log.do(operation)
            rows = log.rows(CHANGE)
            size_bytes = sum(map(len, rows)) + sum(map(len, rows.values()))
            assert size_bytes == log.state.meta.change_bytes <= 100_000
            assert len(rows) == log.state.meta.changes
    assert log.state.meta.changes > 40
    assert log.replayed() == log.rows()
    assert int.from_bytes(min(log.rows(CHANGE))[1:9], "big") == log.state.meta.changes_from


@pytest.mark.usefixtures("narrow")
def test_changes_of_an_earlier_version_are_bounded_as_they_age() -> None:
    log = Log(bounds=False)
    for number in range(100):
        log.do(put(LONG[:2000] + b"%d" % number))
    assert log.state.meta.changes == 100
    log.bounds = True
    for number in range(100):
        log.do(put(b"%d" % number + LONG[:2000]))
        assert log.replayed() == log.rows()
    rows = log.rows(CHANGE)
    assert sum(map(len, rows)) + sum(map(len, rows.values())) <= 100_000


def test_a_batch_of_long_sessions_is_written_before_it_is_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of them is encoded, hashed and written, after the share of the turn is over."""
    monkeypatch.setattr(_sessions, "BATCH_BYTES", 1_000)
    log = Log()
    batch = encode_steps([Step(b"%d" % number, Action.CHECK) for number in range(100)])
    for number in range(9):
        log.do((OpType.BATCH, batch), client=f"c{number}", sequence=1, waits=1)
    state, position = State(log.table), len(log.records)
    applied = 0
    while not state.is_enough:
        properties = operation_properties(OpType.PUT, client=f"c{applied}", sequence=2, waits=1)
        state.apply(operation_record(position + applied, 1_000, put(b"k")[1], properties))
        applied += 1
    assert 2 <= applied < 9
    state.write()
    assert not state.is_enough


keys = st.binary(min_size=1, max_size=3)
writes = st.tuples(
    st.lists(st.tuples(keys, keys), max_size=2),
    st.dictionaries(keys, st.none() | st.binary(max_size=9), max_size=9),
)


@given(st.dictionaries(keys, keys), st.lists(writes))
def test_the_bytes_of_rows_in_memory_are_those_that_there_are(
    begun: dict[bytes, bytes],
    written: list[tuple[list[tuple[bytes, bytes]], dict[bytes, bytes | None]]],
) -> None:
    table = MemoryTable(begun)
    for drops, rows in [([], {}), *written]:
        table.write(drops, rows)
        left = list(table.items(b"", b"\xff" * 4))
        expected = sum(len(key) + len(row) + MEMORY_COSTS for key, row in left)
        assert table.size_bytes == expected


def test_the_later_half_of_a_history_is_that_of_its_changes() -> None:
    """Keep-alives, and writes that are refused, are records without one."""
    log = Log()
    for number in range(HALVED_LEAST + 500):
        log.do(put(b"k%d" % (number % 10)))
    for _ in range(6000):
        log.do((OpType.TICK, b""))
    revision = history_for_room(log.state)
    assert revision is not None
    kept = [key for key in log.rows(CHANGE) if int.from_bytes(key[1:9], "big") >= revision]
    assert abs(len(kept) - log.state.meta.changes / 2) <= 1


def test_a_load_of_very_many_entries_is_none_once_there_are_bounds() -> None:
    """No server takes one: whoever writes to the topic could hold up all who apply its records."""

    def load(number: int) -> tuple[str, bytes]:
        entries = [LoadedEntry(b"%d" % one, b"", 1, 1, 1) for one in range(number)]
        return OpType.LOAD, encode_load(entries)

    log = Log(bounds=False)
    assert log.do(load(LOAD_ENTRIES_MAX + 1)).status is Status.APPLIED
    log.bounds = True
    log.do((OpType.CLEAR, b""))
    assert log.do(load(LOAD_ENTRIES_MAX + 1)).status is Status.IGNORED
    assert log.state.meta.entries == 0
    assert log.do(load(LOAD_ENTRIES_MAX)).status is Status.APPLIED
    assert log.state.meta.entries == LOAD_ENTRIES_MAX
    assert log.replayed() == log.rows()
