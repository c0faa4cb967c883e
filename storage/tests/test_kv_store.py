"""Keys and values of a store: applied at dispatch, kept through kills and losses of power."""

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from trio.testing import MockClock

from lanemq.storage import (
    FlushMode,
    NewMessage,
    StartRefused,
    Store,
    StoreConfig,
    StoreUnwritable,
    open_store,
)
from lanemq.storage._config import KvEngine
from lanemq.storage._errors import StoreError
from lanemq.storage.cli import store as store_command
from lanemq.storage.kv import KvMeta
from lanemq.storage.kv._copy import read_rows
from lanemq.storage.kv._log import operation_properties
from lanemq.storage.kv._outcomes import Outcome, Status
from lanemq.storage.kv._reads import read_entry, read_page
from lanemq.storage.kv._state import State
from lanemq.storage.tools import verify_kv
from lanemq.testkit.storage.disk import Crash, SimulatedFiles
from lanemq.testkit.storage.stages import copy_store
from lanemq.testkit.storage.stores import HOST, MakeMessage, OpenSmall
from lanemq.wire.kv import Action, OpType, Step, encode_steps, kv_topic


def operation(
    key: bytes, value: bytes | None, namespace: str = "default", **writer: object
) -> NewMessage:
    """A put, or a delete where ``value`` is None."""
    op_type = OpType.DELETE if value is None else OpType.PUT
    step = Step(key, Action.DELETE) if value is None else Step(key, Action.PUT, value)
    return NewMessage(
        topic=kv_topic(namespace),
        queue_id=0,
        body=encode_steps([step]),
        properties=operation_properties(op_type, key=key, **writer),  # type: ignore[arg-type]
        born_timestamp_ms=1,
        born_host=HOST,
        store_host=HOST,
    )


async def put(store: Store, key: bytes, value: bytes | None, namespace: str = "default") -> None:
    assert store.kv is not None
    await store.kv.make(namespace)
    store.put(operation(key, value, namespace))
    store.commit()


def get(store: Store, key: bytes, namespace: str = "default") -> bytes | None:
    assert store.kv is not None
    entry = read_entry(store.kv.states[namespace], key)
    return entry.value if entry is not None else None


def everything(store: Store, namespace: str = "default") -> dict[bytes, bytes]:
    assert store.kv is not None
    state = store.kv.states.get(namespace)
    if state is None:
        return {}
    return {one.key: one.value for one in read_page(state, b"", cursor=None, limit=1000).entries}


def real_config(root: Path, engine: KvEngine = KvEngine.ROCKSDB) -> StoreConfig:
    return StoreConfig(
        root=root,
        commit_log_file_bytes=1 << 16,
        consume_queue_file_bytes=2000,
        max_hash_slots=7,
        max_index_entries=40,
        kv_engine=engine,
    )


ENGINES = pytest.mark.parametrize("engine", list(KvEngine))


@ENGINES
async def test_a_write_is_in_the_state_once_it_is_dispatched_and_after_a_clean_stop(
    tmp_path: Path, engine: KvEngine
) -> None:
    outcomes: list[tuple[str, int, Outcome]] = []
    async with open_store(real_config(tmp_path, engine)) as store:
        assert store.kv is not None
        store.kv.on_applied.append(
            lambda name, found: outcomes.extend((name, *one) for one in found)
        )
        await store.kv.make("default")
        store.put(operation(b"k", b"1"))
        store.put(operation(b"k", b"2"))
        assert outcomes == []
        store.commit()
        assert [(name, at) for name, at, _ in outcomes] == [("default", 0), ("default", 1)]
        assert [one.answer.results[0].version for _, _, one in outcomes] == [1, 2]
        await put(store, b"other", b"x", "jobs")
        store.put(replace_topic(operation(b"k", b"3"), "T"))
        store.commit()
    async with open_store(real_config(tmp_path, engine)) as store:
        assert everything(store) == {b"k": b"2"}
        assert everything(store, "jobs") == {b"other": b"x"}
        await put(store, b"k", None)
        assert everything(store) == {}


