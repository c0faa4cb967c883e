"""Records read only the long values they ask for, beyond a first share: heads stand for others."""

from collections.abc import Callable

import pytest

from lanemq.storage.kv import LogRecord
from lanemq.storage.kv._copy import StateCopy, read_rows
from lanemq.storage.kv._heads import LARGE_BYTES, READ_BYTES, second_row
from lanemq.storage.kv._outcomes import Status
from lanemq.storage.kv._state import State
from lanemq.storage.kv.engines._memory_table import MemoryTable
from lanemq.storage.kv.engines._rows import (
    ENTRY,
    HASH_MASK,
    HEADS,
    META,
    after_prefix,
    decode_meta,
    encode_row,
    row_hash,
)
from lanemq.wire.kv import (
    Action,
    Compare,
    LeaseTerms,
    LoadedEntry,
    Operation,
    OpType,
    Step,
    Txn,
    TxnAnswer,
    encode_load,
    encode_steps,
    encode_terms,
    encode_txn,
)

VALUE = bytes(256 << 10)
KEYS = [b"%03d" % number for number in range(64)]
READ_MAX = READ_BYTES + 2 * len(VALUE)
LEASE = 7


class CountingTable(MemoryTable):  # type: ignore[misc]
    """Counts the bytes of rows that are read one by one."""

    read_bytes = 0

    def get(self, key: bytes) -> bytes | None:
        row = super().get(key)
        self.read_bytes += len(row or b"")
        return row


class Log:
    """Applies records one after another."""

    def __init__(self, table: MemoryTable) -> None:
        self.table = table
        self.state = State(table)

    def do(self, op_type: str, body: bytes = b"", time_ms: int = 1000) -> Status:
        record = LogRecord(self.state.meta.next, time_ms, op_type, body)
        status = self.state.apply(record).status
        self.state.write()
        return status


def full_log(*, ttl_ms: int = 0) -> tuple[Log, CountingTable]:
    table = CountingTable({})
    log = Log(table)
    if ttl_ms < 0:
        log.do(OpType.LEASE, encode_terms(LeaseTerms(LEASE, 10_000)))
    for key in KEYS:
        assert log.do(OpType.PUT, put(key, VALUE, ttl_ms)) is Status.APPLIED
    table.read_bytes = 0
    return log, table


def put(key: bytes, value: bytes, ttl_ms: int = 0) -> bytes:
    return encode_steps([Step(key, Action.PUT, value, ttl_ms)])


def check_rows(log: Log) -> None:
    """Check the sum of all entries, and the second rows of those that are long."""
    table, total, seconds = log.table, 0, dict[bytes, bytes]()
    for row_key, row in table.items(ENTRY, after_prefix(ENTRY)):
        key, hashed = row_key[1:], row_hash(row_key[1:], row)
        total += hashed
        if len(row) > LARGE_BYTES:
            seconds[HEADS + key] = second_row(row, hashed)
    assert int.from_bytes(log.state.meta.entry_sum, "big") == total & HASH_MASK
    assert dict(table.items(HEADS, after_prefix(HEADS))) == seconds


def batch(action: Action, **fields: object) -> bytes:
    return encode_steps([Step(key, action, b"", **fields) for key in KEYS])  # type: ignore[arg-type]


LOADED = encode_load([LoadedEntry(key, b"", 1, 1, 1) for key in KEYS])
WRITES = {
    "check": (OpType.BATCH, batch(Action.CHECK, if_version=1), 64),
    "check of values": (OpType.BATCH, batch(Action.CHECK, if_value=b"other"), 64),
    "delete": (OpType.BATCH, batch(Action.DELETE), 0),
    "put": (OpType.BATCH, batch(Action.PUT), 64),
    "load": (OpType.LOAD, LOADED, 64),
}


@pytest.mark.parametrize("what", WRITES)
def test_one_record_reads_no_long_values_that_it_does_not_ask_for(what: str) -> None:
    op_type, body, left = WRITES[what]
    log, table = full_log()
    log.do(op_type, body)
    assert table.read_bytes < READ_MAX
    assert log.state.meta.entries == left
    check_rows(log)


