"""``convert_to_files``: units for all that the log has, from RocksDB or from the log."""

import shutil
import tarfile
from pathlib import Path

import pytest

from lanemq.storage import StoreConfig, StoreLocked
from lanemq.storage.bulk import convert_to_files, convert_to_rocksdb
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase
from lanemq.testkit.storage.stages import Stand, assert_files_agree, assert_rows_agree
from lanemq.testkit.storage.stores import NAMES, STORES

FILES, BOTH, ROCKSDB = 1, 2, 3


def unpack(name: str, target: Path) -> StoreConfig:
    with tarfile.open(STORES / f"{name}.tar.gz") as archive:
        archive.extractall(target, filter="data")
    log_file = next((target / name / "commitlog").iterdir())
    return StoreConfig(
        root=target / name,
        commit_log_file_bytes=log_file.stat().st_size,
        consume_queue_file_bytes=12_000,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_store_of_apache_gets_all_units(name: str, tmp_path: Path) -> None:
    config = unpack(name, tmp_path)
    abort, checkpoint = config.root / "abort", config.root / "checkpoint"
    before = (abort.read_bytes() if abort.exists() else None), checkpoint.read_bytes()
    done = convert_to_files(config.root)
    assert_files_agree(config)
    assert ((abort.read_bytes() if abort.exists() else None), checkpoint.read_bytes()) == before
    if name.startswith("rocksdb"):
        assert done.units_copied == 579
        assert done.units_from_log == 0
    if "clean" in name:
        again = convert_to_files(config.root)
        assert again.units == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if "clean" in name])
def test_a_store_can_be_converted_to_and_fro(name: str, tmp_path: Path) -> None:
    config = unpack(name, tmp_path)
    convert_to_rocksdb(config.root)
    for path in (config.root / "consumequeue").iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    done = convert_to_files(config.root, queue_file_bytes=12_000)
    assert done.units_from_log == 0
    assert_files_agree(config)
    assert_rows_agree(config)


async def test_a_rollback_after_stage_3_shifts_no_slot(stand: Stand) -> None:
    await stand.run(BOTH, 300)
    await stand.run(ROCKSDB, 300, first=300)
    done = convert_to_files(stand.root)
    assert (done.units_copied, done.units_from_log, done.blank_units) == (300, 0, 0)
    assert_files_agree(stand.config(FILES))
    async with stand.open(FILES) as store:
        assert stand.bodies(store) == list(range(0, 600, 2))
        stand.put(store, 10, first=600)
        assert stand.bodies(store) == list(range(0, 610, 2))
    assert_files_agree(stand.config(FILES))


@pytest.mark.slow
async def test_a_store_that_never_had_files_gets_them(stand: Stand) -> None:
    await stand.run(ROCKSDB, 300)
    done = convert_to_files(stand.root, queue_file_bytes=200)
    assert done.units_copied == 300
    assert_files_agree(stand.config(FILES))
    async with stand.open(FILES) as store:
        assert stand.bodies(store, queue_id=1) == list(range(1, 300, 2))


@pytest.mark.slow
async def test_rows_that_are_missing_are_taken_from_the_log(stand: Stand) -> None:
    await stand.run(ROCKSDB, 300)
    rows = QueueRows(QueueDatabase(stand.root / "consumequeue"))
    rows.delete_units("T", 1, 70, 90)
    rows.delete_units("T", 0, 0, 25)
    rows.close()
    (stand.root / "config" / "dispatchWatermark.json").unlink()
    done = convert_to_files(stand.root, queue_file_bytes=200)
    assert done.blank_units == 0
    assert done.units_from_log >= 20
    assert_files_agree(stand.config(FILES))


@pytest.mark.slow
async def test_rows_that_are_behind_are_made_up_for_from_the_log(stand: Stand) -> None:
    await stand.run(BOTH, 200)
    shutil.copytree(stand.root / "consumequeue", stand.root / "kept")
    await stand.run(ROCKSDB, 100, first=200)
    shutil.rmtree(stand.root / "consumequeue")
    (stand.root / "kept").rename(stand.root / "consumequeue")
    done = convert_to_files(stand.root)
    assert done.units_from_log == 100
    assert_files_agree(stand.config(FILES))


@pytest.mark.slow
async def test_without_rocksdb_all_comes_from_the_log(stand: Stand) -> None:
    await stand.run(FILES, 200)
    shutil.rmtree(stand.root / "consumequeue")
    done = convert_to_files(stand.root, queue_file_bytes=200)
    assert done.units_from_log == 200
    assert_files_agree(stand.config(FILES))