def replace_topic(message: NewMessage, topic: str) -> NewMessage:
    message.topic = topic
    return message


async def test_a_store_without_keys_makes_no_database(tmp_path: Path) -> None:
    async with open_store(real_config(tmp_path)) as store:
        store.put(replace_topic(operation(b"k", b"v"), "T"))
        store.commit()
    assert not (tmp_path / "kv").exists()


@ENGINES
@pytest.mark.slow
async def test_copies_of_a_running_store_are_whole_at_any_moment(
    tmp_path: Path, engine: KvEngine
) -> None:
    """A copy is what a kill leaves: nothing that only RocksDB's memory has is in it."""
    rng = random.Random(5)
    expected: dict[bytes, bytes] = {}
    async with open_store(real_config(tmp_path / "live", engine)) as store:
        assert store.kv is not None
        for number in range(300):
            key = b"k%d" % rng.randrange(20)
            value = None if rng.random() < 0.3 else b"v%d" % number
            await put(store, key, value)
            expected.pop(key, None)
            if value is not None:
                expected[key] = value
            if number % 40 == 0:
                await store.kv.flush()
            if number % 25 == 24:
                copy = tmp_path / f"copy-{number}"
                copy_store(tmp_path / "live", copy)
                async with open_store(real_config(copy, engine)) as killed:
                    assert everything(killed) == expected
                report = verify_kv(copy)
                assert report.is_sound
                (one,) = report.namespaces
                assert one.replayed_hash == one.hash == store.kv.states["default"].hash