@pytest.mark.parametrize("what", ["entries", "a lease in time", "a lease at once"])
def test_the_end_of_entries_and_leases_reads_no_long_values(what: str) -> None:
    log, table = full_log(ttl_ms=5_000 if what == "entries" else -LEASE)
    if what == "a lease at once":
        assert log.do(OpType.REVOKE, encode_terms(LeaseTerms(LEASE))) is Status.APPLIED
    else:
        log.do(OpType.TICK, time_ms=20_000)
    assert table.read_bytes < READ_MAX
    assert log.state.meta.entries == 0
    check_rows(log)


def test_many_records_of_one_turn_keep_no_long_values() -> None:
    """The sum takes what a batch replaces out at its end."""
    log, _ = full_log()
    for key in KEYS:
        log.state.apply(LogRecord(log.state.meta.next, 1000, OpType.PUT, put(key, b"")))
    kept = log.state._entries._before.values()
    assert len(kept) == len(KEYS)
    assert not any(isinstance(one, bytes) for one in kept)
    log.state.write()
    check_rows(log)


def test_a_long_value_is_compared_in_full_where_its_length_is_that_of_the_condition() -> None:
    log, _ = full_log()
    wrong = VALUE[:-1] + b"x"
    condition = [Step(key, Action.CHECK) for key in KEYS[:-1]]
    for value, version in ((wrong, 1), (VALUE, 2)):
        step = Step(KEYS[-1], Action.PUT, b"new", if_value=value)
        log.do(OpType.BATCH, encode_steps([*condition, step]))
        row = log.table.get(ENTRY + KEYS[-1])
        assert row is not None
        assert int.from_bytes(row[:8], "big") == version
    check_rows(log)


def test_a_transaction_copies_a_long_value_once_however_often_it_compares_it() -> None:
    class Row(bytes):
        copied = 0

        def __getitem__(self, place: slice) -> bytes:  # type: ignore[override]
            found = super().__getitem__(place)
            Row.copied += len(found)
            return found

    log, table = full_log()
    table.write([], {ENTRY + KEYS[0]: Row(table.get(ENTRY + KEYS[0]) or b"")})
    compares = [Compare.value(KEYS[0], ">", b"") for _ in range(1000)]
    txn = Txn(compares, [Operation.get(KEYS[0]) for _ in range(5)], [])
    outcome = log.state.apply(LogRecord(log.state.meta.next, 1000, OpType.TXN, encode_txn(txn)))
    assert isinstance(outcome.answer, TxnAnswer)
    assert outcome.answer.done
    assert [one.cut for one in outcome.answer.results] == [False] * 4 + [True]
    assert Row.copied < 2 * len(VALUE)


def with_old_meta(table: MemoryTable) -> None:
    """Leave a table as an earlier version does, which knows nothing of second rows."""
    meta = decode_meta(table.get(META))
    meta.has_heads = False
    table.write([], {META: encode_row(meta)})


@pytest.mark.parametrize("stale", [False, True])
def test_rows_of_an_earlier_version_have_the_same_sum(stale: bool) -> None:
    _, table = full_log()
    changes = {HEADS + key: bytes(80) if stale else None for key in KEYS[::2]}
    table.write([], dict(changes))
    with_old_meta(table)
    again = Log(table)
    again.do(OpType.BATCH, encode_steps([Step(key, Action.PUT, VALUE) for key in KEYS[:10]]))
    again.do(OpType.BATCH, encode_steps([Step(key, Action.DELETE) for key in KEYS[5:]]))
    assert again.state.meta.entries == 5
    check_rows(again)
    assert decode_meta(table.get(META)).has_heads


def tell_wrong(table: MemoryTable) -> None:
    table.write([], {HEADS + key: bytes(80) for key in KEYS})


def tell_nothing(table: MemoryTable) -> None:
    table.write([(HEADS, after_prefix(HEADS))], {})
    with_old_meta(table)


@pytest.mark.parametrize("tell", [tell_wrong, tell_nothing])
def test_a_copy_of_a_state_makes_second_rows_by_itself(
    tell: Callable[[MemoryTable], None],
) -> None:
    log, table = full_log()
    tell(table)
    target = MemoryTable({})
    copy, cursor = StateCopy(target), None
    while True:
        page = read_rows(log.state, cursor)
        copy.put(page.rows)
        cursor = page.cursor
        if cursor is None:
            break
    meta = decode_meta(table.get(META))
    meta.first = meta.next
    copy.finish(meta)
    copied = Log(target)
    check_rows(copied)
    copied.do(OpType.BATCH, batch(Action.DELETE))
    check_rows(copied)
