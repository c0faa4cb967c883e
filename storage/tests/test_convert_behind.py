"""Stores whose RocksDB is behind the log, as a kill in stage 3 leaves them, go to files whole."""

from pathlib import Path

import pytest

from lanemq.storage.bulk import convert_to_files, convert_to_rocksdb
from lanemq.storage.bulk.checks._result_check import ResultRefused
from lanemq.storage.bulk.files._file_redo import LogToFiles
from lanemq.storage.bulk.rows._rows_build import RowsBuild
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase
from lanemq.storage.tools import inspect_store
from lanemq.testkit.storage.stages import Stand, assert_files_agree, assert_rows_agree

FILES, BOTH, ROCKSDB = 1, 2, 3
MESSAGES = 300


async def killed_in_stage_3(stand: Stand, to: Path, *, behind: int) -> None:
    """Stages 1 to 3, then a kill with ``behind`` messages that have no rows."""
    await stand.run(FILES, 50)
    await stand.run(BOTH, 50, first=50)
    async with stand.open(ROCKSDB) as store:
        stand.put(store, MESSAGES - 100 - behind, first=100)
        await store.in_rocksdb(store.max_position)
        mark = store.max_position
        stand.put(store, behind, first=MESSAGES - behind)
        await store.in_rocksdb(store.max_position)
        stand.kill(to)
    rows = QueueRows(QueueDatabase(stand.root / "consumequeue"))
    rows.truncate(mark)  # what was not flushed when the process died
    rows.close()


@pytest.mark.slow
@pytest.mark.parametrize("behind", [0, 60])
async def test_a_killed_store_loses_no_unit(tmp_path: Path, behind: int) -> None:
    stand = Stand(tmp_path / "store")
    await killed_in_stage_3(stand, tmp_path / "killed", behind=behind)
    done = convert_to_files(stand.root)
    assert done.units >= MESSAGES - 100
    assert_files_agree(stand.config(FILES))
    async with stand.open(FILES) as store:
        for queue_id in range(2):
            assert stand.bodies(store, queue_id=queue_id) == list(range(queue_id, MESSAGES, 2))


def contents(root: Path) -> dict[Path, bytes]:
    """Every file of a store by its name in it, but for what RocksDB says of itself."""
    return {
        path.relative_to(root): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name not in ("LOG", "LOCK")
    }


async def test_what_is_replaced_is_kept_until_a_start_after_a_clean_stop(tmp_path: Path) -> None:
    stand = Stand(tmp_path / "store")
    await stand.run(BOTH, 95)
    await stand.run(ROCKSDB, 105, first=95)
    before = contents(stand.root / "consumequeue" / "T")
    done = convert_to_files(stand.root)
    assert done.kept is not None
    assert done.kept.parent == stand.root
    kept = contents(done.kept / "consumequeue" / "T")
    now = contents(stand.root / "consumequeue" / "T")
    assert kept == {name: data for name, data in before.items() if now[name] != data}
    assert kept
    (finding,) = [
        found for found in inspect_store(stand.root).findings if found.kind == "kept-by-conversion"
    ]
    assert done.kept.name in finding.what
    async with stand.open(FILES):
        stand.kill(tmp_path / "killed")
    assert not done.kept.exists()
    async with stand.open(FILES) as store:  # it never had anything of that kind
        assert stand.bodies(store) == list(range(0, 200, 2))


async def test_after_a_crash_it_stays(tmp_path: Path) -> None:
    stand = Stand(tmp_path / "store")
    await killed_in_stage_3(stand, tmp_path / "killed", behind=0)
    done = convert_to_files(stand.root)
    assert done.kept is not None
    async with stand.open(FILES):
        assert done.kept.exists()
    async with stand.open(FILES):
        assert not done.kept.exists()


@pytest.mark.parametrize("target", ["files", "rocksdb"])
async def test_a_result_that_lacks_what_can_be_read_is_refused_and_nothing_changes(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = Stand(tmp_path / "store")
    await stand.run(FILES, 100)
    before = contents(stand.root)
    if target == "files":  # a conversion with a fault: it cuts a queue off
        monkeypatch.setattr(LogToFiles, "run", lambda *_: None)
        with pytest.raises(ResultRefused, match="queue 0 of T, from offset 0"):
            convert_to_files(stand.root, from_log=True)
    else:
        monkeypatch.setattr(
            RowsBuild, "_convert_from", lambda build, *_, **__: build._survey.log_end
        )
        with pytest.raises(ResultRefused, match="queue 0 of T, from offset 0"):
            convert_to_rocksdb(stand.root)
    assert contents(stand.root) == before


async def test_a_rocksdb_that_is_replaced_is_kept_whole(tmp_path: Path) -> None:
    stand = Stand(tmp_path / "store")
    await stand.run(BOTH, 100)
    rows = QueueRows(QueueDatabase(stand.root / "consumequeue"))
    rows.delete_units("T", 0, 20, 30)
    rows.close()
    done = convert_to_rocksdb(stand.root)
    assert done.units >= 10
    assert_rows_agree(stand.config(ROCKSDB))
    assert done.kept is not None
    old = QueueRows(QueueDatabase(done.kept / "rocksdb"))
    assert old.unit("T", 0, 19) is not None
    assert old.unit("T", 0, 20) is None
    old.close()
    assert_rows_agree(stand.config(ROCKSDB))  # they share tables, and nothing else
    again = convert_to_rocksdb(stand.root)
    assert (again.units, again.kept) == (0, None)
