"""Ranges of keys, now and at every revision that is known, against copies of a dict."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.kv import _history, _past, _ranges
from lanemq.storage.kv._log import operation_properties, operation_record
from lanemq.storage.kv._outcomes import LogRecord, Outcome, Status
from lanemq.storage.kv._past import Compacted
from lanemq.storage.kv._ranges import RangeRead, Span
from lanemq.storage.kv._reads import WatchedKeys, read_changes, read_page
from lanemq.storage.kv._state import State
from lanemq.storage.kv.engines._engine import Engine
from lanemq.storage.kv.engines._memory import MemoryEngine
from lanemq.storage.kv.engines._rocks import RocksEngine
from lanemq.storage.kv.engines._rows import CHANGE, after_prefix
from lanemq.testkit.storage.kv import hurry
from lanemq.wire.kv import (
    Action,
    Compare,
    Entry,
    LoadedEntry,
    Operation,
    OpType,
    RangePage,
    Step,
    Txn,
    encode_compact,
    encode_load,
    encode_steps,
    encode_txn,
)

KEYS = [b"a", b"a\0", b"ab", b"b", b"\xff", b"\xff\xff"]
BOUNDS = [b"", b"a", b"a\0", b"aa", b"b", b"c", b"\xff", b"\xff\xff\xff"]


def open_memory(directory: Path) -> Engine:
    return MemoryEngine(RealFiles(), directory)


ENGINES = pytest.mark.parametrize("open_engine", [open_memory, RocksEngine])


class Log:
    """A log in a list, which makes a state, with the entries at each of its revisions."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.records: list[LogRecord] = []
        self.time_ms = 1_000
        self.at = [list[Entry]()]

    def bounds(self) -> tuple[int, int]:
        return 0, len(self.records)

    def read(self, position: int, count: int) -> list[LogRecord]:
        return self.records[position : position + count]

    def time_of(self, position: int) -> int:
        return self.records[position].time_ms

    def place(self, position: int) -> int | None:
        return None

    def do(self, op_type: str, body: bytes) -> Outcome:
        identity = "" if self.records else "one"
        record = operation_record(
            len(self.records),
            self.time_ms,
            body,
            operation_properties(op_type, identity=identity),
        )
        self.records.append(record)
        outcome = self.state.apply(record)
        self.state.write()
        page = read_page(self.state, b"", cursor=None, limit=1000)
        self.at.append(page.entries)
        return outcome

    def put(self, key: bytes, value: bytes, ttl_ms: int = 0) -> None:
        self.do(OpType.PUT, encode_steps([Step(key, Action.PUT, value, ttl_ms)]))


@contextmanager
def new_log(open_engine: Callable[[Path], Engine]) -> Iterator[Log]:
    with tempfile.TemporaryDirectory() as directory:
        engine = open_engine(Path(directory))
        yield Log(State(engine.table("default")))
        engine.close()


def pages(log: Log, span: Span, revision: int | None) -> Iterator[RangePage]:
    while True:
        read, page = RangeRead(span, revision), None
        for _ in range(10_000):
            page = read.page(log.state, log, until_s=0.0)
            if page is not None:
                break
        assert page is not None
        yield page
        if page.cursor is None:
            return
        changed = {"end": page.cursor} if span.reverse else {"begin": page.cursor}
        span = span._replace(**changed)  # type: ignore[arg-type]


def whole(log: Log, span: Span, revision: int | None) -> list[Entry]:
    return [entry for page in pages(log, span, revision) for entry in page.entries]


keys = st.sampled_from(KEYS)
values = st.binary(max_size=2)
deeds = st.one_of(
    st.tuples(st.just("put"), keys, values, st.sampled_from([0, 0, 0, 5])),
    st.tuples(st.just("delete"), keys, values, st.just(0)),
    st.tuples(st.just("batch"), keys, values, st.just(0)),
    st.tuples(st.just("txn"), keys, values, st.sampled_from([0, 5])),
    st.tuples(st.just("load"), keys, values, st.integers(1, 9)),
    st.tuples(st.just("later"), keys, values, st.integers(1, 9)),
    st.tuples(st.just("clear"), keys, values, st.just(0)),
)


