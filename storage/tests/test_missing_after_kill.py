"""Queue files that are gone from a store that was killed: nothing becomes unreadable unseen."""

import json
import logging
import shutil
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from lanemq.storage._store import Store
from lanemq.storage.tools import repair_store
from lanemq.testkit.storage.stages import (
    Stand,
    assert_files_agree,
    assert_rows_agree,
    new_message,
)
from lanemq.wire.bodies import TopicConfig

MESSAGES = 120
"""In two queues: six files each, by 200 bytes."""


def watermarks(stand: Stand) -> Path:
    return stand.root / "config/dispatchWatermark.json"


async def noted(store: Store) -> None:
    """Make all of the store durable, and note it, as happens once a minute."""
    await store._parts.housekeeping.flush_all()


async def kill(stand: Stand, stage: int, *, behind: int = 3) -> None:
    """Fill a store, and kill it after a watermark and a few messages more."""
    to = stand.root.parent / "killed"
    async with stand.open(stage) as store:
        for topic in ("T", "U"):
            store.tables.topics.put(TopicConfig(topic, 2, 2))
        stand.put(store, MESSAGES)
        for number in range(400):  # so many that a start looks at none of T's
            store.put(new_message(number, topic="U"))
        store.commit()
        await noted(store)
        stand.put(store, behind, first=MESSAGES)
        stand.kill(to)


def remove(stand: Stand, which: str) -> None:
    directory = stand.root / "consumequeue/T/0"
    paths = sorted(directory.iterdir())
    removed = {"all": paths, "first": paths[:1], "middle": paths[2:3], "last": paths[-1:]}
    removed["next to last"] = paths[-2:-1]
    for path in removed.get(which, []):
        path.unlink()
    if which == "directory":
        shutil.rmtree(directory)


def check(stand: Stand, store: Store, *, behind: int = 3) -> None:
    total = MESSAGES + behind
    assert stand.bodies(store) == list(range(0, total, 2))
    assert stand.bodies(store, queue_id=1) == list(range(1, total, 2))
    placed = store.put(new_message(total, queue_id=0))
    assert placed.queue_offset == len(range(0, total, 2))
    store.commit()


@pytest.mark.slow
@pytest.mark.parametrize("which", ["directory", "all", "first", "middle", "next to last", "last"])
@pytest.mark.parametrize(("stage", "then"), [(1, 1), (2, 2), (1, 2), (2, 3), (1, 3), (2, 1)])
async def test_missing_files_of_a_killed_store_are_made_anew_and_that_is_said(
    tmp_path: Path, which: str, stage: int, then: int, caplog: pytest.LogCaptureFixture
) -> None:
    stand = Stand(tmp_path / "store")
    await kill(stand, stage)
    remove(stand, which)
    async with stand.open(then) as store:
        check(stand, store)
        await store.in_rocksdb(store.max_position) if then == 2 else None
    assert "queue 0 of T: files with" in caplog.text
    if then != 3:
        assert_files_agree(stand.config(then))
    if then != 1:
        assert_rows_agree(stand.config(then))


@pytest.mark.parametrize("stage", [1, 2])
async def test_where_nothing_is_missing_the_log_is_not_gone_over(
    tmp_path: Path, stage: int, caplog: pytest.LogCaptureFixture
) -> None:
    stand = Stand(tmp_path / "store")
    await kill(stand, stage)
    async with stand.open(stage) as store:
        check(stand, store)
    assert not [line for line in caplog.records if line.levelno >= logging.WARNING]


async def test_a_deleted_topic_is_not_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stand = Stand(tmp_path / "store")
    async with stand.open(1) as store:
        stand.put(store, MESSAGES)
        stand.put(store, 10, topic="U")
        await noted(store)
        store.delete_topic("T")
        stand.kill(tmp_path / "killed")
    async with stand.open(1) as store:
        assert store.bounds("T", 0) == (0, 0)
        assert stand.bodies(store, topic="U") == list(range(0, 10, 2))
    assert "may be missing" not in caplog.text


async def test_a_queue_none_of_whose_messages_is_left_gives_no_offset_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stand = Stand(tmp_path / "store")
    await kill(stand, 1, behind=0)
    for path in sorted((stand.root / "commitlog").iterdir())[:-2]:
        path.unlink()
    remove(stand, "directory")
    async with stand.open(1) as store:
        assert store.bounds("T", 0) == (MESSAGES // 2, MESSAGES // 2)
        assert store.put(new_message(0)).queue_offset == MESSAGES // 2
        store.commit()
    assert f"it continues at {MESSAGES // 2}" in caplog.text


async def test_files_that_expired_before_the_kill_are_not_missed(
    tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    stand = Stand(tmp_path / "store", file_reserved_hours=0, delete_pause_s=0)
    async with stand.open(1, first_clean_s=0.1, clean_interval_s=0.1) as store:
        stand.put(store, 2000)
        await noted(store)
        store.delete_expired_files()
        await trio.sleep(1)  # of the simulated clock: less than from watermark to watermark
        stand.kill(tmp_path / "killed")
    async with stand.open(1) as store:
        assert store.bounds("T", 0)[0] > 0
    assert "may be missing" not in caplog.text


async def test_another_brokers_killed_store_misses_a_queue_that_groups_have_read(
    tmp_path: Path,
) -> None:
    stand = Stand(tmp_path / "store")
    await kill(stand, 1, behind=0)
    watermarks(stand).unlink()
    offsets = {"offsetTable": {"T@g": {"0": 5}}, "dataVersion": {}}
    (stand.root / "config/consumerOffset.json").write_text(json.dumps(offsets))
    remove(stand, "directory")
    async with stand.open(1) as store:
        check(stand, store, behind=0)


async def test_a_repaired_store_has_no_bounds_of_before(tmp_path: Path) -> None:
    stand = Stand(tmp_path / "store")
    await kill(stand, 1)
    remove(stand, "directory")
    repair_store(stand.root, jobs=1)
    assert not json.loads(watermarks(stand).read_bytes())["bounds"]
    async with stand.open(1) as store:
        check(stand, store)
