"""Deletions of topics whose queues are in RocksDB: one step, which a kill cannot cut in two."""

from pathlib import Path

import pytest

from lanemq.storage.queues.rocks._batch import Batch
from lanemq.testkit.calls import calls_of_this_thread
from lanemq.testkit.storage.stages import Stand, assert_rows_agree

QUEUES = 200
CALLS_MAX = 100
"""Calls of a deletion: less than one for each queue."""


@pytest.mark.parametrize("stage", [2, 3])
async def test_a_topic_of_any_number_of_queues_is_removed_by_the_same_work(
    stand: Stand, stage: int
) -> None:
    """One of 2,048 queues, and 60,000 messages without rows, held the loop for 155 ms."""
    async with stand.open(stage) as store:
        stand.put(store, 2 * QUEUES, queues=QUEUES)
        await store.in_rocksdb(store.max_position)
        stand.put(store, 2 * QUEUES, queues=QUEUES)
        stand.put(store, 10, topic="U")
        rocks = store._parts.rocks
        assert rocks is not None
        assert rocks.watermark < store.max_position, "messages wait for their rows"
        store._parts.progress.note_deleted("T", store.max_position)
        with calls_of_this_thread() as calls:
            removed = rocks.remove_topic("T")
        assert calls.count <= CALLS_MAX
        if stage == 3:
            assert removed == QUEUES
            assert len(store._parts.queues) == 2
        store._parts.file_queues.remove_topic("T")
        store._parts.appender.forget_queues()
        deleted = {"T": store.max_position}
        stand.put(store, 5, first=1000)
        assert stand.bodies(store) == [1000, 1002, 1004]
        await store.in_rocksdb(store.max_position)
        assert stand.bodies(store) == [1000, 1002, 1004]
        assert store.bounds("U", 0) == (0, 5)
    assert_rows_agree(stand.config(stage), deleted)


@pytest.mark.parametrize("stage", [2, 3])
async def test_a_deletion_that_was_killed_before_the_rows_went_is_finished_at_the_next_start(
    stand: Stand, stage: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stand.open(stage) as store:
        stand.put(store, 60, queues=7)
        await store._parts.housekeeping.flush_all()
        stand.put(store, 60, queues=7, first=60)
        deleted = {"T": store.max_position}
        delete = Batch.delete_topic

        def killed(self: Batch, topic_data: bytes) -> None:
            stand.kill(tmp_path / "killed")
            delete(self, topic_data)

        monkeypatch.setattr(Batch, "delete_topic", killed)
        store.delete_topic("T")
    assert stand.root == tmp_path / "killed"
    async with stand.open(stage) as store:
        assert [store.bounds("T", number) for number in range(7)] == [(0, 0)] * 7
        stand.put(store, 5, queues=7, first=700)
        await store.in_rocksdb(store.max_position)
        assert stand.bodies(store) == [700]
    assert_rows_agree(stand.config(stage), deleted)
