"""Tables are written while they change: in short turns, and without losing a change."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from lanemq.storage import ConfigTables, StoreConfig, StoreType
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.tables import _table
from lanemq.storage.tables._table import Table
from lanemq.storage.tables.rocks._backend import RocksBackend
from lanemq.testkit.encoders import wrap_encoder
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.stores import ROOT, OpenSmall
from lanemq.wire import fastjson
from lanemq.wire.bodies import SubscriptionGroupConfig, TopicConfig

CONFIG = ROOT / "config"
TOPICS = CONFIG / "topics.json"
GROUPS = CONFIG / "subscriptionGroup.json"
OFFSETS = CONFIG / "consumerOffset.json"
ENTRIES = 3000
STRINGS_OF_A_TURN = 3000
"""JSON strings that a turn may encode; a table of ``ENTRIES`` has many times as many."""
TURNS_MAX = 40
"""More than a write of the small tables below takes."""
NAMES = ("a", "b", "c")


class CountedEncoder:
    """An encoder that counts what it encodes."""

    def __init__(self, encoder: Any) -> None:  # noqa: ANN401 - the library's
        self._encoder = encoder
        self.count = 0

    def encode(self, value: object) -> bytes:
        self.count += 1
        encoded: bytes = self._encoder.encode(value)
        return encoded


class CountedTurns(trio.abc.Instrument):
    """The number of strings that each turn of the loop encodes."""

    def __init__(self, encoder: CountedEncoder) -> None:
        self._encoder = encoder
        self.counts: list[int] = []

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._encoder.count = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.counts.append(self._encoder.count)


@contextmanager
def counted_turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    encoder = wrap_encoder(monkeypatch, CountedEncoder)
    turns = CountedTurns(encoder)
    trio.lowlevel.add_instrument(turns)
    try:
        yield turns.counts
    finally:
        trio.lowlevel.remove_instrument(turns)


def put_one_of_each(tables: ConfigTables, number: int) -> None:
    tables.topics.put(TopicConfig(f"T{number}"), at_once=False)
    tables.groups.put(SubscriptionGroupConfig(f"g{number}"), at_once=False)
    tables.consumer_offsets.put(f"g{number}", f"T{number}", 0, number)


async def put_in_turns(tables: ConfigTables) -> None:
    """Put all entries, each in the turn of its peer, who pays for what it puts."""
    for number in range(ENTRIES):
        put_one_of_each(tables, number)
        await trio.lowlevel.checkpoint()


async def test_no_turn_of_the_loop_encodes_a_whole_table(
    open_small: OpenSmall, files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write_all(OFFSETS, b'{"groupTopicMap":{"g":[]},"offsetTable":{"no group":{0:1}}}')
    with counted_turns(monkeypatch) as turns:
        async with open_small() as store:
            await put_in_turns(store.tables)
            await trio.sleep(6)
            assert sum(turns) > 10 * ENTRIES
            assert max(turns) < STRINGS_OF_A_TURN
            assert b'"T2999":' in (files.read_all(TOPICS) or b"")
            assert b'"g2999":' in (files.read_all(GROUPS) or b"")
            assert b'"T2999@g2999":' in (files.read_all(OFFSETS) or b"")
            turns.clear()
            put_one_of_each(store.tables, 7)
            await trio.sleep(6)
            assert 0 < max(turns) < 100
            turns.clear()
            await put_in_turns(store.tables)
        assert max(turns) < STRINGS_OF_A_TURN  # at the close, too


def offsets_in(files: SimulatedFiles) -> dict[str, dict[str, int]]:
    members: Any = fastjson.loads(files.read_all(OFFSETS) or b"")
    table: dict[str, dict[str, int]] = members["offsetTable"]
    return table


async def test_offsets_that_change_faster_than_they_are_encoded_are_not_encoded_in_one_turn(
    open_small: OpenSmall, files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_table, "SLICE_BYTES", 1000)
    with counted_turns(monkeypatch) as turns:
        async with open_small() as store:
            offsets = store.tables.consumer_offsets

            async def change() -> None:
                while True:
                    for number in range(ENTRIES):
                        put_offset(store.tables, number, 1)
                        if number % 300 == 299:
                            await trio.lowlevel.checkpoint()

            for number in range(ENTRIES):
                put_offset(store.tables, number, 0)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(change)
                await offsets.persist_in_turns()
                nursery.cancel_scope.cancel()
            assert max(turns) < ENTRIES / 3
            table = offsets_in(files)
            assert len(table) == ENTRIES
            for number in range(ENTRIES):
                put_offset(store.tables, number, 2)
            await offsets.persist_in_turns()
            table = offsets_in(files)
            assert all(queues == {"0": 2} for queues in table.values())


def put_offset(tables: ConfigTables, number: int, value: int) -> None:
    tables.consumer_offsets.put(f"g{number}", "T", 0, value)


def put_group_of(tables: ConfigTables, number: int, value: int) -> None:
    tables.groups.put(SubscriptionGroupConfig(f"g{number}", retry_max_times=value), at_once=False)


def put_topic_of(tables: ConfigTables, number: int, value: int) -> None:
    tables.topics.put(TopicConfig(f"T{number}", write_queue_nums=value), at_once=False)


@contextmanager
def written_sizes(
    monkeypatch: pytest.MonkeyPatch, at_second: Callable[[], None] = lambda: None
) -> Iterator[list[int]]:
    """Count the rows of each write into RocksDB, and do something after the second one."""
    sizes: list[int] = []
    write = RocksBackend.write

    def counted(self: RocksBackend, source: Table, changed: Collection[str], **how: bool) -> None:
        sizes.append(len(changed))
        write(self, source, changed, **how)
        if len(sizes) == 2:
            at_second()

    with monkeypatch.context() as patch:
        patch.setattr(RocksBackend, "write", counted)
        yield sizes


def everything(tables: ConfigTables) -> list[object]:
    topics, groups = tables.topics, tables.groups
    return [
        tables.consumer_offsets.as_table(),
        {name: one.write_queue_nums for name, one in topics.configs.items()},
        topics.data_version.counter,
        {name: one.retry_max_times for name, one in groups.configs.items()},
        groups.data_version.counter,
    ]


PUTS = {"consumer_offsets": put_offset, "groups": put_group_of, "topics": put_topic_of}


@pytest.mark.parametrize("name", PUTS)
async def test_rows_go_into_rocksdb_in_slices_and_all_of_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = StoreConfig(root=tmp_path, store_type=StoreType.ROCKSDB)
    tables = ConfigTables(config, RealFiles(), lambda: 1)
    tables.load(after_crash=False)
    table, put = getattr(tables, name), PUTS[name]

    def change() -> None:  # one that is written already, and one that is not
        put(tables, 0, 70)
        put(tables, ENTRIES - 1, 71)

    with written_sizes(monkeypatch, change) as sizes:
        for number in range(ENTRIES):
            put(tables, number, number + 1)
        await table.persist_in_turns()
        await table.persist_in_turns()
    assert len(sizes) > 3
    assert max(sizes) <= ENTRIES // 4
    await tables.sync()
    tables.close()
    found = ConfigTables(config, RealFiles(), lambda: 1)
    found.load(after_crash=False)
    assert everything(found) == everything(tables)
    found.close()


@pytest.mark.parametrize("name", ["groups", "topics"])
async def test_what_an_operator_changes_does_not_wait_for_all_that_clients_did(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = StoreConfig(root=tmp_path, store_type=StoreType.ROCKSDB)
    tables = ConfigTables(config, RealFiles(), lambda: 1)
    tables.load(after_crash=False)
    for number in range(ENTRIES):
        PUTS[name](tables, number, 5)
    with written_sizes(monkeypatch) as sizes:
        tables.topics.put(TopicConfig("T0", write_queue_nums=9))
        tables.groups.put(SubscriptionGroupConfig("g0", retry_max_times=9))
    assert sizes == [1, 1]
    tables.close()  # as a kill leaves it: what was answered is there
    tables = ConfigTables(config, RealFiles(), lambda: 1)
    tables.load(after_crash=True)
    (topic, group) = tables.topics.get("T0"), tables.groups.get("g0")
    assert topic is not None
    assert topic.write_queue_nums == 9
    assert group is not None
    assert group.retry_max_times == 9
    tables.close()


# Changes at every boundary of a write.


def put_topic(tables: ConfigTables) -> None:
    tables.topics.put(TopicConfig("b", perm=2), at_once=False)


def put_new_topic(tables: ConfigTables) -> None:
    tables.topics.put(TopicConfig("new"), at_once=False)


def replace_topic(tables: ConfigTables) -> None:
    tables.topics.remove("b", at_once=False)
    tables.topics.put(TopicConfig("b", perm=4), at_once=False)


def remove_topic(tables: ConfigTables) -> None:
    tables.topics.remove("c", at_once=False)
    tables.consumer_offsets.remove_topic("c")


def commit(tables: ConfigTables) -> None:
    tables.consumer_offsets.put("a", "b", 1, 70)


def commit_anew(tables: ConfigTables) -> None:
    tables.consumer_offsets.put("a", "new", 0, 71)
    tables.consumer_offsets.put("new", "a", 0, 72)


def reset_group(tables: ConfigTables) -> None:
    tables.consumer_offsets.remove_group("a")
    tables.consumer_offsets.put("a", "d", 0, 73)
    tables.consumer_offsets.put("a", "b", 0, 74)


def remove_group(tables: ConfigTables) -> None:
    tables.consumer_offsets.remove_group("b")
    tables.groups.remove("b", at_once=False)


def put_group(tables: ConfigTables) -> None:
    tables.groups.put(SubscriptionGroupConfig("c", retry_max_times=3), at_once=False)


CHANGES = (
    put_topic,
    put_new_topic,
    replace_topic,
    remove_topic,
    commit,
    commit_anew,
    reset_group,
    remove_group,
    put_group,
)


def open_tables(files: SimulatedFiles) -> ConfigTables:
    tables = ConfigTables(StoreConfig(root=ROOT), files, lambda: 1)
    tables.load(after_crash=False)
    return tables


def some_tables(files: SimulatedFiles) -> ConfigTables:
    """Tables with changes to write, over files with something of their own."""
    files.write_all(
        OFFSETS, b'{"groupTopicMap":{"g":[]},"offsetTable":{"no group":{0:1},"x":null}}'
    )
    files.write_all(TOPICS, b'{"other":{"T":[1]},"topicConfigTable":{}}')
    tables = open_tables(files)
    for name in NAMES:
        tables.topics.put(TopicConfig(name), at_once=False)
        tables.groups.put(SubscriptionGroupConfig(name), at_once=False)
        for topic in NAMES:
            tables.consumer_offsets.put(name, topic, 0, 5)
    return tables


def assert_written(tables: ConfigTables, files: SimulatedFiles) -> None:
    """Check that the files have the tables, byte for byte."""
    offsets = tables.consumer_offsets
    topics_of = {group: list(offsets.topics_of(group)) for group in offsets.groups}
    expected: dict[Path, dict[str, object]] = {
        TOPICS: {
            "dataVersion": tables.topics.data_version,
            "other": {"T": [1]},
            "topicConfigTable": dict(tables.topics.configs),
        },
        GROUPS: {
            "dataVersion": tables.groups.data_version,
            "subscriptionGroupTable": dict(tables.groups.configs),
        },
        OFFSETS: {
            "dataVersion": offsets.data_version,
            "groupTopicMap": topics_of,
            "offsetTable": {"no group": {"0": 1}} | offsets.as_table(),
        },
    }
    for path, members in expected.items():
        assert files.read_all(path) == fastjson.dumps(members, pretty=True), path


class AtTurn(trio.abc.Instrument):
    """Does something after given turns of one task."""

    def __init__(self, actions: Mapping[int, Callable[[], None]]) -> None:
        self._actions = actions
        self.task: trio.lowlevel.Task | None = None
        self.turns = 0
        self.errors: list[Exception] = []

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.turns += 1
            try:
                self._actions.get(self.turns, lambda: None)()
            except Exception as error:  # trio would only log it
                self.errors.append(error)


async def write_all(tables: ConfigTables, at_turn: AtTurn) -> None:
    """Write the tables as the store's own task does."""
    at_turn.task = trio.lowlevel.current_task()
    trio.lowlevel.add_instrument(at_turn)
    try:
        for table in tables.of_users:
            await table.persist_in_turns()
        await tables.sync()
    finally:
        trio.lowlevel.remove_instrument(at_turn)
        if at_turn.errors:
            raise at_turn.errors[0]


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_table, "SLICE_BYTES", 200)


