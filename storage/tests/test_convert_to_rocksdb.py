"""``convert_to_rocksdb``: rows for all that the log has, from the files or from the log."""

import shutil
import tarfile
from pathlib import Path

import pytest

from lanemq.storage import StoreConfig, StoreCorrupted, StoreLocked
from lanemq.storage.bulk import convert_to_rocksdb
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase
from lanemq.storage.tools import NotAStore
from lanemq.testkit.storage.stages import (
    Stand,
    assert_files_agree,
    assert_rows_agree,
    log_end,
    stored_rows,
)
from lanemq.testkit.storage.stores import NAMES, STORES

FILES, BOTH, ROCKSDB = 1, 2, 3


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_store_of_apache_gets_all_rows(name: str, tmp_path: Path) -> None:
    with tarfile.open(STORES / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    log_file = next((tmp_path / name / "commitlog").iterdir())
    config = StoreConfig(
        root=tmp_path / name,
        commit_log_file_bytes=log_file.stat().st_size,
        consume_queue_file_bytes=12_000,
    )
    done = convert_to_rocksdb(config.root)
    assert_rows_agree(config)
    assert done.log_end == log_end(config)
    again = convert_to_rocksdb(config.root)
    assert again.units == 0
    assert again.began_at == again.log_end
    if "clean" in name and not name.startswith("rocksdb"):
        assert done.units_from_log == 0


async def test_a_store_of_ours_opens_in_stage_3_and_has_nothing_to_do(stand: Stand) -> None:
    await stand.run(FILES, 500)
    done = convert_to_rocksdb(stand.root)
    assert (done.units_copied, done.units_from_log, done.queues) == (500, 0, 2)
    assert_rows_agree(stand.config(ROCKSDB))
    async with stand.open(ROCKSDB) as store:
        assert stand.bodies(store) == list(range(0, 500, 2))
        stand.put(store, 10, first=500)
        assert stand.bodies(store) == list(range(0, 510, 2))
    assert_rows_agree(stand.config(ROCKSDB))


@pytest.mark.slow
async def test_history_that_double_writing_left_out_is_added(stand: Stand) -> None:
    await stand.run(FILES, 300)
    await stand.run(BOTH, 100, first=300, rocksdb_backfill=False)
    done = convert_to_rocksdb(stand.root)
    assert done.units_copied >= 300
    assert_rows_agree(stand.config(ROCKSDB))


@pytest.mark.slow
async def test_messages_that_came_after_double_writing_are_added(stand: Stand) -> None:
    await stand.run(BOTH, 300)
    await stand.run(FILES, 100, first=300)
    done = convert_to_rocksdb(stand.root)
    assert done.units == 100
    assert_rows_agree(stand.config(ROCKSDB))


async def test_a_hole_in_the_rows_is_filled(stand: Stand) -> None:
    await stand.run(BOTH, 300)
    rows = QueueRows(QueueDatabase(stand.root / "consumequeue"))
    rows.delete_units("T", 1, 70, 90)
    rows.close()
    convert_to_rocksdb(stand.root)
    assert_rows_agree(stand.config(ROCKSDB))


@pytest.mark.slow
async def test_rows_of_a_queue_that_was_deleted_before_are_removed(stand: Stand) -> None:
    await stand.run(BOTH, 300)
    shutil.copytree(stand.root / "consumequeue", stand.root / "kept")
    async with stand.open(BOTH) as store:
        store.delete_topic("T")
        stand.put(store, 40, first=300)
        await store.in_rocksdb(store.max_position)
    # As a broker of 5.3.3 has it: the files are the new queue's, the rows the old one's.
    for path in (stand.root / "consumequeue").iterdir():
        if path.is_file():
            path.unlink()
    for path in (stand.root / "kept").iterdir():
        if path.is_file():
            shutil.copy2(path, stand.root / "consumequeue")
    (stand.root / "config" / "dispatchWatermark.json").unlink()
    convert_to_rocksdb(stand.root)
    stored, _ = stored_rows(stand.config(ROCKSDB))
    assert {key: len(rows) for key, rows in stored.items()} == {("T", 0): 20, ("T", 1): 20}
    assert_rows_agree(stand.config(ROCKSDB))


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["zeros", "short", "gone", "shifted", "garbage"])
async def test_damaged_queue_files_are_made_up_for_from_the_log(stand: Stand, damage: str) -> None:
    await stand.run(FILES, 400)
    queue = stand.root / "consumequeue" / "T" / "1"
    path = sorted(queue.iterdir())[2]
    data = path.read_bytes()
    if damage == "zeros":
        path.write_bytes(data[:60] + bytes(40) + data[100:])
    elif damage == "short":
        path.write_bytes(data[:60])
    elif damage == "gone":
        path.unlink()
    elif damage == "shifted":
        path.write_bytes(data[20:] + data[:20])
    else:
        path.write_bytes(b"\x55" * len(data))
    done = convert_to_rocksdb(stand.root)
    assert done.units_from_log > 0
    assert done.units_copied > 0
    assert_rows_agree(stand.config(ROCKSDB))