@pytest.mark.slow
async def test_all_can_be_made_from_the_log(stand: Stand) -> None:
    await stand.run(BOTH, 200)
    done = convert_to_files(stand.root, from_log=True)
    assert (done.units_copied, done.units_from_log) == (0, 200)
    assert_files_agree(stand.config(FILES))


async def test_shifted_slots_are_put_right(stand: Stand) -> None:
    await stand.run(BOTH, 200)
    queue = stand.root / "consumequeue" / "T" / "1"
    data = b"".join(path.read_bytes() for path in sorted(queue.iterdir()))
    shifted = data[: 20 * 40] + data[20 * 41 :] + bytes(20)
    for number, path in enumerate(sorted(queue.iterdir())):
        path.write_bytes(shifted[number * 200 : number * 200 + 200])
    done = convert_to_files(stand.root)
    assert done.units_copied == 60
    assert_files_agree(stand.config(FILES))


@pytest.mark.slow
async def test_stale_rows_do_not_replace_units(stand: Stand) -> None:
    await stand.run(BOTH, 300)
    shutil.copytree(stand.root / "consumequeue", stand.root / "kept")
    async with stand.open(BOTH) as store:
        store.delete_topic("T")
        stand.put(store, 40, first=300)
        await store.in_rocksdb(store.max_position)
    for path in (stand.root / "consumequeue").iterdir():
        if path.is_file():
            path.unlink()
    for path in (stand.root / "kept").iterdir():
        if path.is_file():
            shutil.copy2(path, stand.root / "consumequeue")
    shutil.rmtree(stand.root / "kept")
    (stand.root / "config" / "dispatchWatermark.json").unlink()
    done = convert_to_files(stand.root)
    assert len(done.notes) == 2
    assert done.units == 0
    assert_files_agree(stand.config(FILES))


@pytest.mark.slow
async def test_messages_that_are_gone_leave_blanks_and_queues_go_on(stand: Stand) -> None:
    await stand.run(ROCKSDB, 300)
    for path in sorted((stand.root / "commitlog").iterdir())[:2]:
        path.unlink()
    convert_to_files(stand.root, queue_file_bytes=200)
    assert_files_agree(stand.config(FILES))
    async with stand.open(FILES) as store:
        begin, end = store.bounds("T", 0)
        assert begin > 0
        assert end == 150
        assert stand.bodies(store) == list(range(2 * begin, 300, 2))


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["short", "gone", "garbage"])
async def test_queue_files_that_are_damaged_are_made_right(stand: Stand, damage: str) -> None:
    await stand.run(BOTH, 200)
    path = sorted((stand.root / "consumequeue" / "T" / "1").iterdir())[2]
    if damage == "short":
        path.write_bytes(path.read_bytes()[:60])
    elif damage == "gone":
        path.unlink()
    else:
        path.write_bytes(b"\x55" * 200)
    convert_to_files(stand.root)
    assert_files_agree(stand.config(FILES))
    assert not (stand.root / "abort").exists()


@pytest.mark.slow
async def test_a_database_that_cannot_be_opened_is_made_up_for_by_the_log(stand: Stand) -> None:
    await stand.run(BOTH, 100)
    (stand.root / "consumequeue" / "CURRENT").write_text("MANIFEST-999999\n")
    path = sorted((stand.root / "consumequeue" / "T" / "1").iterdir())[-1]
    path.unlink()
    done = convert_to_files(stand.root)
    assert len(done.notes) == 1
    assert_files_agree(stand.config(FILES))


@pytest.mark.slow
async def test_a_crashed_store_stays_one(stand: Stand, tmp_path: Path) -> None:
    async with stand.open(ROCKSDB) as store:
        stand.put(store, 200)
        await store.in_rocksdb(store.max_position)
        stand.kill(tmp_path / "crashed")
    abort = (stand.root / "abort").read_bytes()
    convert_to_files(stand.root, queue_file_bytes=200)
    assert (stand.root / "abort").read_bytes() == abort
    async with stand.open(FILES) as store:
        assert stand.bodies(store) == list(range(0, 200, 2))
    assert_files_agree(stand.config(FILES))


async def test_a_store_in_use_is_refused_and_not_touched(stand: Stand) -> None:
    async with stand.open(ROCKSDB) as store:
        stand.put(store, 10)
        abort = (stand.root / "abort").read_bytes()
        with pytest.raises(StoreLocked):
            convert_to_files(stand.root)
        assert (stand.root / "abort").read_bytes() == abort
