"""Stores with very many queues: no turn of the event loop depends on how many there are."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from lanemq.storage import Store, StoreConfig, open_store
from lanemq.storage.checkpoint._watermarks import WatermarkFile
from lanemq.storage.disk._real_files import RealFile, RealFiles
from lanemq.storage.queues.files._consume_queue import FileConsumeQueue
from lanemq.testkit.storage.disk import Crash, SimulatedFiles
from lanemq.testkit.storage.stores import ROOT, MakeMessage, OpenSmall

TOPICS, QUEUES = 300, 10
TURN_QUEUES = 1000
"""Queues that a turn may look at."""
WATERMARKS = ROOT / "config/dispatchWatermark.json"


def name(number: int) -> str:
    return f"topic-{number:04d}"


def fill(store: Store, make_message: MakeMessage, *, topics: int = TOPICS) -> None:
    for number in range(topics * QUEUES):
        message = make_message(topic=name(number // QUEUES), queue_id=number % QUEUES)
        store.put(message)
    store.commit()


class Turns(trio.abc.Instrument):
    """The number of calls of ``counted`` functions in the turn that had most of them."""

    def __init__(self) -> None:
        self.most = self.now = self.total = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.now = 0

    def count(self) -> None:
        self.now += 1
        self.total += 1
        self.most = max(self.most, self.now)

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: object, **options: object) -> object:
            self.count()
            return function(*args, **options)

        return call

    @contextmanager
    def watching(self) -> Iterator[None]:
        trio.lowlevel.add_instrument(self)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(self)


async def unsynced(*_: object) -> None:
    await trio.lowlevel.checkpoint()


@pytest.fixture
async def many(
    tmp_path: Path,
    small_config: StoreConfig,
    make_message: MakeMessage,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Store]:
    """A store with 3,000 queues on the real disk, whose syncs take no time."""

    monkeypatch.setattr(RealFile, "sync", unsynced)
    monkeypatch.setattr(RealFiles, "sync_path", unsynced)
    config = replace(
        small_config,
        root=tmp_path / "many",
        commit_log_file_bytes=1 << 20,
        index_enabled=False,
        queue_flush_interval_s=1e9,
    )
    async with open_store(config) as store:
        fill(store, make_message)
        yield store


@pytest.mark.slow
async def test_watermarks_of_many_queues_are_taken_in_short_turns(
    many: Store, monkeypatch: pytest.MonkeyPatch, make_message: MakeMessage
) -> None:
    turns = Turns()
    begin = vars(FileConsumeQueue)["file_begin"].fget
    monkeypatch.setattr(FileConsumeQueue, "file_begin", property(turns.counted(begin)))
    with turns.watching():
        await many._parts.housekeeping.flush_all()
    assert turns.total >= TOPICS * QUEUES
    assert turns.most <= TURN_QUEUES
    assert bounds_of(many) == {
        name(topic): dict.fromkeys(range(QUEUES), (0, 1)) for topic in range(TOPICS)
    }
    turns.total = 0
    many.put(make_message(topic=name(7), queue_id=3))
    many.commit()
    with turns.watching():
        await many._parts.housekeeping.flush_all()
    assert turns.total <= 2  # those that changed
    assert bounds_of(many)[name(7)][3] == (0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["write_out", "sync", "clean"])
async def test_no_turn_writes_syncs_or_cleans_all_queues(
    many: Store, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    turns = Turns()
    monkeypatch.setattr(FileConsumeQueue, what, turns.counted(getattr(FileConsumeQueue, what)))
    with turns.watching():
        for _ in range(2):  # the second has nothing to do
            await many._parts.housekeeping.flush_all()
        await many._parts.file_queues.clean(0)
    assert turns.total >= TOPICS * QUEUES
    assert turns.most <= TURN_QUEUES


def bounds_of(store: Store) -> dict[str, dict[int, tuple[int, int]]]:
    found = WatermarkFile(RealFiles(), store.config.root).load()
    assert found is not None
    return found.bounds


async def test_bounds_are_as_of_the_watermark_while_messages_come(
    open_small: OpenSmall,
    files: SimulatedFiles,
    make_message: MakeMessage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a start after a kill takes queues for shorter than they were, and makes them again."""
    monkeypatch.setattr("lanemq.storage.queues.files._bounds.SLICE", 4)
    monkeypatch.setattr("lanemq.storage.queues._queues.WRITES_A_TURN", 3)
    async with open_small(queue_flush_interval_s=1e9) as store:
        fill(store, make_message, topics=3)

        async def send(topics: int) -> None:
            for number in range(40):
                message = make_message(topic=name(number % topics), queue_id=number % QUEUES)
                store.put(message)
                store.commit()
                await trio.lowlevel.checkpoint()

        for turn in range(4):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send, 3 + turn)  # one of them is new
                await store._parts.housekeeping.flush_all()
            found = WatermarkFile(files, ROOT).load()
            assert found is not None
            assert found.files < store.max_position  # some came too late for it
            noted = 0
            for topic, queue_id in store.queues():
                begin, end = found.bounds.get(topic, {}).get(queue_id, (0, 0))
                assert begin == 0
                noted += end
                if end:
                    assert store.units(topic, queue_id, end - 1, 1)[0].log_position < found.files
                after = store.units(topic, queue_id, end, 1)
                assert not after or after[0].log_position >= found.files
            assert noted > turn * 40


# Deletions