@pytest.mark.slow
@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_at_any_boundary_of_a_write_is_in_it_or_in_the_next_one(
    change: Callable[[ConfigTables], None],
) -> None:
    turn, last = 0, 1
    while turn <= last:
        turn += 1
        files = SimulatedFiles()
        tables = some_tables(files)
        at_turn = AtTurn({turn: partial(change, tables)})
        await write_all(tables, at_turn)
        last = at_turn.turns
        open_tables(files)  # whatever they have, they can be read
        await write_all(tables, AtTurn({}))
        assert_written(tables, files)
    assert 10 < last < TURNS_MAX


@pytest.mark.slow
@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("fails", [False, True])
async def test_what_is_written_at_once_during_a_write_is_not_replaced_by_older(
    fails: bool,
) -> None:
    turn, last = 0, 1
    while turn <= last:
        turn += 1
        files = SimulatedFiles()
        tables = some_tables(files)

        def change_at_once(tables: ConfigTables = tables, files: SimulatedFiles = files) -> None:
            for change in (put_topic, commit_anew, put_group):
                change(tables)
            tables.persist()
            assert_written(tables, files)
            if fails:
                files.space_bytes = 0

        at_turn = AtTurn({turn: change_at_once})
        try:
            await write_all(tables, at_turn)
        except OSError:
            assert fails
        last = max(last, at_turn.turns)
        found = open_tables(files)
        if turn <= at_turn.turns:
            assert found.topics.get("b") == TopicConfig("b", perm=2)
            assert found.consumer_offsets.get("new", "a", 0) == 72
            assert found.groups.configs["c"].retry_max_times == 3
        files.space_bytes = None
        await write_all(tables, AtTurn({}))
        assert_written(tables, files)
    assert last > 10