async def test_keys_survive_when_all_their_log_files_are_cleaned(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    async with open_small(kv_engine=KvEngine.MEMORY, file_reserved_hours=0) as store:
        await put(store, b"k", b"kept")
        for _ in range(60):
            store.put(make_message(bytes(200)))
            store.commit()
        assert await store.clean() == 0, "what the state needs after a crash is not cleaned"
        assert store.kv is not None
        await store.kv.flush()
        assert await store.clean() > 0
        assert store.bounds(kv_topic("default"), 0) == (1, 1)
        assert get(store, b"k") == b"kept"
    async with open_small(kv_engine=KvEngine.MEMORY) as store:
        assert get(store, b"k") == b"kept"
        await put(store, b"k", b"new")
        assert get(store, b"k") == b"new"


@ENGINES
async def test_a_deleted_or_damaged_state_is_made_anew_from_the_log(
    tmp_path: Path, engine: KvEngine
) -> None:
    config = real_config(tmp_path, engine)
    async with open_store(config) as store:
        for number in range(20):
            await put(store, b"k%d" % number, b"v")
        before = everything(store)
    shutil.rmtree(tmp_path / "kv")
    async with open_store(config) as store:
        assert everything(store) == before
    damaged = "kv/memory.kv" if engine is KvEngine.MEMORY else "kv/rocksdb/CURRENT"
    (tmp_path / damaged).write_bytes(b"rubbish")
    async with open_store(config) as store:
        assert everything(store) == before


async def test_a_state_that_neither_disk_nor_log_have_is_not_served_as_if_it_were_empty(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small(kv_engine=KvEngine.MEMORY, file_reserved_hours=0) as store:
        await put(store, b"k", b"v")
        for _ in range(60):
            store.put(make_message(bytes(200)))
        store.commit()
        assert store.kv is not None
        await store.kv.flush()
        assert await store.clean() > 0
    files.remove(Path("/store/kv/memory.kv"))
    outcomes: list[Outcome] = []
    async with open_small(kv_engine=KvEngine.MEMORY) as store:
        assert store.kv is not None
        assert store.kv.states["default"].meta.lost
        store.kv.on_applied.append(lambda name, found: outcomes.extend(one for _, one in found))
        await put(store, b"k", b"v")
        assert [one.status for one in outcomes] == [Status.LOST]
    async with open_small(kv_engine=KvEngine.MEMORY) as store:
        assert store.kv is not None
        assert store.kv.states["default"].meta.lost


async def test_a_state_of_another_log_is_refused(tmp_path: Path) -> None:
    async with open_store(real_config(tmp_path / "a")) as store:
        for _ in range(3):
            await put(store, b"k", b"v")
    async with open_store(real_config(tmp_path / "b")) as store:
        await put(store, b"k", b"v")
    shutil.rmtree(tmp_path / "b/kv")
    shutil.copytree(tmp_path / "a/kv", tmp_path / "b/kv")
    with pytest.raises(StartRefused, match="have 3 records of their log in them, but the log has"):
        async with open_store(real_config(tmp_path / "b")):
            pass


@ENGINES
async def test_another_engine_does_not_begin_empty(tmp_path: Path, engine: KvEngine) -> None:
    async with open_store(real_config(tmp_path, engine)) as store:
        await put(store, b"k", b"v")
    other = next(one for one in KvEngine if one is not engine)
    with pytest.raises(StartRefused, match=f"were written with {engine.value}: set it back"):
        async with open_store(real_config(tmp_path, other)):
            pass
    async with open_store(real_config(tmp_path, engine)) as store:
        assert get(store, b"k") == b"v"


async def test_writes_that_an_engine_refuses_are_applied_later(tmp_path: Path) -> None:
    async with open_store(real_config(tmp_path)) as store:
        kv = store.kv
        assert kv is not None
        await put(store, b"k", b"1")
        behind: list[str] = []
        kv.on_behind.append(behind.append)
        table = kv.states["default"].table
        write = table.write

        def refuse(drops: object, rows: object) -> None:
            raise OSError(28, "No space left on device")

        table.write = refuse  # type: ignore[method-assign]
        state = kv.states["default"]
        state._batch.table = _Refusing(table)
        await put(store, b"k", b"2")
        await put(store, b"k", b"3")
        assert behind == ["default", "default"]
        assert get(store, b"k") == b"1"
        assert "could not be applied yet" in kv.why_refused("default")
        state._batch.table = table
        table.write = write  # type: ignore[method-assign]
        await kv.catch_up()
        assert get(store, b"k") == b"3"
        assert kv.why_refused("default") == ""


async def test_a_state_that_cannot_be_written_keeps_no_other_from_following_its_log(
    tmp_path: Path,
) -> None:
    async with open_store(real_config(tmp_path)) as store:
        kv = store.kv
        assert kv is not None
        tables = {}
        for name in ("bad", "good"):
            await put(store, b"k", b"1", name)
            tables[name] = kv.states[name].table
            kv.states[name]._batch.table = _Refusing(tables[name])
            await put(store, b"k", b"2", name)
        kv.states["good"]._batch.table = tables["good"]
        with pytest.raises(OSError, match="No space left"):
            await kv.catch_up()
        assert get(store, b"k", "good") == b"2"
        assert kv.why_refused("good") == ""
        assert kv.why_refused("bad")
        kv.states["bad"]._batch.table = tables["bad"]
        await kv.catch_up()
        assert get(store, b"k", "bad") == b"2"


class _Refusing:
    def __init__(self, table: object) -> None:
        self.get = table.get  # type: ignore[attr-defined]
        self.items = table.items  # type: ignore[attr-defined]
        self.some = table.some  # type: ignore[attr-defined]
        self.some_back = table.some_back  # type: ignore[attr-defined]
        self.snapshot = table.snapshot  # type: ignore[attr-defined]

    def write(self, drops: object, rows: object) -> None:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("flush", list(FlushMode))
@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 50))]
)
async def test_nothing_acknowledged_is_lost_by_a_crash_of_the_disk(
    autojump_clock: MockClock,
    small_config: StoreConfig,
    clock_ms: Callable[[], int],
    flush: FlushMode,
    seed: int,
) -> None:
    """The disk dies at a random operation, at a kill or a loss of power, ten times in a row."""
    rng = random.Random(seed)
    files = SimulatedFiles(now_s=lambda: clock_ms() / 1000, seed=seed)
    config = replace(
        small_config,
        flush=flush,
        kv_engine=KvEngine.MEMORY,
        queue_thorough_interval_s=0.5,
        flush_interval_s=0.1,
        flush_least_bytes=1,
    )
    history: list[tuple[bytes, bytes | None]] = []
    acknowledged = 0
    for _ in range(10):
        power = rng.random() < 0.5
        acknowledged = await _life(config, files, clock_ms, rng, history, acknowledged)
        files = files.reboot("power" if power else "kill")
        if power and flush is FlushMode.ASYNC:
            acknowledged = 0
    async with open_store(config, files=files, clock_ms=clock_ms) as store:
        _check_is_a_prefix(store, history, acknowledged)


