"""Records that no server has written: whoever may write to the topic of a log writes them."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.storage.kv._entries import Entries
from lanemq.storage.kv._log import operation_properties, operation_record
from lanemq.storage.kv._outcomes import LogRecord, Status
from lanemq.storage.kv._sessions import OpenSessions, Session
from lanemq.storage.kv._state import State
from lanemq.storage.kv.engines._memory_table import MemoryTable
from lanemq.wire.kv import (
    BOUNDS_PROPERTY,
    CLIENT_PROPERTY,
    IDENTITY_PROPERTY,
    KEY_PROPERTY,
    LESSOR_PROPERTY,
    OP_TYPE_PROPERTY,
    SEQUENCE_MAX,
    TIME_PROPERTY,
    Action,
    OpType,
    Step,
    encode_steps,
)
from lanemq.wire.message import encode_properties

DEEP = b"\x91" * 20_000 + b"\xc0"
"""Lists in lists, as a field that is none of ours."""
NUMBERS = st.sampled_from(
    [0, 1, 2, -1, 1000, 2**32, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)]
)
DIGITS = st.one_of(
    NUMBERS.map(str),
    st.sampled_from([str(SEQUENCE_MAX), "9" * 20, "9" * 36, "", "\u0663", "+1", "1_0", " 1"]),
)
BYTES = st.one_of(st.sampled_from([b"", b"a", b"b", b"a/1"]), st.just(5000).map(bytes))
FIELD = st.one_of(NUMBERS, BYTES, st.none(), st.booleans())
PART = st.lists(FIELD, max_size=7)
PACKED = st.one_of(
    NUMBERS, PART, st.lists(PART, max_size=3), st.lists(st.lists(PART, max_size=2), max_size=4)
).map(msgspec.msgpack.encode)
STEP = st.builds(
    lambda key, action, value, ttl, version: [key, action, value, ttl, version],
    st.sampled_from([b"a", b"b"]),
    st.sampled_from([0, 0, 0, 1, 2]),
    BYTES,
    NUMBERS,
    st.one_of(st.none(), NUMBERS),
)
LOADED = st.tuples(st.sampled_from([b"a", b"b"]), BYTES, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
TERMS = st.tuples(NUMBERS, NUMBERS, st.booleans())
COMPARE = st.tuples(BYTES, st.integers(0, 4), st.integers(0, 3), st.one_of(NUMBERS, BYTES))
OPERATION = st.tuples(st.sampled_from([b"a", b"b"]), BYTES, NUMBERS).map(
    lambda one: [len(one[1]) % 3, *one]
)
LIKELY = st.one_of(
    st.lists(STEP, max_size=2),
    st.lists(LOADED, max_size=3),
    TERMS,
    st.tuples(st.lists(COMPARE, max_size=1), *[st.lists(OPERATION, max_size=2)] * 2),
    st.tuples(NUMBERS, NUMBERS, NUMBERS),
).map(msgspec.msgpack.encode)
BODIES = st.one_of(LIKELY, LIKELY, PACKED, st.binary(max_size=20), st.just(b""))
TYPES = st.sampled_from(
    [text for name, text in vars(OpType).items() if name.isupper()] + ["", "none"]
)
WRITERS = st.tuples(st.sampled_from(["", "w", "w/x", "/", "\x01"]), DIGITS, DIGITS).map(":".join)


def properties(writer: str, time: str, identity: str, lessor: str, bounds: str, kind: str) -> bytes:
    named = {
        CLIENT_PROPERTY: writer,
        KEY_PROPERTY: "?",
        IDENTITY_PROPERTY: identity,
        TIME_PROPERTY: time,
        LESSOR_PROPERTY: lessor,
        BOUNDS_PROPERTY: bounds,
        OP_TYPE_PROPERTY: kind,
    }
    text = "\x02".join(f"{name}\x01{value}" for name, value in named.items() if value)
    return text.encode()


PROPERTIES = st.one_of(
    st.builds(
        properties,
        st.one_of(st.just(""), WRITERS),
        st.one_of(st.just(""), DIGITS, st.just("9" * 15)),
        st.sampled_from(["", "me", "you", "\u00e9", "x" * 100]),
        st.sampled_from(["", "10.0.0.1", "/account", "\u00e9"]),
        st.sampled_from(["", "", "1"]),
        TYPES,
    ),
    st.binary(max_size=40),
)
RECORDS = st.lists(st.tuples(PROPERTIES, BODIES), max_size=12)


def rows(state: State) -> list[tuple[bytes, bytes]]:
    return list(state.table.items(b"", b"\xff"))


@settings(max_examples=200)
@given(RECORDS, st.integers(1, 5))
def test_no_record_raises_and_all_replicas_make_the_same_of_it(
    given_records: list[tuple[bytes, bytes]], batch: int
) -> None:
    applied, redone = State(MemoryTable({})), State(MemoryTable({}))
    records = [
        operation_record(position, 1000 + position, body, named)
        for position, (named, body) in enumerate(given_records)
    ]
    for record in records:
        applied.apply(record)
        applied.write()
    for at in range(0, len(records), batch):
        redone.redo(records[at : at + batch])
        redone.write()
    assert rows(applied) == rows(redone)
    assert applied.hash == redone.hash
    assert applied.meta.next == len(records)


def put(position: int, key: bytes, **writer: object) -> LogRecord:
    named = operation_properties(OpType.PUT, key=key, **writer)  # type: ignore[arg-type]
    return operation_record(position, 1000, encode_steps([Step(key, Action.PUT, b"v")]), named)


@pytest.mark.parametrize(
    "numbers",
    ["99999999999999999999:1", f"{SEQUENCE_MAX + 1}:1", "1:18446744073709551616", "\u0663:1"],
)
def test_a_number_that_no_session_keeps_is_no_writers(numbers: str) -> None:
    named = encode_properties({CLIENT_PROPERTY: f"w:{numbers}", OP_TYPE_PROPERTY: OpType.PUT})
    body = encode_steps([Step(b"key", Action.PUT, b"value")])
    state = State(MemoryTable({}))
    assert state.apply(operation_record(0, 1000, body, named)).status is Status.IGNORED
    assert state.apply(put(1, b"a", client="w", sequence=SEQUENCE_MAX, waits=1)).answer.done
    state.write()
    assert state.meta.entries == 1


@pytest.mark.parametrize(
    ("op_type", "body"),
    [
        (OpType.PUT, b"\x91\x97\xc4\x01k\x00\xc4\x01v\x00\xc0\xc0" + DEEP),
        (OpType.LOAD, b"\x91\x97\xc4\x01k\xc4\x01v\x01\x01\x01\x00" + DEEP),
        (OpType.BEGIN, b"\x94\x00\x01\x00" + DEEP),
        (OpType.LEASE, b"\x94\x01\x01\xc2" + DEEP),
        (OpType.TXN, b"\x94\x90\x90\x90" + DEEP),
        (OpType.TXN, b"\x93\x91\x95\xc4\x01k\x00\x00\x01" + DEEP + b"\x90\x90"),
        (OpType.TXN, b"\x93\x90\x91\x95\x00\xc4\x01k\xc4\x01v\x00" + DEEP + b"\x90"),
    ],
)
def test_fields_that_are_none_of_ours_are_no_operation(op_type: str, body: bytes) -> None:
    """A reader of them gets as deep as its stack lets it, and each replica has another one."""
    state = State(MemoryTable({}))
    record = operation_record(0, 1000, body, operation_properties(op_type))
    assert state.apply(record).status is Status.IGNORED
    state.redo([operation_record(1, 1000, body, operation_properties(op_type, client="w"))])
    assert state.meta.next == 2


class DefectError(Exception):
    """The error of a defect of ours."""


@pytest.mark.parametrize("is_redo", [False, True])
def test_a_record_that_cannot_be_applied_is_none_and_its_batch_stays(
    is_redo: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put_for_ever = Entries.put_for_ever

    def put_badly(self: Entries, key: bytes, value: bytes) -> int:
        version = put_for_ever(self, key, value)
        if key == b"bad":
            raise DefectError("x" * 10_000)
        return version

    records = [
        put(0, b"a", client="w", sequence=1, waits=1),
        put(1, b"bad", client="w", sequence=2, waits=1),
        put(2, b"b", client="w", sequence=3, waits=1),
        put(3, b"bad"),
        put(4, b"a", client="w", sequence=4, waits=1),
    ]
    nothing = {1, 3}
    expected = State(MemoryTable({}))
    for record in records:
        none = operation_record(record.position, 0, b"", b"")
        expected.apply(none if record.position in nothing else record)
    expected.write()
    monkeypatch.setattr(Entries, "put_for_ever", put_badly)
    state = State(MemoryTable({}))
    if is_redo:
        state.remember(rows=True)
        state.redo(records)
    else:
        statuses = [state.apply(record).status for record in records]
        assert [one is Status.IGNORED for one in statuses] == [
            record.position in nothing for record in records
        ]
    state.write()
    assert rows(state) == rows(expected)
    assert state.hash == expected.hash
    told = [record.getMessage() for record in caplog.records if "cannot be applied" in record.msg]
    assert len(told) == len(nothing)
    assert max(map(len, told)) < 500


def test_a_redo_passes_over_the_record_that_cannot_be_applied_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = OpenSessions.of

    def of_badly(self: OpenSessions, client: str, generation: int) -> Session:
        if client == "bad":
            raise DefectError("before anything of the record is noted")
        return of(self, client, generation)

    monkeypatch.setattr(OpenSessions, "of", of_badly)
    records = [
        put(0, b"a", client="w", sequence=1, waits=1),
        put(1, b"b", client="bad", sequence=1, waits=1),
        put(2, b"c", client="w", sequence=2, waits=1),
    ]
    for made in (records, records[1:]):
        applied, redone = State(MemoryTable({})), State(MemoryTable({}))
        for record in made:
            applied.apply(record)
        redone.redo(made)
        applied.write()
        redone.write()
        assert rows(applied) == rows(redone)
        assert applied.hash == redone.hash


def test_an_error_of_the_disk_makes_no_record_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Entries, key: bytes, value: bytes) -> int:
        raise OSError("the disk")

    state = State(MemoryTable({}))
    with monkeypatch.context() as patched:
        patched.setattr(Entries, "put_for_ever", fail)
        with pytest.raises(OSError, match="the disk"):
            state.apply(put(0, b"a"))
        state.roll_back()
    assert state.meta.next == 0
    assert state.apply(put(0, b"a")).status is Status.APPLIED