@pytest.mark.slow
async def test_all_can_be_made_from_the_log(stand: Stand) -> None:
    await stand.run(BOTH, 300)
    done = convert_to_rocksdb(stand.root, from_log=True)
    assert (done.units_copied, done.units_from_log) == (0, 300)
    assert_rows_agree(stand.config(ROCKSDB))


@pytest.mark.slow
async def test_deleted_topics_stay_deleted(stand: Stand) -> None:
    async with stand.open(FILES) as store:
        stand.put(store, 200)
        stand.put(store, 100, topic="Gone")
        store.delete_topic("Gone")
        stand.put(store, 100, first=200)
        end = store.max_position
    convert_to_rocksdb(stand.root)
    assert_rows_agree(stand.config(ROCKSDB), {"Gone": end})


@pytest.mark.slow
async def test_blanks_before_a_moved_queue_get_no_rows(stand: Stand) -> None:
    await stand.run(FILES, 100)
    queue = stand.root / "consumequeue" / "T" / "0"
    # The queue's first 25 messages are gone, and stand for nothing in its files.
    blank = (0).to_bytes(8, "big") + (2147483647).to_bytes(4, "big") + bytes(8)
    for path in sorted(queue.iterdir())[:2]:
        path.write_bytes(blank * 10)
    (queue / f"{400:020d}").write_bytes(blank * 5 + (queue / f"{400:020d}").read_bytes()[100:])
    done = convert_to_rocksdb(stand.root)
    assert done.units_from_log > 0  # for the log still has those messages


@pytest.mark.slow
async def test_a_broken_database_is_moved_aside(stand: Stand) -> None:
    await stand.run(BOTH, 100)
    (stand.root / "consumequeue" / "CURRENT").write_text("MANIFEST-999999\n")
    done = convert_to_rocksdb(stand.root)
    assert done.kept is not None
    assert (done.kept / "rocksdb" / "CURRENT").read_text() == "MANIFEST-999999\n"
    assert_rows_agree(stand.config(ROCKSDB))
    assert_files_agree(stand.config(FILES))


@pytest.mark.slow
async def test_a_store_that_crashed_is_converted_to_its_last_whole_record(
    stand: Stand, tmp_path: Path
) -> None:
    async with stand.open(FILES) as store:
        stand.put(store, 200)
        stand.kill(tmp_path / "crashed")
    convert_to_rocksdb(stand.root)
    assert (stand.root / "abort").exists()
    assert_rows_agree(stand.config(ROCKSDB))
    async with stand.open(ROCKSDB) as store:
        assert stand.bodies(store) == list(range(0, 200, 2))


async def test_a_store_in_use_is_refused(stand: Stand) -> None:
    async with stand.open(FILES) as store:
        stand.put(store, 10)
        with pytest.raises(StoreLocked):
            convert_to_rocksdb(stand.root)


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAStore):
        convert_to_rocksdb(tmp_path / "nothing")
    (tmp_path / "commitlog").mkdir()
    with pytest.raises(StoreCorrupted, match="no commit log"):
        convert_to_rocksdb(tmp_path)


@pytest.mark.slow
async def test_expired_messages_get_no_rows_and_their_queues_go_on(stand: Stand) -> None:
    await stand.run(FILES, 300)
    for path in sorted((stand.root / "commitlog").iterdir())[:2]:
        path.unlink()
    convert_to_rocksdb(stand.root)
    assert_rows_agree(stand.config(ROCKSDB))
    stored, _ = stored_rows(stand.config(ROCKSDB))
    assert min(stored["T", 0]) > 0