def do(log: Log, deed: tuple[str, bytes, bytes, int]) -> None:
    kind, key, value, number = deed
    match kind:
        case "put":
            log.put(key, value, number)
        case "delete":
            log.do(OpType.DELETE, encode_steps([Step(key, Action.DELETE)]))
        case "batch":
            steps = [Step(one, Action.PUT, value + one) for one in KEYS[:3]]
            log.do(OpType.BATCH, encode_steps(steps))
        case "txn":
            then = [Operation.put(key, b"then", ttl_ms=number), Operation.delete(KEYS[-1])]
            otherwise = [Operation.put(key, value)]
            txn = Txn([Compare.exists(KEYS[0])], then, otherwise if key != KEYS[-1] else [])
            log.do(OpType.TXN, encode_txn(txn if key != KEYS[-1] else Txn([], [], otherwise)))
        case "load":
            log.do(OpType.LOAD, encode_load([LoadedEntry(key, value, number, 1, 2)]))
        case "later":
            log.time_ms += number
            log.do(OpType.TICK, b"")
        case "clear":
            log.do(OpType.CLEAR, b"")


@ENGINES
@settings(max_examples=40, deadline=None)
@given(
    history=st.lists(deeds, max_size=25),
    begin=st.sampled_from(BOUNDS),
    end=st.sampled_from([None, *BOUNDS]),
    reverse=st.booleans(),
    limit=st.integers(1, 4),
    keys_only=st.booleans(),
    noted_bytes=st.sampled_from([300, 1000, 4 << 20]),
    in_haste=st.booleans(),
)
def test_every_revision_that_is_known_is_read_as_it_was(
    open_engine: Callable[[Path], Engine],
    history: list[tuple[str, bytes, bytes, int]],
    begin: bytes,
    end: bytes | None,
    reverse: bool,
    limit: int,
    keys_only: bool,
    noted_bytes: int,
    in_haste: bool,
) -> None:
    """Page by page, however short a turn is and however little may be noted."""
    span = Span(begin, end, reverse=reverse, limit=limit, keys_only=keys_only)
    with new_log(open_engine) as log, pytest.MonkeyPatch.context() as patch:
        for deed in history:
            do(log, deed)
        patch.setattr(_past, "NOTED_BYTES_MAX", noted_bytes)
        if in_haste:
            hurry(patch)
            patch.setattr(_past, "LOOKS_AT_CLOCK", 1)
            patch.setattr(_ranges, "LOOKS_AT_CLOCK", 1)
        else:
            patch.setattr(_past, "perf_counter", lambda: -1.0)
            patch.setattr(_ranges, "perf_counter", lambda: -1.0)
        known = log.state.meta.changes_from
        for revision in [*range(known, len(log.at)), None]:
            there = [
                entry
                for entry in log.at[len(log.records) if revision is None else revision]
                if begin <= entry.key and (end is None or entry.key < end)
            ]
            counted = list(pages(log, span._replace(count_only=True), revision))
            assert sum(page.count for page in counted) == len(there)
            if keys_only:
                there = [Entry(one.key, b"", *one_head(one)) for one in there]
            expected = there[::-1] if reverse else there
            assert whole(log, span, revision) == expected, revision
        for revision in range(known):
            with pytest.raises(Compacted):
                whole(log, span, revision)


def one_head(entry: Entry) -> tuple[int, int, int, int, int]:
    return (
        entry.version,
        entry.modified,
        entry.create_time_ms,
        entry.update_time_ms,
        entry.expires_ms,
    )


@ENGINES
@settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(deeds, st.integers(0, 30)), max_size=30), st.integers(1, 4))
def test_a_compaction_forgets_what_was_before_and_nothing_else(
    open_engine: Callable[[Path], Engine],
    history: list[tuple[str, bytes, bytes, int] | int],
    slice_size: int,
) -> None:
    """A redo makes the same rows, and a few records later no row of a change is left over."""
    with new_log(open_engine) as log, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_history, "CHANGES_SLICE", slice_size)
        log.do(OpType.TICK, b"")
        for deed in history:
            if isinstance(deed, int):
                log.do(OpType.COMPACT, encode_compact(deed))
            else:
                do(log, deed)
        again = State(MemoryEngine(RealFiles(), Path("unused")).table("default"))
        again.redo(log.records)
        again.write()
        rows = dict(log.state.table.items(b"", b"\xff"))
        assert dict(again.table.items(b"", b"\xff")) == rows
        meta = log.state.meta
        # Which of two values a transaction put is told by a change that may be forgotten.
        has_txn = any(not isinstance(deed, int) and deed[0] == "txn" for deed in history)
        for revision in range(meta.changes_from, len(log.at)):
            with suppress(Compacted) if has_txn else nullcontext():
                assert whole(log, Span(b"", None), revision) == log.at[revision]
        for _ in range(100):
            log.do(OpType.TICK, b"")
        left = list(log.state.table.items(CHANGE, after_prefix(CHANGE)))
        assert log.state.meta.stale_from == -1
        assert len(left) == log.state.meta.changes
        assert all(int.from_bytes(key[1:9], "big") >= meta.changes_from for key, _ in left)


