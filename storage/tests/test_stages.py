"""The stages of an upgrade, one after another, in any order: both indexes agree with the log.

Scenarios are those of the upgrade that brokers of Apache RocketMQ 5.3.3 were measured with.
"""

import hashlib
from pathlib import Path

import pytest

from lanemq.testkit.storage.stages import (
    Stand,
    assert_files_agree,
    assert_rows_agree,
    log_end,
    new_message,
    stored_files,
    stored_rows,
    wanted_rows,
)


async def test_a_file_store_opened_in_stage_1_changes_nothing_but_its_own_notes(
    stand: Stand,
) -> None:
    await stand.run(1, 100)

    def content() -> dict[str, str]:
        return {
            str(path.relative_to(stand.root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in stand.root.rglob("*")
            if path.is_file()
            and path.name not in ("abort", "lock", "checkpoint")
            and path.parent.name != "config"
        }

    before = content()
    async with stand.open(1) as store:
        assert store.bounds("T", 0) == (0, 50)
        bounds = {queue: store.bounds(*queue) for queue in store.queues()}
    assert content() == before
    wanted = wanted_rows(stand.config(1))
    assert bounds == {queue: (0, len(rows)) for queue, rows in wanted.items()}


async def test_double_writing_begins_at_the_offset_that_a_queue_has_reached(
    stand: Stand,
) -> None:
    await stand.run(1, 60)
    async with stand.open(2, rocksdb_backfill=False) as store:
        stand.put(store, 40, first=60)
        assert stand.bodies(store) == list(range(0, 100, 2))
        await store.in_rocksdb(store.max_position)
        progress = store.rocksdb_progress()
        assert progress is not None
        assert progress.begin > 0
        assert progress.missing_bytes == progress.begin
    rows, watermark = stored_rows(stand.config(2))
    wanted = wanted_rows(stand.config(2))
    for queue in (("T", 0), ("T", 1)):
        assert rows[queue] == {offset: wanted[queue][offset] for offset in range(30, 50)}
    assert watermark == log_end(stand.config(2))
    assert_files_agree(stand.config(2))


@pytest.mark.parametrize("stage", [2, 3])
async def test_rows_that_a_kill_left_in_memory_come_back(
    stand: Stand, tmp_path: Path, stage: int
) -> None:
    await stand.run(2, 10)
    async with stand.open(2) as store:
        stand.put(store, 500, first=10)  # over several files of the log
        await store.in_rocksdb(store.max_position)
        stand.kill(tmp_path / "killed")
    _, watermark = stored_rows(stand.config(stage))
    begins = [row[0] for rows in wanted_rows(stand.config(stage)).values() for row in rows.values()]
    assert watermark in begins  # a record begins exactly where the rows on the disk end
    async with stand.open(stage) as store:
        assert stand.bodies(store) == list(range(0, 510, 2))
        assert stand.bodies(store, "T", 1) == list(range(1, 510, 2))
        await store.in_rocksdb(store.max_position)
        assert store.put(new_message(0)).queue_offset == 255
    assert_rows_agree(stand.config(stage))


async def test_a_direct_step_from_files_to_rocksdb_keeps_the_first_record(
    stand: Stand,
) -> None:
    await stand.run(1, 300)
    async with stand.open(3) as store:
        assert stand.bodies(store) == list(range(0, 300, 2))
        assert store.bounds("T", 0) == (0, 150)
        assert store.statistics().queues == 2
        assert sorted(store.queues()) == [("T", 0), ("T", 1)]
    assert_rows_agree(stand.config(3))
    rows, _ = stored_rows(stand.config(3))
    assert sum(len(queue) for queue in rows.values()) == 300


async def test_double_writing_on_off_and_on_again_leaves_no_gap(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stand.run(2, 100)
    await stand.run(1, 100, first=100)
    with monkeypatch.context() as patch:
        patch.setattr("lanemq.storage.queues.rocks._follower.BATCH_ROWS", 10)
        async with stand.open(2, rocksdb_backfill_rate=1) as store:
            report = await store.check_rocksdb()
            assert report is not None
            assert not report.is_ready
            assert not report.is_safe_to_switch
            for queue in report.queues:
                assert queue.first_missing is not None
                assert 50 <= queue.first_missing <= 55  # a batch may be written already
    async with stand.open(2) as store:
        stand.put(store, 100, first=200)
        assert stand.bodies(store) == list(range(0, 300, 2))
        await store.in_rocksdb(store.max_position)
        progress = store.rocksdb_progress()
        assert progress is not None
        assert progress.missing_bytes == 0
        report = await store.check_rocksdb()
        assert report is not None
        assert report.is_safe_to_switch
    assert_rows_agree(stand.config(2))
    assert_files_agree(stand.config(2))


async def test_back_in_stage_1_every_unit_is_in_its_slot(stand: Stand) -> None:
    await stand.run(1, 160)
    await stand.run(3, 75, first=160)
    assert sum(map(len, stored_files(stand.config(1)).values())) == 160
    async with stand.open(1) as store:
        assert stand.bodies(store) == list(range(0, 235, 2))
        assert store.put(new_message(0)).queue_offset == 118
    assert_files_agree(stand.config(1))


@pytest.mark.slow
@pytest.mark.parametrize("stages", [(1, 2, 3, 2, 1, 3, 1, 2), (3, 1, 3, 2, 3), (2, 1, 2, 3)])
async def test_any_order_of_stages_keeps_both_indexes_in_agreement(
    stand: Stand, stages: tuple[int, ...]
) -> None:
    for number, stage in enumerate(stages):
        async with stand.open(stage) as store:
            stand.put(store, 40, first=40 * number)
            await store.in_rocksdb(store.max_position)
            assert stand.bodies(store) == list(range(0, 40 * (number + 1), 2))
            found = store.query("T", "U1", max_count=9, begin_ms=0, end_ms=1 << 60)
            assert len(found.records) == 1
        if stage > 1:
            assert_rows_agree(stand.config(stage))
        if stage < 3:
            assert_files_agree(stand.config(stage))
