"""Real stores that went wrong in an upgrade: each state is found at the start, and repaired.

Rows are those of a table of such states, scenarios as in ``test_stages``.
"""

import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lanemq.storage import StartRefused
from lanemq.storage.queues.rocks._batch import Batch
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.queues.rocks._row_format import WATERMARK_KEY
from lanemq.storage.queues.rocks._writer import BATCH_ROWS
from lanemq.storage.rocks import QueueDatabase
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

pytestmark = pytest.mark.slow
BLANK_SIZE = 2147483647
NOTES = "config/dispatchWatermark.json"


def as_left_by_another(stand: Stand) -> None:
    """Make the store look as if somebody else had closed it: our notes are not there."""
    (stand.root / NOTES).unlink()


def change_rows(stand: Stand, change: Callable[[QueueRows], None]) -> None:
    database = QueueDatabase(stand.root / "consumequeue")
    change(QueueRows(database))
    database.close()


def delete_watermark(rows: QueueRows) -> None:
    rows.database.bounds.delete(WATERMARK_KEY)


@pytest.mark.parametrize("stage", [2, 3])
async def test_rows_missing_in_the_middle_are_counted_and_written(stand: Stand, stage: int) -> None:
    await stand.run(2, 200)
    change_rows(stand, lambda rows: rows.delete_units("T", 1, 30, 40))
    as_left_by_another(stand)
    await stand.run(stage, 2, first=200)
    assert_rows_agree(stand.config(stage))


async def test_rows_missing_at_the_end_of_a_queue_are_seen_beside_its_file(
    stand: Stand,
) -> None:
    await stand.run(2, 200)

    def lose_the_last(rows: QueueRows) -> None:
        rows.delete_units("T", 1, 90, 1000)
        newest = rows.unit("T", 1, 89)
        assert newest is not None
        batch = rows.batch()
        batch.put_max(b"T", 1, newest.log_position, 89)
        batch.write()

    change_rows(stand, lose_the_last)
    as_left_by_another(stand)
    await stand.run(2, 1, first=200)
    assert_rows_agree(stand.config(2))


async def test_history_is_filled_in_behind_rows_that_begin_late(stand: Stand) -> None:
    await stand.run(1, 100)
    await stand.run(2, 100, first=100, rocksdb_backfill=False)
    assert min(stored_rows(stand.config(2))[0]["T", 0]) == 50
    await stand.run(2, 100, first=200)
    assert_rows_agree(stand.config(2))
    async with stand.open(3) as store:
        assert stand.bodies(store) == list(range(0, 300, 2))


