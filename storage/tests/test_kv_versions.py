"""Versions of a namespace never come again, and a namespace that was deleted does nothing more."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.kv._log import operation_properties, operation_record
from lanemq.storage.kv._outcomes import LogRecord, Outcome, Status
from lanemq.storage.kv._reads import read_entry
from lanemq.storage.kv._state import State
from lanemq.storage.kv.engines._memory import MemoryEngine
from lanemq.storage.kv.engines._rows import META, Meta, decode_meta, encode_row
from lanemq.wire.kv import (
    Action,
    Beginning,
    LoadedEntry,
    OpType,
    Step,
    encode_beginning,
    encode_drop,
    encode_load,
    encode_steps,
)

KEYS = [b"a", b"b", b"c"]


class Log:
    """A state, and the records that made it."""

    def __init__(self, root: Path) -> None:
        self.engine = MemoryEngine(RealFiles(), root)
        self.state = State(self.engine.table("default"))
        self.records: list[LogRecord] = []
        self.time_ms = 1_000_000

    def do(self, op_type: str, body: bytes, identity: str = "") -> Outcome:
        properties = operation_properties(op_type, identity=identity)
        position = self.state.meta.next
        record = operation_record(position, self.time_ms, body, properties)
        self.records.append(record)
        outcome = self.state.apply(record)
        self.state.write()
        return outcome

    def begin(self, identity: str = "one") -> Outcome:
        return self.do(OpType.TICK, b"", identity)

    def put(self, key: bytes, value: bytes = b"", *, ttl_ms: int = 0) -> int:
        step = Step(key, Action.PUT, value, ttl_ms=ttl_ms)
        return self.do(OpType.PUT, encode_steps([step])).answer.results[0].version

    def delete(self, key: bytes) -> Outcome:
        return self.do(OpType.DELETE, encode_steps([Step(key, Action.DELETE)]))

    def load(self, *entries: LoadedEntry) -> None:
        self.do(OpType.LOAD, encode_load(entries))

    def version(self, key: bytes) -> int:
        entry = read_entry(self.state, key)
        return 0 if entry is None else entry.version


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


keys = st.sampled_from(KEYS)
actions = st.one_of(
    st.tuples(st.just("put"), keys, st.sampled_from([0, 0, 10])),
    st.tuples(st.just("put"), keys, st.sampled_from([0, 0, 10])),
    st.tuples(st.just("delete"), keys, st.just(0)),
    st.tuples(st.just("load"), keys, st.integers(1, 12)),
    st.tuples(st.just("clear"), keys, st.just(0)),
    st.tuples(st.just("later"), keys, st.just(20)),
)


@given(before=st.lists(actions, max_size=15), after=st.lists(actions, max_size=40))
@settings(max_examples=60, deadline=None)
def test_no_version_comes_again_from_the_identity_on(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[str, bytes, int]],
    after: list[tuple[str, bytes, int]],
) -> None:
    """Whatever removes an entry: what has its key later has a greater version than it had."""
    log = Log(tmp_path_factory.mktemp("kv"))
    for action in before:
        if action[0] != "load":  # which may have any version, as earlier versions took it
            do(log, action)
    highest = {key: log.version(key) for key in KEYS}
    log.begin()
    for number, action in enumerate(after):
        was = {key: log.version(key) for key in KEYS}
        do(log, action, number)
        for key in KEYS:
            version = log.version(key)
            if action[0] != "load":  # it restores the version that a snapshot has
                assert version in (0, was[key]) or version > highest[key]
            highest[key] = max(highest[key], version)


def do(log: Log, action: tuple[str, bytes, int], number: int = 0) -> None:
    kind, key, given_number = action
    match kind:
        case "put":
            log.put(key, b"%d" % number, ttl_ms=given_number)
        case "delete":
            log.delete(key)
        case "load":
            log.load(LoadedEntry(key, b"loaded %d" % number, given_number, 1, 2))
        case "clear":
            log.do(OpType.CLEAR, b"")
        case "later":
            log.time_ms += given_number
            log.do(OpType.TICK, b"")


def test_the_first_put_has_version_1_and_one_after_a_delete_a_new_one(log: Log) -> None:
    log.begin()
    assert [log.put(b"a"), log.put(b"a"), log.put(b"b")] == [1, 2, 1]
    log.delete(b"a")
    assert log.put(b"a") == 3
    stale = Step(b"a", Action.PUT, b"late", if_version=1)
    assert not log.do(OpType.CAS, encode_steps([stale])).answer.done


def test_an_import_restores_versions_and_what_follows_has_greater_ones(log: Log) -> None:
    log.begin()
    log.load(LoadedEntry(b"a", b"v", 7, 1, 2), LoadedEntry(b"b", b"v", 3, 1, 2))
    assert (log.version(b"a"), log.version(b"b")) == (7, 3)
    log.load(LoadedEntry(b"a", b"v", 7, 1, 2))  # a load is repeated after an error
    assert log.version(b"a") == 7
    log.put(b"a")
    log.do(OpType.CLEAR, b"")
    log.load(LoadedEntry(b"a", b"v", 7, 1, 2), LoadedEntry(b"b", b"v", 9, 1, 2))
    assert (log.version(b"a"), log.version(b"b")) == (7, 9)
    assert log.put(b"a") == 10, "8 was another value's"
    assert log.put(b"b") == 10


def test_a_store_of_an_earlier_version_goes_on_with_greater_versions(tmp_path: Path) -> None:
    """Its row lacks the fields of today, and its log has no identity until a broker writes it."""
    log = Log(tmp_path)
    for _ in range(3):
        log.put(b"a")
    log.delete(b"a")
    assert log.put(b"a") == 1  # as it was, so that its log gives the state that it gave
    meta = log.state.meta
    names = Meta.__struct_fields__
    fields = [getattr(meta, name) for name in names[: names.index("identity")]]
    table = log.engine.table("default")
    old = encode_row(fields)  # type: ignore[arg-type]
    assert decode_meta(old) == msgspec.structs.replace(meta, has_heads=False)
    table.write([], {META: old})
    log.state = State(table)
    hash_before = log.state.hash
    log.begin()
    assert log.state.hash != hash_before
    assert log.put(b"a") == 2
    log.delete(b"a")
    assert log.put(b"a") > 5
    again = Log(tmp_path / "again")
    for record in log.records:
        again.state.apply(record)
    again.state.write()
    assert again.state.hash == log.state.hash


@pytest.mark.parametrize("is_identified", [False, True])
@pytest.mark.parametrize("op_type", [OpType.CLEAR, OpType.IMPORT])
def test_what_follows_a_loss_has_greater_versions_than_what_was_lost(
    log: Log, op_type: str, is_identified: bool
) -> None:
    if is_identified:
        log.begin()
    log.put(b"a")
    log.state.follow(log.state.meta, lost_at=20)  # others have put it up to 20 times since
    assert log.do(op_type, b"", "one").answer.done
    assert log.state.meta.identity == "one"
    assert log.put(b"a") > 20


def test_the_first_identity_counts(log: Log) -> None:
    log.begin("one")
    log.begin("two")
    assert log.state.meta.identity == "one"


def test_a_deleted_namespace_does_nothing_more(log: Log) -> None:
    log.begin("one")
    log.put(b"a")
    assert not log.do(OpType.DROP, encode_drop("two")).answer.done
    assert log.version(b"a") == 1
    assert log.do(OpType.DROP, encode_drop("one")).answer.done
    assert (log.version(b"a"), log.state.meta.entries, log.state.meta.deleted) == (0, 0, True)
    for op_type, body in [
        (OpType.PUT, encode_steps([Step(b"a", Action.PUT)])),
        (OpType.CLEAR, b""),
        (OpType.LOAD, encode_load([LoadedEntry(b"a", b"", 1, 1, 1)])),
        (OpType.BEGIN, encode_beginning(Beginning(0, 1, 0))),
        (OpType.DROP, encode_drop("one")),
    ]:
        assert log.do(op_type, body).status is Status.DELETED
    assert log.state.meta.identity == "one"
    assert log.version(b"a") == 0


@pytest.mark.parametrize("body", [b"\xff", b"a b", b"x" * 65])
def test_a_drop_without_an_identity_is_no_operation(log: Log, body: bytes) -> None:
    assert log.do(OpType.DROP, body).status is Status.IGNORED