@pytest.mark.parametrize("revision", [2, 3, 1 << 40])
def test_a_compaction_of_the_future_forgets_nothing(revision: int) -> None:
    with new_log(open_memory) as log:
        log.put(b"a", b"1")
        assert log.do(OpType.COMPACT, encode_compact(revision)).status is Status.AHEAD
        log.put(b"a", b"2")
        assert log.state.meta.changes_from == 0
        assert whole(log, Span(b"", None), 1)[0].value == b"1"


def test_a_compaction_to_what_is_forgotten_already_says_so() -> None:
    with new_log(open_memory) as log:
        log.put(b"a", b"1")
        log.put(b"a", b"2")
        assert log.do(OpType.COMPACT, encode_compact(2)).status is Status.APPLIED
        assert log.do(OpType.COMPACT, encode_compact(1)).status is Status.COMPACTED
        assert log.do(OpType.COMPACT, encode_compact(2)).status is Status.APPLIED
        assert log.state.meta.changes_from == 2


@ENGINES
def test_back_over_many_rows_that_are_gone_ends_a_turn_and_finds_all(
    open_engine: Callable[[Path], Engine],
) -> None:
    with new_log(open_engine) as log:
        log.put(b"aa", b"first")
        names = [b"b%05d" % number for number in range(30_000)]
        for action in (Action.PUT, Action.DELETE):
            rows = {b"e" + name: None if action is Action.DELETE else b"x" for name in names}
            log.state.table.write([], rows)
        log.put(b"c", b"last")
        found = whole(log, Span(b"", None, reverse=True), None)
        assert [entry.value for entry in found] == [b"last", b"first"]


@ENGINES
@pytest.mark.parametrize("reverse", [False, True])
def test_entries_that_came_later_are_passed_over_in_several_turns(
    open_engine: Callable[[Path], Engine], reverse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_log(open_engine) as log:
        log.put(b"a" if reverse else b"z", b"then")
        for group in range(10):
            steps = [Step(b"k%d%03d" % (group, each), Action.PUT, b"later") for each in range(99)]
            log.do(OpType.BATCH, encode_steps(steps))
        hurry(monkeypatch)
        monkeypatch.setattr(_past, "perf_counter", lambda: -1.0)
        read, turns = RangeRead(Span(b"", None, reverse=reverse), 1), 1
        while (page := read.page(log.state, log, until_s=0.0)) is None:
            turns += 1
        assert [entry.value for entry in page.entries] == [b"then"]
        assert turns > 100


def test_rows_of_an_earlier_version_tell_no_past() -> None:
    """Changes that came after them are read as ever; earlier revisions are not known."""
    with new_log(open_memory) as log:
        log.put(b"a", b"1")
        log.put(b"a", b"2")
        table = log.state.table
        old = {
            key: b"\x94" + row[1 : row.rindex(b"\xc4")]
            for key, row in table.items(CHANGE, after_prefix(CHANGE))
        }
        table.write([], dict(old))
        log.put(b"a", b"3")
        assert whole(log, Span(b"", None), 2)[0].value == b"2"
        with pytest.raises(Compacted, match="begins behind revision 2"):
            whole(log, Span(b"", None), 1)
        asked = WatchedKeys(b"a", None, previous=True)
        found = read_changes(log.state, log, asked, position=0, index=0, limit=9)
        assert found is not None
        assert [one.previous and one.previous.value for one in found.changes] == [None, None, b"2"]


def test_a_log_of_an_earlier_version_makes_the_same_state() -> None:
    """The hash was computed before there were transactions and a history."""
    with new_log(open_memory) as log:
        for number in range(40):
            do(log, ("put", KEYS[number % 6], b"%d" % number, 5 * (number % 3)))
            do(log, ("batch", b"a", b"%d" % number, 0))
            do(log, ("delete", KEYS[number % 4], b"", 0))
            do(log, ("load", KEYS[number % 5], b"l", number + 1))
            do(log, ("later", b"", b"", number % 7))
        assert log.state.hash == HASH_BEFORE


HASH_BEFORE = "a6ff41397ff3ba87d4a931c42cb5238582361f57a9bf874e358bc12aca3be443"
