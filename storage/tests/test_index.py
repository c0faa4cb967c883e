"""The index finds what has a key, in the bytes that Apache's does."""

import errno
import struct
from array import array
from itertools import islice
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from lanemq.storage import StoreUnwritable
from lanemq.storage.index._backlog import BACKLOG_MAX, Message
from lanemq.storage.index._index import (
    STEP_ENTRIES,
    TOGETHER,
    TURN_MAX,
    Index,
)
from lanemq.storage.index._index_file import key_hash
from lanemq.storage.index._key_hashes import key_hashes
from lanemq.storage.index._keys import KEY_BYTES, KEYS_MAX, has_key, keys_of
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.stores import MakeMessage, OpenSmall
from lanemq.wire.message import encode_properties

FOREVER_MS = 1 << 62


def new_index(files: SimulatedFiles, now_ms: int = 1_700_000_000_000) -> Index:
    return Index(
        files,
        Path("/store/index"),
        slots=5,
        entries=8,
        clock_ms=lambda: now_ms,
        on_full=lambda end_ms: None,
    )


def positions(index: Index, key: str, begin_ms: int, end_ms: int) -> list[int]:
    found = index.positions("T", key, begin_ms, end_ms)
    return [position for position in found if position is not None]


def test_a_key_that_repeats_is_one_entry_and_keys_are_so_many_only() -> None:
    files = SimulatedFiles()
    index = Index(
        files,
        Path("/store/index"),
        slots=500,
        entries=1000,
        clock_ms=lambda: 1_700_000_000_000,
        on_full=lambda end_ms: None,
    )
    repeated = encode_properties({"UNIQ_KEY": "U", "KEYS": "k " * 15_000 + "other"})
    many = encode_properties({"KEYS": " ".join(f"m{number}" for number in range(KEYS_MAX + 10))})
    index.submit([("T", 100, 1, 0, repeated), ("T", 200, 1, 0, many)])
    for key, expected in (
        ("k", [100]),
        ("other", [100]),
        ("U", [100]),
        ("m0", [200]),
        (f"m{KEYS_MAX - 1}", [200]),
        (f"m{KEYS_MAX}", []),
    ):
        assert positions(index, key, 0, FOREVER_MS) == expected
    (newest,) = index._index_files
    assert newest.next_entry - 1 == 3 + KEYS_MAX
    assert has_key(repeated, "k")
    assert has_key(repeated, "other")
    assert has_key(repeated, "U")
    assert not has_key(repeated, "k k")
    assert not has_key(repeated, "")
    assert has_key(many, f"m{KEYS_MAX + 9}")  # Apache's brokers have indexed it


@given(st.lists(st.sampled_from(["k", "kk", "k k", "", "é", "\ufffd"])), st.text("ké \ufffd"))
def test_has_key_says_what_the_list_of_keys_says(keys: list[str], key: str) -> None:
    properties = encode_properties({"UNIQ_KEY": "k-u", "KEYS": " ".join(keys)})
    assert has_key(properties, key) == (key in keys_of(properties))


def test_a_long_chain_is_passed_over_in_steps() -> None:
    index = Index(
        SimulatedFiles(),
        Path("/store/index"),
        slots=1,
        entries=5000,
        clock_ms=lambda: 1_700_000_000_000,
        on_full=lambda end_ms: None,
    )
    properties = encode_properties({"KEYS": "k"})
    index.submit(("T", number, 1_000_000_000, 0, properties) for number in range(4000))
    index.drain()
    steps = list(index.positions("T", "absent", 0, FOREVER_MS))
    assert set(steps) == {None}
    assert len(steps) == 4000 // STEP_ENTRIES


def test_the_hash_of_a_key_is_that_of_a_real_store() -> None:
    assert key_hash("BenchT2", "k0") == 1206397274
    assert key_hash("a", "b") >= 0


MESSAGES = st.lists(
    st.tuples(st.sampled_from(("k1", "k2", "k3 k1", "")), st.integers(0, 3), st.booleans()),
    max_size=40,
)