@pytest.mark.slow
@pytest.mark.usefixtures("small_slices")
async def test_what_a_write_in_progress_has_is_written_before_a_caller_that_waits_goes_on() -> None:
    """A caller may find its change taken by the store's task, but not in the file yet."""
    turn, last = 0, 1
    while turn <= last:
        turn += 1
        files = SimulatedFiles()
        tables = some_tables(files)

        def wait_for_all(tables: ConfigTables = tables, files: SimulatedFiles = files) -> None:
            tables.persist()
            assert_written(tables, files)

        at_turn = AtTurn({turn: wait_for_all})
        await write_all(tables, at_turn)
        last = at_turn.turns
        assert_written(tables, files)
    assert last > 10


@pytest.mark.slow
@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("cancels", [False, True])
async def test_a_write_that_fails_or_is_cancelled_at_any_boundary_leaves_all_to_the_next_one(
    cancels: bool,
) -> None:
    for turn in range(1, TURNS_MAX):
        files = SimulatedFiles()
        tables = some_tables(files)
        with trio.CancelScope() as scope:

            def fail(scope: trio.CancelScope = scope, files: SimulatedFiles = files) -> None:
                if cancels:
                    scope.cancel()
                else:
                    files.space_bytes = 0

            try:
                await write_all(tables, AtTurn({turn: fail}))
            except OSError:
                assert not cancels
        files.space_bytes = None
        await write_all(tables, AtTurn({}))
        assert_written(tables, files)


