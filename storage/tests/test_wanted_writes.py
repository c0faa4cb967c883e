"""Topics and groups are written beside the loop, once for all who wait, and nobody waits less."""

import errno
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from lanemq.storage import ConfigTables, StoreConfig, StoreType
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.tables.rocks._database import ConfigDatabase
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.stores import OpenSmall
from lanemq.wire.bodies import TopicConfig

TOPICS = Path("/store/config/topics.json")


@final
class Gate:
    """Holds writes of a table until it is opened, once for each."""

    def __init__(self, write: Callable[[Any], Any]) -> None:
        self._write = write
        self.begun = 0
        self.is_full = False
        self._places = trio.Semaphore(0)

    async def __call__(self, source: object) -> None:
        self.begun += 1
        if self.is_full:
            await self._places.acquire()
            raise OSError(errno.ENOSPC, "No space left on device")
        # The content is that of the moment when the write begins.
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, source)
            await self._places.acquire()

    def open(self) -> None:
        self._places.release()


async def test_those_who_wait_share_the_next_write(
    open_small: OpenSmall, files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_small() as store, trio.open_nursery() as nursery:
        tables = store.tables
        gate = Gate(tables.topics.backend.write_off_loop)  # type: ignore[attr-defined]
        monkeypatch.setattr(tables.topics.backend, "write_off_loop", gate)
        written: list[str] = []

        async def create(name: str) -> None:
            tables.topics.put(TopicConfig(name), at_once=False)
            tables.want(tables.topics, name)
            await tables.write_wanted()
            assert f'"{name}"'.encode() in (files.read_all(TOPICS) or b"")
            written.append(name)

        nursery.start_soon(create, "first")
        await wait_all_tasks_blocked()
        for number in range(20):
            nursery.start_soon(create, f"T{number}")
        await wait_all_tasks_blocked()
        assert (gate.begun, written) == (1, [])
        assert tables.is_unwritten(tables.topics, "first")
        gate.open()
        await wait_all_tasks_blocked()
        assert (gate.begun, written) == (2, ["first"])
        assert tables.is_unwritten(tables.topics, "T0")
        gate.open()
        await wait_all_tasks_blocked()
        assert (gate.begun, len(written)) == (2, 21)
        assert not tables.is_unwritten(tables.topics, "T0")
        monkeypatch.undo()


async def test_a_write_that_fails_is_refused_to_all_who_shared_it_and_to_no_other(
    open_small: OpenSmall, files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_small() as store, trio.open_nursery() as nursery:
        tables = store.tables
        gate = Gate(tables.topics.backend.write_off_loop)  # type: ignore[attr-defined]
        monkeypatch.setattr(tables.topics.backend, "write_off_loop", gate)
        refused: list[int | None] = []
        for name in "ab":
            tables.topics.put(TopicConfig(name), at_once=False)
            tables.want(tables.topics, name)

        async def wait() -> None:
            try:
                await tables.write_wanted()
            except OSError as error:
                refused.append(error.errno)

        gate.is_full = True
        for _ in range(3):
            nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        gate.open()
        await wait_all_tasks_blocked()
        assert (gate.begun, refused) == (1, [errno.ENOSPC] * 3)
        assert tables.is_unwritten(tables.topics, "a")
        gate.is_full = False
        gate.open()
        await tables.write_wanted()
        assert b'"a"' in (files.read_all(TOPICS) or b"")
        assert not tables.is_unwritten(tables.topics, "b")
        monkeypatch.undo()


async def test_who_is_cancelled_leaves_the_write_to_the_next(
    open_small: OpenSmall, files: SimulatedFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_small() as store, trio.open_nursery() as nursery:
        tables = store.tables
        gate = Gate(tables.topics.backend.write_off_loop)  # type: ignore[attr-defined]
        monkeypatch.setattr(tables.topics.backend, "write_off_loop", gate)
        scope = trio.CancelScope()

        async def given_up() -> None:
            with scope:
                tables.topics.put(TopicConfig("a"), at_once=False)
                tables.want(tables.topics, "a")
                await tables.write_wanted()

        nursery.start_soon(given_up)
        await wait_all_tasks_blocked()
        tables.topics.put(TopicConfig("b"), at_once=False)
        tables.want(tables.topics, "b")
        scope.cancel()
        gate.open()
        await tables.write_wanted()
        assert gate.begun == 2
        assert b'"a"' in (files.read_all(TOPICS) or b"")
        assert b'"b"' in (files.read_all(TOPICS) or b"")
        monkeypatch.undo()


@final
class Syncs:
    """Holds the threads that wait for the disk until they may go on, and notes who waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.in_loop = self.begun = 0
        self.is_full = False
        self._places = threading.Semaphore(0)
        self._loop = threading.current_thread()
        self._write, self._sync = ConfigDatabase.write, ConfigDatabase.sync
        monkeypatch.setattr(
            ConfigDatabase, "write", lambda *given, **how: self.write(*given, **how)
        )
        monkeypatch.setattr(ConfigDatabase, "sync", lambda database: self.sync(database))

    def write(self, database: ConfigDatabase, *changes: Any, sync: bool) -> None:  # noqa: ANN401
        self.in_loop += sync
        self._write(database, *changes, sync=sync)

    def sync(self, database: ConfigDatabase) -> None:
        self.in_loop += threading.current_thread() is self._loop
        self.begun += 1
        self._places.acquire()
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._sync(database)

    def let_on(self, count: int = 1) -> None:
        self._places.release(count)

    async def until(self, begun: int) -> None:
        while self.begun < begun:
            await trio.lowlevel.checkpoint()


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[ConfigTables]:
    """Tables in RocksDB."""
    config = StoreConfig(root=tmp_path, store_type=StoreType.ROCKSDB)
    tables = ConfigTables(config, RealFiles(), lambda: 1)
    tables.load(after_crash=False)
    yield tables
    tables.close()


async def test_rows_are_durable_before_anybody_is_answered_and_the_loop_waits_for_no_disk(
    rows: ConfigTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs, written = Syncs(monkeypatch), list[str]()

    async def create(name: str) -> None:
        rows.topics.put(TopicConfig(name), at_once=False)
        rows.want(rows.topics, name)
        await rows.write_wanted()
        written.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(create, "first")
        await syncs.until(1)
        for number in range(20):
            nursery.start_soon(create, f"T{number}")
        nursery.start_soon(rows.topics.persist_in_turns)  # the store's own task comes in between
        await wait_all_tasks_blocked()
        assert (syncs.begun, written) == (1, [])
        syncs.let_on()
        await syncs.until(2)
        await wait_all_tasks_blocked()
        assert written in ([], ["first"])
        assert rows.is_unwritten(rows.topics, "T0")
        syncs.let_on(2)
    assert len(written) == 21
    assert syncs.begun in (2, 3)
    assert not rows.is_unwritten(rows.topics, "T0")
    assert syncs.in_loop == 0


async def test_a_sync_that_goes_on_is_not_taken_for_that_of_what_is_written_meanwhile(
    rows: ConfigTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs, over = Syncs(monkeypatch), list[str]()
    rows.topics.put(TopicConfig("a"), at_once=False)
    rows.topics.persist(may_wait=False)

    async def sync(name: str) -> None:
        await rows.topics.backend.sync()
        over.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync, "first")
        await syncs.until(1)
        nursery.start_soon(sync, "of the same")
        rows.topics.put(TopicConfig("b"), at_once=False)
        rows.topics.persist(may_wait=False)
        nursery.start_soon(sync, "of more")
        await wait_all_tasks_blocked()
        assert over == []  # also who asks only for what the first one is for
        syncs.let_on()
        await syncs.until(2)
        await wait_all_tasks_blocked()
        assert over == ["first"]
        syncs.let_on()
    assert (syncs.begun, len(over)) == (2, 3)


async def test_rows_that_could_not_be_made_durable_are_wanted_until_they_are(
    rows: ConfigTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = Syncs(monkeypatch)
    syncs.is_full = True
    syncs.let_on(3)
    rows.topics.put(TopicConfig("a"), at_once=False)
    rows.want(rows.topics, "a")
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            await rows.write_wanted()
        assert rows.is_unwritten(rows.topics, "a")
    syncs.is_full = False
    await rows.write_wanted()
    assert syncs.begun == 3
    assert not rows.is_unwritten(rows.topics, "a")
    assert syncs.in_loop == 0