@settings(max_examples=80, deadline=None)
@given(MESSAGES, st.integers(0, 60_000), st.integers(0, 60_000))
def test_the_index_answers_as_a_list_of_all_messages_would(
    messages: list[tuple[str, int, bool]], begin_s: int, span_s: int
) -> None:
    files, now_ms, model = SimulatedFiles(), 1_000_000, list[tuple[int, int, set[str]]]()
    index = new_index(files)
    for number, (keys, gap_s, reopens) in enumerate(messages):
        now_ms += gap_s * 1000
        unique = f"U{number}"
        properties = encode_properties({"UNIQ_KEY": unique, "KEYS": keys})
        index.submit([("T", number * 100, now_ms, 0, properties)])
        model.append((number * 100, now_ms, {unique, *keys.split()}))
        if reopens:
            index.drain()
            index.write_out()
            index = new_index(files)
            index.load(None)
    begin_ms = 1_000_000 + begin_s
    for key in ("k1", "k2", "k3", "U0", "U7", "none"):
        found = positions(index, key, begin_ms, begin_ms + span_s)
        certain = [
            position
            for position, stored_ms, keys_of in model
            if key in keys_of and begin_ms <= stored_ms <= begin_ms + span_s
        ]
        assert found == sorted(set(found), reverse=True)
        assert set(certain) <= set(found)
        everything = positions(index, key, 0, FOREVER_MS)
        assert {position for position, _, keys_of in model if key in keys_of} <= set(everything)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 40), st.integers(0, 45))
def test_a_cut_keeps_what_lies_before_it_and_a_redo_restores_the_rest(count: int, cut: int) -> None:
    files = SimulatedFiles()

    def submit(index: Index, numbers: range) -> None:
        for number in numbers:
            properties = encode_properties({"UNIQ_KEY": f"U{number}", "KEYS": "all"})
            index.submit([("T", number * 100, 1_000_000 + number, 0, properties)])
        index.drain()
        index.write_out()

    def found(index: Index) -> list[int]:
        return positions(index, "all", 0, FOREVER_MS)

    submit(new_index(files), range(count))
    index = new_index(files)
    index.load(cut * 100)
    kept = range(min(count, cut))
    assert found(index) == [number * 100 for number in reversed(kept)]
    submit(index, range(min(cut, count), count))
    assert found(index) == [number * 100 for number in reversed(range(count))]
    again = new_index(files)
    again.load(None)
    assert found(again) == found(index)