async def _life(
    config: StoreConfig,
    files: SimulatedFiles,
    clock_ms: Callable[[], int],
    rng: random.Random,
    history: list[tuple[bytes, bytes | None]],
    acknowledged: int,
) -> int:
    """Live until the disk dies; returns how many writes are acknowledged."""
    files.crash_after = rng.randint(1, 120)
    try:
        async with open_store(config, files=files, clock_ms=clock_ms) as store:
            kept = _check_is_a_prefix(store, history, acknowledged)
            del history[kept:]
            acknowledged = kept
            for _ in range(rng.randint(1, 60)):
                key = b"k%d" % rng.randrange(6)
                value = None if rng.random() < 0.3 else b"v%d" % len(history)
                history.append((key, value))
                assert store.kv is not None
                await store.kv.make("default")
                end = store.put(operation(key, value)).end
                store.commit()
                if config.flush is FlushMode.SYNC:
                    await store.flushed(end)
                acknowledged = len(history)
                if rng.random() < 0.4:
                    await trio.sleep(rng.choice((0.0, 0.05, 0.4)))
    except StartRefused:
        raise
    except (Crash, StoreError, OSError):
        pass
    except BaseExceptionGroup as group:
        if group.split((Crash, StoreError, OSError))[1] is not None:
            raise
    return acknowledged


def _check_is_a_prefix(
    store: Store, history: list[tuple[bytes, bytes | None]], acknowledged: int
) -> int:
    """The state is that of the first so many writes, those acknowledged among them.

    Half of the last record may be there, which then is not an operation.
    """
    assert store.kv is not None
    state = store.kv.states.get("default")
    count = state.meta.next if state is not None else 0
    assert acknowledged <= count <= len(history)
    found = everything(store)
    if found != _entries_of(history[:count]) and count > acknowledged:
        history[count - 1] = (b"nothing", None)
    assert found == _entries_of(history[:count])
    return count