@pytest.mark.slow
async def test_a_deletion_writes_as_much_as_there_is_to_say(
    open_small: OpenSmall,
    files: SimulatedFiles,
    make_message: MakeMessage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = list[int]()
    write_all = files.write_all

    def counted(path: Path, data: bytes) -> None:
        written.append(len(data))
        write_all(path, data)

    monkeypatch.setattr(files, "write_all", counted)
    async with open_small(queue_flush_interval_s=1e9) as store:
        fill(store, make_message, topics=10)
        await store._parts.housekeeping.flush_all()
        assert len(files.read_all(WATERMARKS) or b"") > 1000
        written.clear()
        assert store.delete_topic(name(3)) == QUEUES
        assert sum(written) < 200


async def deleted_and_killed(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles, crash_after: int
) -> bool:
    """Delete a topic, make it again and note it; the process is killed at an operation on the
    way."""
    try:
        async with open_small(files, queue_flush_interval_s=1e9) as store:
            fill(store, make_message, topics=3)
            await store._parts.housekeeping.flush_all()
            files.crash_after = crash_after
            store.delete_topic(name(1))
            store.put(make_message(b"second life", topic=name(1)))
            store.commit()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(store._parts.housekeeping.flush_all)
                await wait_all_tasks_blocked()
                store.delete_topic(name(2))  # while the watermarks are written
            files.kill()
            await trio.lowlevel.checkpoint()
    except (Crash, BaseExceptionGroup):
        return True
    return False


@pytest.mark.slow
async def test_a_deletion_survives_a_kill_at_any_operation(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    deleted, crash_after, kills = False, 0, 0
    while True:
        disk = SimulatedFiles(seed=crash_after)
        await deleted_and_killed(open_small, make_message, disk, crash_after)
        ended = disk.crash_after is not None and disk.crash_after >= 0
        again = disk.reboot("kill")
        async with open_small(again) as store:
            for queue_id in range(QUEUES):  # the others are as they were
                assert store.bounds(name(0), queue_id) == (0, 1)
            first = store.get(name(1), 0, 0, max_count=1)
            old = store.bounds(name(1), 5) == (0, 1)
            assert old or store.bounds(name(1), 5) == (0, 0)
            deleted |= not old
            assert old or b"second life" in b"".join(first.records) or not first.records
            second = store.bounds(name(2), 0)
            assert second in ((0, 1), (0, 0))
            if ended:
                assert not old
                assert b"second life" in b"".join(first.records)
                assert second == (0, 0)
                break
        crash_after += 1
        kills += 1
    assert deleted
    assert kills > 20


@pytest.mark.slow
async def test_a_deletion_means_nothing_beside_watermarks_that_an_older_version_wrote(
    open_small: OpenSmall, files: SimulatedFiles, make_message: MakeMessage
) -> None:
    deletions = ROOT / "config/deletedTopics.json"
    async with open_small(queue_flush_interval_s=1e9) as store:
        fill(store, make_message, topics=2)
        await store._parts.housekeeping.flush_all()
        store.delete_topic(name(1))
        noted = files.read_all(deletions)
    assert noted is not None
    assert not files.exists(deletions)  # it is among the watermarks by now
    older = msgspec.json.decode(files.read_all(WATERMARKS) or b"")
    assert older.pop("serial") > 1
    assert name(1) in older["deleted"]
    older["deleted"] = {}
    files.write_all(WATERMARKS, msgspec.json.encode(older))
    files.write_all(deletions, noted)
    found = WatermarkFile(files, ROOT).load()
    assert found is not None
    assert found.deleted == {}


WIDE, REMOVED = 300, ROOT / "consumequeue.removed"
TURN_FILES = 64
"""Files and directories that a turn may remove."""


async def fill_wide(store: Store, make_message: MakeMessage) -> None:
    for number in range(WIDE):
        store.put(make_message(topic="wide", queue_id=number))
    store.commit()
    await store._parts.housekeeping.flush_all()


async def test_no_turn_removes_the_files_of_all_queues_of_a_topic(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns()
    monkeypatch.setattr(files, "remove", turns.counted(files.remove))
    async with open_small(queue_flush_interval_s=1e9) as store:
        await fill_wide(store, make_message)
        turns.total = 0
        with turns.watching():
            assert store.delete_topic("wide") == WIDE
            assert store.bounds("wide", 7) == (0, 0)
            store.put(make_message(b"second life", topic="wide", queue_id=7))
            store.commit()
            await store._parts.housekeeping.flush_all()
            await wait_all_tasks_blocked()
        assert turns.total >= 2 * WIDE
        assert turns.most <= TURN_FILES
        assert not files.exists(REMOVED)
        assert [entry.name for entry in files.entries(ROOT / "consumequeue/wide")] == ["7"]
        assert b"second life" in b"".join(store.get("wide", 7, 0, max_count=9).records)


async def test_files_of_a_deleted_topic_that_a_kill_left_are_removed_after_the_next_start(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    with pytest.RaisesGroup(Crash, flatten_subgroups=True, allow_unwrapped=True):
        async with open_small(queue_flush_interval_s=1e9) as store:
            await fill_wide(store, make_message)
            files.write_all(ROOT / "consumequeue/wide/9/notes.txt", b"not ours")
            store.delete_topic("wide")
            files.kill()
            await trio.lowlevel.checkpoint()
    again = files.reboot("kill")
    assert len(again.entries(REMOVED / "0")) == WIDE
    async with open_small(again) as store:
        assert store.bounds("wide", 7) == (0, 0)
        await wait_all_tasks_blocked()
        assert [entry.name for entry in again.entries(REMOVED / "0")] == ["9"]
        assert again.exists(REMOVED / "0/9/notes.txt")