async def test_history_goes_on_where_it_was_interrupted(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lanemq.storage.queues.rocks._follower.BATCH_ROWS", 20)
    await stand.run(1, 300)
    await stand.run(2, 10, first=300, rocksdb_backfill=False)
    for _ in range(3):
        async with stand.open(2, rocksdb_backfill_rate=1) as store:
            before = store.rocksdb_progress()
        async with stand.open(2, rocksdb_backfill_rate=1) as store:
            after = store.rocksdb_progress()
        assert before is not None
        assert after is not None
        assert before.begin == after.begin
        assert before.filled < after.filled < after.begin
    await stand.run(2, 10, first=310)
    assert_rows_agree(stand.config(2))


@pytest.mark.parametrize("is_foreign", [False, True])
async def test_a_start_with_rocksdb_alone_that_would_lose_messages_is_refused(
    stand: Stand, caplog: pytest.LogCaptureFixture, is_foreign: bool
) -> None:
    await stand.run(1, 100)
    await stand.run(2, 100, first=100, rocksdb_backfill=False)
    if is_foreign:
        as_left_by_another(stand)
    with pytest.raises(StartRefused) as refused:
        async with stand.open(3):
            pass
    text = str(refused.value)
    assert "100 messages of 2 queues" in text
    assert "queue 0 of T from offset 0 on" in text
    assert "rocksdbCQDoubleWriteEnable=true" in text
    assert "`convert_to_rocksdb` while no broker runs" in text
    assert "rocksdbCQAllowUncovered=true" in text
    assert not (stand.root / "abort").exists()
    async with stand.open(3, allow_uncovered=True) as store:
        assert store.bounds("T", 0) == (50, 100)
        assert stand.bodies(store) == list(range(100, 200, 2))
    assert "rocksdbCQAllowUncovered accepts that" in caplog.text
    async with stand.open(3) as store:  # what was accepted once is not asked again
        assert store.bounds("T", 0) == (50, 100)


@pytest.mark.parametrize("stage", [2, 3])
async def test_10_and_scenario_13_what_the_log_lost_goes_from_both_indexes(
    stand: Stand, stage: int
) -> None:
    await stand.run(2, 60)
    wanted = wanted_rows(stand.config(2))
    position, size, *_ = wanted["T", 1][29]
    assert position + size == log_end(stand.config(2))
    stand.erase_log(position + size // 2)
    (stand.root / "abort").touch()
    async with stand.open(stage) as store:
        assert store.max_position == position
        assert store.bounds("T", 1) == (0, 29)
        assert store.bounds("T", 0) == (0, 30)
        if stage == 2:
            assert max(stored_files(stand.config(2))["T", 1]) == 28
        rows = store.queue_rows
        assert rows is not None
        assert rows.unit("T", 1, 29) is None
        newest = rows.max_row("T", 1)
        assert newest is not None
        assert newest.queue_offset == 28
        assert rows.watermark() == position
        put = store.put(new_message(7, queue_id=1))
        store.commit()
        assert (put.queue_offset, put.log_position) == (29, position)
        await store.in_rocksdb(put.end)
    assert_rows_agree(stand.config(stage))


@pytest.mark.parametrize("stage", [2, 3])
async def test_several_rows_of_several_queues_behind_the_log(stand: Stand, stage: int) -> None:
    await stand.run(2, 60)
    stand.erase_log(wanted_rows(stand.config(2))["T", 1][20][0] + 5)
    (stand.root / "abort").touch()
    await stand.run(stage, 5)
    assert_rows_agree(stand.config(stage))
    if stage == 2:
        assert_files_agree(stand.config(2))


@pytest.mark.parametrize("stage", [2, 3])
async def test_rows_behind_a_log_that_was_cut_and_grew_while_rocksdb_was_closed(
    stand: Stand, stage: int, tmp_path: Path
) -> None:
    await stand.run(2, 60)
    cut = log_end(stand.config(2))
    async with stand.open(2) as store:
        stand.put(store, 30, first=60, queues=1)
        await store.in_rocksdb(store.max_position)
        assert store.queue_rows is not None
        store.queue_rows.flush()
        stand.kill(tmp_path / "killed")
    stand.erase_log(cut)
    await stand.run(1, 40, first=61, queues=1, topic="Other")
    await stand.run(stage, 1, first=60)
    assert_rows_agree(stand.config(stage))


@pytest.mark.parametrize("stage", [2, 3])
async def test_without_a_watermark_all_rows_are_written_again(stand: Stand, stage: int) -> None:
    await stand.run(2, 60)
    change_rows(stand, delete_watermark)
    change_rows(stand, lambda rows: rows.delete_units("T", 0, 3, 5))
    await stand.run(stage, 1, first=60)
    assert_rows_agree(stand.config(stage))


@pytest.mark.parametrize("is_foreign", [False, True])
async def test_a_watermark_behind_the_log_is_set_to_its_end(stand: Stand, is_foreign: bool) -> None:
    await stand.run(2, 60)

    def run_ahead(rows: QueueRows) -> None:
        batch = rows.batch()
        batch.set_watermark(1 << 40)
        batch.write()

    change_rows(stand, run_ahead)
    if is_foreign:
        as_left_by_another(stand)
    await stand.run(2, 0)
    assert stored_rows(stand.config(2))[1] == log_end(stand.config(2))
    assert_rows_agree(stand.config(2))


async def test_rows_of_a_topic_that_another_broker_deleted_and_made_again_go(
    stand: Stand,
) -> None:
    await stand.run(2, 60)
    async with stand.open(1) as store:
        store.delete_topic("T")
        stand.put(store, 10, topic="U")
    as_left_by_another(stand)
    await stand.run(1, 10)
    as_left_by_another(stand)
    await stand.run(2, 1, first=10)
    assert_rows_agree(stand.config(2))
    async with stand.open(3) as store:
        assert store.bounds("T", 0) == (0, 6)
        assert stand.bodies(store) == list(range(0, 11, 2))


async def test_units_of_messages_that_are_gone_have_no_rows(stand: Stand) -> None:
    await stand.run(1, 400)
    log = sorted((stand.root / "commitlog").iterdir())
    log[0].unlink()
    shutil.rmtree(stand.root / "consumequeue")
    async with stand.open(2) as store:
        begin, end = store.bounds("T", 0)
        assert begin > 0
        assert end == 200
        await store.in_rocksdb(store.max_position)
    unit = (stand.root / "consumequeue/T/0" / f"{begin * 20 // 200 * 200:020d}").read_bytes()
    assert int.from_bytes(unit[8:12], "big") == BLANK_SIZE or begin % 10 == 0
    assert min(stored_rows(stand.config(2))[0]["T", 0]) == begin
    assert_rows_agree(stand.config(2))
    async with stand.open(3) as store:
        assert store.bounds("T", 0) == (begin, end)


def shift(stand: Stand, queue_id: int, lost: int) -> None:
    """Take a unit out of a queue file and let all behind it move up, as 5.3.3 does."""
    directory = stand.root / "consumequeue/T" / str(queue_id)
    paths = sorted(directory.iterdir())
    data = b"".join(path.read_bytes() for path in paths)
    data = data[: lost * 20] + data[lost * 20 + 20 :] + bytes(20)
    for number, path in enumerate(paths):
        path.write_bytes(data[number * 200 : number * 200 + 200])


@pytest.mark.parametrize("later", [0, 30])
@pytest.mark.parametrize("stage", [1, 2])
async def test_units_in_wrong_slots_are_put_right(
    stand: Stand, stage: int, later: int, caplog: pytest.LogCaptureFixture
) -> None:
    await stand.run(2, 160)
    shift(stand, 0, 41)
    as_left_by_another(stand)
    caplog.set_level(logging.WARNING)
    async with stand.open(stage) as store:
        assert stand.bodies(store) == list(range(0, 160, 2))
        await store.in_rocksdb(store.max_position)
        stand.put(store, later, first=160)
    assert "queue 0 of T has units in wrong slots from 41 on" in caplog.text
    assert "38 units are made again" in caplog.text
    assert_files_agree(stand.config(stage))


@pytest.mark.parametrize("lost", ["CURRENT", "*.sst"])
@pytest.mark.parametrize("stage", [2, 3])
async def test_a_broken_rocksdb_is_moved_aside_and_made_anew(
    stand: Stand, stage: int, lost: str, caplog: pytest.LogCaptureFixture
) -> None:
    await stand.run(2, 100)
    await stand.run(2, 100, first=100)
    directory = stand.root / "consumequeue"
    next(iter(sorted(directory.glob(lost)))).unlink()
    units = stored_files(stand.config(2))
    await stand.run(stage, 10, first=200)
    (aside,) = stand.root.glob("consumequeue.bad-*")
    assert list(aside.glob("MANIFEST-*"))
    assert not list(aside.glob("T"))
    assert "a new one is made" in caplog.text
    after = stored_files(stand.config(2))
    assert {
        key: dict(list(rows.items())[: len(units[key])]) for key, rows in after.items()
    } == units
    assert_rows_agree(stand.config(stage))


@pytest.mark.parametrize("stage", [1, 2, 3])
async def test_a_last_log_file_of_zeros_is_normal(stand: Stand, stage: int) -> None:
    await stand.run(2, 100)
    last = sorted((stand.root / "commitlog").iterdir())[-1]
    spare = last.with_name(f"{int(last.name) + (1 << 14):020d}")
    spare.write_bytes(bytes(1 << 14))
    await stand.run(stage, 10, first=100)
    if stage > 1:
        assert_rows_agree(stand.config(stage))


async def test_expired_rows_are_not_seen_and_go(stand: Stand) -> None:
    await stand.run(2, 600)
    for stage in (2, 3):
        async with stand.open(stage, delete_pause_s=0.0) as store:
            oldest = sorted((stand.root / "commitlog").iterdir())[0]
            os.utime(oldest, (1, 1))
            store.delete_expired_files()
            assert await store._retention.run_once() == 1
            first = next(
                offset for offset, row in sorted(wanted_rows(stand.config(2))["T", 0].items())
            )
            assert store.bounds("T", 0) == (first, 300)
            rows = store.queue_rows
            assert rows is not None
            assert rows.unit("T", 0, first - 1) is None
            oldest_row = rows.min_row("T", 0)
            assert oldest_row is not None
            assert oldest_row.queue_offset == first
            got = store.get("T", 0, first, max_count=1)
            assert len(got.records) == 1
    assert_rows_agree(stand.config(3))


@pytest.mark.parametrize("stages", [(2, 2), (2, 3), (1, 3), (1, 2), (3, 1), (3, 2), (3, 3), (1, 1)])
@pytest.mark.parametrize("crashes", [False, True])
async def test_a_topic_deleted_and_made_again_begins_at_zero_in_any_stage(
    stand: Stand, stages: tuple[int, int], crashes: bool, tmp_path: Path
) -> None:
    before, after = stages
    await stand.run(before, 60)
    async with stand.open(before) as store:
        stand.put(store, 10, first=60)
        assert store.delete_topic("T") == 2
        deleted = {"T": store.max_position}
        stand.put(store, 10, topic="U")
        if crashes:
            stand.kill(tmp_path / "killed")
    async with stand.open(after) as store:
        assert store.bounds("T", 0) == (0, 0)
        stand.put(store, 5)
        assert store.bounds("T", 0) == (0, 3)
        assert stand.bodies(store) == [0, 2, 4]
        await store.in_rocksdb(store.max_position)
    if after > 1:
        assert_rows_agree(stand.config(after), deleted)
    if after < 3:
        assert_files_agree(stand.config(after), deleted)
    for stage in (1, 2, 3):
        async with stand.open(stage) as store:
            await store.in_rocksdb(store.max_position)
            assert store.bounds("T", 0) == (0, 3)
            assert stand.bodies(store) == [0, 2, 4]


@pytest.mark.parametrize("stages", [(2, 1), (1, 2), (1, 3), (3, 1)])
async def test_a_message_for_two_light_queues_has_three_units_in_each_index(
    stand: Stand, stages: tuple[int, int]
) -> None:
    lights = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}
    for number, stage in enumerate(stages):
        async with stand.open(stage, multi_dispatch=True) as store:
            for _ in range(2):
                store.put(new_message(number, properties=lights))
            store.put(new_message(number, properties={"INNER_MULTI_DISPATCH": "%LMQ%b"}))
            store.commit()
            await store.in_rocksdb(store.max_position)
            assert store.bounds("T", 0) == (0, 3 * number + 3)
            assert store.bounds("%LMQ%a", 0) == (0, 2 * number + 2)
            assert store.bounds("%LMQ%b", 0) == (0, 3 * number + 3)
            got = store.get("%LMQ%b", 0, 3 * number + 1, max_count=1)
            assert (
                b"INNER_MULTI_QUEUE_OFFSET\1%d,%d\2"
                % (
                    2 * number + 1,
                    3 * number + 1,
                )
                in got.records[0]
            )
        config = replace(stand.config(stage), multi_dispatch=True)
        if stage > 1:
            assert_rows_agree(config)
        if stage < 3:
            assert_files_agree(config)


@pytest.mark.parametrize("stages", [(2,), (1, 2)], ids=["as they come", "afterwards"])
async def test_a_batch_has_so_many_rows_whatever_light_queues_messages_are_for(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, stages: tuple[int, ...]
) -> None:
    """A message has a row in its own queue, and one in each light queue."""
    names = ",".join(f"%LMQ%{number}" for number in range(60))
    batches = list[int]()
    put, write = Batch.put_unit, Batch.write

    def put_counted(batch: Batch, *args: object) -> None:
        batches[-1] += 1
        put(batch, *args)  # type: ignore[arg-type]

    def write_counted(batch: Batch) -> None:
        write(batch)
        batches.append(0)

    for stage in stages:
        batches.append(0)
        monkeypatch.setattr(Batch, "put_unit", put_counted)
        monkeypatch.setattr(Batch, "write", write_counted)
        async with stand.open(stage, multi_dispatch=True) as store:
            for number in range(60 if stage == stages[0] else 1):
                store.put(new_message(number, properties={"INNER_MULTI_DISPATCH": names}))
            store.commit()
            await store.in_rocksdb(store.max_position)
        monkeypatch.undo()
    assert sum(batches) >= 60 * 61
    assert max(batches) <= BATCH_ROWS + 61
    assert_rows_agree(replace(stand.config(stages[-1]), multi_dispatch=True))


@pytest.mark.parametrize("stages", [(1, 3), (2, 3), (3, 1), (3, 2)])
async def test_a_queue_whose_messages_are_all_gone_goes_on_at_its_offset(
    stand: Stand, stages: tuple[int, int]
) -> None:
    before, after = stages
    async with stand.open(before, delete_pause_s=0.0) as store:
        stand.put(store, 45, topic="Old", queues=1)
        stand.put(store, 600)
        await store.in_rocksdb(store.max_position)
        await store.flushed(store.max_position)
        oldest = sorted((stand.root / "commitlog").iterdir())[0]
        os.utime(oldest, (1, 1))
        store.delete_expired_files()
        assert await store._retention.run_once() == 1
        assert store.bounds("Old", 0) == (45, 45)
    async with stand.open(after) as store:
        assert store.bounds("Old", 0) == (45, 45)
        assert store.put(new_message(1, topic="Old")).queue_offset == 45
    async with stand.open(before) as store:
        assert store.bounds("Old", 0) == (45, 46)


@pytest.mark.parametrize("stage", [2, 3])
async def test_a_store_that_had_no_message_yet_starts_again_as_it_is(
    stand: Stand, stage: int
) -> None:
    for _ in range(3):
        await stand.run(stage, 0)
    assert not list(stand.root.glob("*.aside-*"))
    await stand.run(stage, 5)
    assert_rows_agree(stand.config(stage))


async def test_a_store_without_log_starts_anew_in_every_stage(stand: Stand) -> None:
    await stand.run(2, 20)
    shutil.rmtree(stand.root / "commitlog")
    async with stand.open(2) as store:
        assert store.bounds("T", 0) == (0, 0)
        stand.put(store, 4)
    assert_rows_agree(stand.config(2))
    shutil.rmtree(stand.root / "commitlog")
    async with stand.open(3) as store:
        assert store.bounds("T", 0) == (0, 0)