async def test_the_bytes_are_those_of_the_format(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        puts = [store.put(make_message(keys="k0", unique_key=unique)) for unique in ("U0", "U1")]
        store.commit()
        await trio.sleep(2)
        (entry,) = files.entries(Path("/store/index"))
        data = files.read_all(Path("/store/index") / entry.name) or b""
    assert len(entry.name) == 17
    assert len(data) == 40 + 7 * 4 + 40 * 20
    first, second = puts
    header = struct.unpack_from(">qqqqii", data)
    times = first.store_timestamp_ms, second.store_timestamp_ms
    hashes = [key_hash("T", key) for key in ("U0", "k0", "U1", "k0")]
    assert header == (*times, 0, second.log_position, len({h % 7 for h in hashes}), 5)
    slots = struct.unpack_from(">7i", data, 40)
    assert slots[hashes[3] % 7] == 4
    entries = [struct.unpack_from(">iqii", data, 40 + 28 + 20 * n) for n in range(1, 5)]
    assert [entry[0] for entry in entries] == hashes
    assert [entry[1] for entry in entries] == [0, 0, second.log_position, second.log_position]
    assert entries[3][3] == 2


@pytest.mark.parametrize("count", [1, 64])
async def test_a_query_gives_the_newest_first_up_to_its_limits(
    open_small: OpenSmall, make_message: MakeMessage, count: int
) -> None:
    async with open_small(max_index_entries=300) as store:
        puts = []
        for _ in range(70):
            puts.append(store.put(make_message(keys="common other")))
            await trio.sleep(0.01)
        store.commit()
        result = store.query("T", "common", max_count=count, begin_ms=0, end_ms=FOREVER_MS)
        newest = [store.record_at(put.log_position) for put in reversed(puts)]
        assert result.records == newest[:count]
        assert result.last_update_position == puts[-1].log_position
        assert result.last_update_timestamp_ms == puts[-1].store_timestamp_ms
        late = store.query(
            "T",
            "common",
            max_count=99,
            begin_ms=puts[60].store_timestamp_ms,
            end_ms=puts[65].store_timestamp_ms,
        )
        assert late.records == newest[4:10]
        assert store.query("U", "common", max_count=9, begin_ms=0, end_ms=FOREVER_MS).records == []


async def test_a_store_without_an_index_finds_nothing_by_key(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small(index_enabled=False) as store:
        store.put(make_message(keys="k"))
        store.commit()
        assert store.query("T", "k", max_count=9, begin_ms=0, end_ms=FOREVER_MS).records == []
        await trio.sleep(3)
    assert not files.exists(Path("/store/index"))


async def test_a_long_backlog_is_bounded(
    open_small: OpenSmall, make_message: MakeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lanemq.storage.index._index.TOGETHER", 10)
    async with open_small() as store:
        for number in range(100):
            store.put(make_message(unique_key=f"U{number}"))
            store.commit()
            assert store.statistics().index_backlog <= 10
        for number in range(100):
            found = store.query("T", f"U{number}", max_count=9, begin_ms=0, end_ms=FOREVER_MS)
            assert len(found.records) == 1


def test_a_file_that_cannot_be_made_costs_no_key_of_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = SimulatedFiles()
    index = new_index(files)
    messages = [
        ("T", number * 100, 1_000_000, 0, encode_properties({"UNIQ_KEY": f"U{number}", "KEYS": k}))
        for number, k in enumerate(("a b", "c d", "e f"))  # a file has room for seven keys
    ]
    index.submit(messages)
    index.drain(6)  # each counts as its three keys

    def fails(path: Path, size_bytes: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "create", fails)
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                index.drain()
            assert index.backlog > 0
    index.drain()
    assert index.backlog == 0
    for key in ("U2", "e", "f"):
        assert positions(index, key, 0, FOREVER_MS) == [200]


async def test_messages_that_come_together_are_indexed_at_once(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small() as store:
        for number in range(TOGETHER):
            store.put(make_message(unique_key=f"U{number}"))
        store.commit()
        assert store.statistics().index_backlog == 0
        store.put(make_message(unique_key="alone"))
        store.commit()
        assert store.statistics().index_backlog == 1
        found = store.query("T", "alone", max_count=9, begin_ms=0, end_ms=FOREVER_MS)
        assert len(found.records) == 1


def test_long_keys_are_not_remembered() -> None:
    heads: dict[tuple[str, bytes], int] = {}
    keys = [(0, "T", b"k" * 30_000 + b"%08d" % number) for number in range(9)]
    assert key_hashes(keys, heads) == [key_hash("T", key.decode()) for _, _, key in keys]
    assert heads == {}


def many(number: int) -> list[Message]:
    return [("T", each, 1, 0, encode_properties({"KEYS": f"k{each}"})) for each in range(number)]


@pytest.fixture
def large_index(monkeypatch: pytest.MonkeyPatch) -> tuple[Index, list[int]]:
    """An index with room for all, and how many messages it took in each turn."""
    index = Index(
        SimulatedFiles(),
        Path("/store/index"),
        slots=500,
        entries=50_000,
        clock_ms=lambda: 1_700_000_000_000,
        on_full=lambda end_ms: None,
    )
    taken: list[int] = []
    drain = Index.drain

    def noted(self: Index, keys: int | None = None) -> None:
        before = self.backlog
        drain(self, keys)
        taken.append(before - self.backlog)

    monkeypatch.setattr(Index, "drain", noted)
    return index, taken


def test_messages_that_come_together_are_indexed_in_several_turns(
    large_index: tuple[Index, list[int]],
) -> None:
    """A batch of 4,096 with as many keys took 10 ms, and one that was too much 25 ms."""
    index, taken = large_index
    for _ in range(10):
        index.submit(many(4096))
    assert taken == [], "the task does it"
    assert index.waiting.many.is_set()
    assert index.waiting.is_behind
    for _ in index.drained():
        assert taken[-1] <= TURN_MAX // 2, "each counts as its key and its unique key"
    assert index.backlog == 0


def test_few_messages_are_indexed_as_they_come(large_index: tuple[Index, list[int]]) -> None:
    """So the index keeps up with senders that leave the background task no time."""
    index, taken = large_index
    index.submit(many(4096))
    for _ in range(8):
        index.submit(many(TOGETHER))
    assert taken == [TURN_MAX // 2] * 8


@pytest.mark.parametrize(
    ("keys", "turns"),
    [
        (" ".join(f"k{number}" for number in range(64)), 1),
        ("k" * 30_000, 30_000 // KEY_BYTES / 64),
        ("k " * 15_000, 15_000 / 64),
    ],
    ids=["many", "long", "often the same"],
)
def test_messages_that_wait_are_counted_by_what_their_keys_take(
    large_index: tuple[Index, list[int]], keys: str, turns: float
) -> None:
    """2,000 messages of 64 keys each took 130 ms of a turn: 500 messages of a turn, and 20,000
    that may wait, were no bound."""
    index, taken = large_index
    properties = encode_properties({"KEYS": keys})
    most = TURN_MAX / 64 / turns
    behind = BACKLOG_MAX / 64 / turns
    for begin in range(0, 1000, 200):
        index.submit([("T", begin + number, 1, 0, properties) for number in range(200)])
        assert index.waiting.is_behind or index.backlog <= behind
    assert taken == []
    for _ in index.drained():
        assert taken[-1] <= most + 1
        assert index.waiting.is_behind or index.backlog <= behind
    assert index.backlog == 0


async def test_senders_wait_until_the_index_is_no_longer_behind(
    large_index: tuple[Index, list[int]], autojump_clock: trio.testing.MockClock
) -> None:
    index, _ = large_index
    with trio.fail_after(1):
        await index.waiting.caught_up()
    while not index.waiting.is_behind:
        index.submit(many(4096))
    caught_up: list[int] = []

    async def wait() -> None:
        await index.waiting.caught_up()
        caught_up.append(index.backlog)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        assert index.waiting.many.is_set(), "the task is woken"
        for _ in index.drained():
            await trio.lowlevel.checkpoint()
    assert len(caught_up) == 3
    assert BACKLOG_MAX // 2 - TURN_MAX <= caught_up[0] <= BACKLOG_MAX // 2


async def test_senders_do_not_wait_for_an_index_that_cannot_be_written(
    large_index: tuple[Index, list[int]],
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Their messages are in the log."""
    index, _ = large_index
    for _ in range(10):
        index.submit(many(4096))

    def fails(path: Path, size_bytes: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SimulatedFiles, "create", lambda self, path, size: fails(path, size))
    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(index.waiting.caught_up)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(OSError, match="No space"):
                index.drain(TURN_MAX)
    assert index.waiting.is_behind


async def test_messages_are_refused_when_too_many_wait_for_the_index(
    open_small: OpenSmall, make_message: MakeMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many senders there are, each of which waits only for the commits before its own."""
    keys = " ".join(f"k{number}" for number in range(64))
    monkeypatch.setattr("lanemq.storage.messages._dispatcher.BACKLOG_FULL", 3000)
    async with open_small() as store:
        for _ in range(2):
            for _ in range(25):
                store.put(make_message(keys=keys))
            store.commit()
        with pytest.raises(StoreUnwritable, match="key index"):
            store.put(make_message(keys=keys))
        found = store.query("T", "k63", max_count=64, begin_ms=0, end_ms=FOREVER_MS)
        assert len(found.records) == 50
        store.put(make_message(keys=keys))
        store.commit()
        found = store.query("T", "k63", max_count=64, begin_ms=0, end_ms=FOREVER_MS)
        assert len(found.records) == 51


SLOTS, SLOTS_BEGIN, ENTRIES_BEGIN = 2_000_000, 40, 40 + 4 * 2_000_000


def spread(begin: int, count: int) -> list[Message]:
    """Messages whose keys lie in slots all over a file."""
    return [
        (
            "T",
            at,
            1000,
            0,
            encode_properties({"KEYS": " ".join(f"{at * 7919:x}{n}" for n in "abc")}),
        )
        for at in range(begin, begin + count)
    ]


def test_a_file_is_written_in_steps_between_which_more_may_be_indexed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All slots that changed in a second were written in one turn: 20 MB, in 30 ms."""
    files = SimulatedFiles()

    def opened() -> Index:
        return Index(
            files,
            Path("/store/index"),
            slots=SLOTS,
            entries=100_000,
            clock_ms=lambda: 1_700_000_000_000,
            on_full=lambda end_ms: None,
        )

    index = opened()
    index.submit(spread(1, 4000))
    index.drain()
    (path,) = (Path("/store/index") / entry.name for entry in files.entries(Path("/store/index")))
    file, written = index._index_files[0].file, [0]
    write = file.write

    def counted(at: int, data: bytes) -> None:
        written[-1] += len(data)
        write(at, data)

    monkeypatch.setattr(file, "write", counted)
    for step, _ in enumerate(index.write_steps()):
        data = files.read_all(path) or b""
        slots = array("i", data[SLOTS_BEGIN:ENTRIES_BEGIN])
        slots.byteswap()
        newest = ENTRIES_BEGIN + 20 * max(slots)
        assert any(data[newest : newest + 20]), "no slot names an entry that is not written"
        index.submit(spread(10_000 + 10 * step, 10))
        index.drain()
        written.append(0)
    assert max(written) <= 2 << 20
    index.write_out()
    index = opened()
    index.load(None)
    for at in (1, 4000, 10_000, 10_000 + 10 * step):
        assert positions(index, f"{at * 7919:x}c", 0, FOREVER_MS) == [at]


def test_a_search_indexes_in_steps_what_waits(large_index: tuple[Index, list[int]]) -> None:
    index, taken = large_index
    index.submit(many(4096))
    assert taken == []
    steps = list(index.positions("T", "k4000", 0, FOREVER_MS))
    assert (steps.count(None), steps[-1]) == (9, 4000)
    assert max(taken) == TURN_MAX // 2


def test_steps_end_though_others_index_what_waits_meanwhile(
    large_index: tuple[Index, list[int]],
) -> None:
    """Commits and searches do: the steps went on for good, with nothing left to index."""
    index, _ = large_index
    index.submit(many(4096))
    steps = [index.drained(), index.drained(), index.positions("T", "none", 0, FOREVER_MS)]
    for one in steps:
        next(one)
    index.drain()
    assert [list(islice(one, 100)) for one in steps] == [[], [], []]