async def test_names_of_what_was_written_are_not_kept() -> None:
    tables = some_tables(SimulatedFiles())
    for number in range(100):
        put_one_of_each(tables, number)
    await write_all(tables, AtTurn({}))
    assert [table._changed for table in tables.of_users] == [{}, {}, {}]


async def test_two_writes_of_a_table_wait_for_each_other() -> None:
    files = SimulatedFiles()
    tables = some_tables(files)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            for table in tables.of_users:
                nursery.start_soon(table.persist_in_turns)
            await trio.lowlevel.checkpoint()
            commit_anew(tables)
            put_new_topic(tables)
    assert_written(tables, files)


ACTIONS = st.dictionaries(
    st.integers(1, TURNS_MAX),
    st.sampled_from([*CHANGES, ConfigTables.persist]),
    max_size=12,
)


@pytest.mark.slow
@given(actions=ACTIONS, later=st.lists(st.sampled_from(CHANGES), max_size=3))
def test_any_changes_at_any_boundaries_are_in_the_files_in_the_end(
    actions: dict[int, Callable[[ConfigTables], None]],
    later: list[Callable[[ConfigTables], None]],
) -> None:
    files = SimulatedFiles()

    async def simulate() -> None:
        tables = some_tables(files)
        bound = {turn: partial(action, tables) for turn, action in actions.items()}
        await write_all(tables, AtTurn(bound))
        open_tables(files)
        for change in later:
            change(tables)
        await write_all(tables, AtTurn({}))
        assert_written(tables, files)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_table, "SLICE_BYTES", 200)
        trio.run(simulate)