def _entries_of(history: list[tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
    expected: dict[bytes, bytes] = {}
    for key, value in history:
        expected.pop(key, None)
        if value is not None:
            expected[key] = value
    return expected


async def test_a_full_disk_refuses_writes_and_goes_on_reading(
    open_small: OpenSmall, files: SimulatedFiles
) -> None:
    async with open_small(kv_engine=KvEngine.MEMORY) as store:
        await put(store, b"k", b"1")
        files.space_bytes = 0
        with pytest.raises(StoreUnwritable):
            await put(store, b"k", bytes(3000))
        assert get(store, b"k") == b"1"
        files.space_bytes = None
        await trio.sleep(120)
        await put(store, b"k", b"2")
        assert get(store, b"k") == b"2"


# verify-kv


async def test_verify_kv_compares_the_state_with_a_replay(tmp_path: Path) -> None:
    async with open_store(real_config(tmp_path)) as store:
        for number in range(30):
            await put(store, b"k%d" % (number % 7), b"v%d" % number)
        assert store.kv is not None
        expected = store.kv.states["default"].hash
    run = CliRunner().invoke(store_command, ["verify-kv", str(tmp_path)])
    assert run.exit_code == 0, run.output
    assert f"30 records, hash {expected}, equal to a replay of the log" in run.output


async def test_verify_kv_finds_a_state_that_is_not_what_the_log_makes(tmp_path: Path) -> None:
    async with open_store(real_config(tmp_path)) as store:
        await put(store, b"k", b"v")
        assert store.kv is not None
        table = store.kv.states["default"].table
        row = table.get(b"ek")
        assert row is not None
        table.write([], {b"ek": row + b"!"})
    run = CliRunner().invoke(store_command, ["verify-kv", str(tmp_path)])
    assert run.exit_code == 1
    assert "its rows are not those that its hash was made of" in run.output


async def test_verify_kv_without_keys_says_so(tmp_path: Path) -> None:
    async with open_store(real_config(tmp_path)):
        pass
    run = CliRunner().invoke(store_command, ["verify-kv", str(tmp_path)])
    assert (run.exit_code, run.output) == (0, "there are no keys and values\n")


async def test_a_state_that_does_not_fit_its_queue_holds_nobody_else_up(tmp_path: Path) -> None:
    """Messages go on being dispatched; the namespace takes no writes until it fits again."""
    async with open_store(real_config(tmp_path)) as store:
        kv = store.kv
        assert kv is not None
        await put(store, b"k", b"1")
        behind: list[str] = []
        kv.on_behind.append(behind.append)
        state = kv.states["default"]
        state.meta.next += 5
        store.put(operation(b"k", b"2"))
        store.put(replace_topic(operation(b"k", b"x"), "T"))
        store.commit()
        assert behind == ["default"]
        assert store.bounds("T", 0) == (0, 1)
        assert kv.why_refused("default")
        state.meta.next -= 5
        await kv.catch_up()
        assert get(store, b"k") == b"2"


async def test_a_read_that_fails_in_the_middle_of_a_record_leaves_no_half_of_it(
    tmp_path: Path,
) -> None:
    async with open_store(real_config(tmp_path)) as store:
        kv = store.kv
        assert kv is not None
        await put(store, b"k", b"1")
        state = kv.states["default"]
        table = state.table
        state._batch.table = _Unreadable(table)
        await put(store, b"k", b"2")
        assert kv.is_behind
        state._batch.table = table
        await kv.catch_up()
        assert get(store, b"k") == b"2"
        assert state.meta.next == 2


class _Unreadable:
    def __init__(self, table: object) -> None:
        self.write = table.write  # type: ignore[attr-defined]
        self.items = table.items  # type: ignore[attr-defined]
        self.some = table.some  # type: ignore[attr-defined]
        self.some_back = table.some_back  # type: ignore[attr-defined]
        self.snapshot = table.snapshot  # type: ignore[attr-defined]

    def get(self, key: bytes) -> bytes | None:
        raise OSError(5, "Input/output error")


async def test_a_copy_never_names_the_queue_that_another_broker_had(tmp_path: Path) -> None:
    """Here it may be another partition's, which a crash before the next row would give it up to."""
    async with open_store(real_config(tmp_path)) as store:
        assert store.kv is not None
        for key in (b"a", b"b"):
            await put(store, key, b"1")
        source = store.kv.states["default"]
        rows = read_rows(source, None)
        place = KvMeta(partition=1, queue_id=7, shift=30, first=source.meta.next)
        async with store.kv.kept.copying("copy") as copy:
            copy.put(rows.rows)
            copy.finish(place)
        engine = store.kv.kept.engine
        assert engine is not None
        meta = State(engine.table("copy")).meta
        assert (meta.queue_id, meta.shift, meta.first) == (7, 30, source.meta.next)
        assert meta.entry_sum == source.meta.entry_sum
