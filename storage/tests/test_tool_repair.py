"""``lanemq store repair``: whatever is derived from the log comes back as it was."""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from lanemq.storage import StoreConfig, StoreLocked, open_store
from lanemq.storage._layouts import BLANK_SIZE, UNIT_BYTES, iter_units, pack_unit
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase
from lanemq.storage.tools import NotAStore, RepairReport, repair_store, verify_store
from lanemq.testkit.storage.stores import Recorded
from lanemq.testkit.storage.tools import change, first_file

pytestmark = pytest.mark.slow  # a store is taken apart and made again each time

FILE_STORE = "file-4.9.7-clean"
TOPIC = "sa_orders"
BOTH_STORE = "dualwrite-5.3.3-clean"
BOTH_TOPIC = "sd_orders"
ROCKSDB_STORE = "rocksdb-5.3.3-clean"


def log_bytes(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "commitlog").iterdir()}


def queue_bytes(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in (root / "consumequeue").glob("*/*/*")
    }


def repaired(root: Path, *, queue_file_bytes: int | None = None) -> RepairReport:
    """Repair a broken store; its log stays as it is, and a second time nothing is done."""
    log = log_bytes(root)
    report = repair_store(root, jobs=1, queue_file_bytes=queue_file_bytes)
    assert report.after is not None
    assert report.after.is_sound, report.after.problems
    assert log_bytes(root) == log
    again = repair_store(root, jobs=1)
    assert again.actions == []
    assert again.backup is None
    assert not (root / "repair.tmp").exists()
    return report


def delete_a_queue(root: Path) -> None:
    shutil.rmtree(root / "consumequeue" / TOPIC / "1")


def delete_all_queues(root: Path) -> None:
    shutil.rmtree(root / "consumequeue")


def shift_slots(root: Path) -> None:
    path = first_file(root / "consumequeue" / TOPIC / "1")
    units = list(iter_units(path.read_bytes()))
    del units[10]
    change(path, 0, b"".join(pack_unit(*unit) for unit in [*units, (0, 0, 0)]))


def cut_a_queue_file(root: Path) -> None:
    with first_file(root / "consumequeue" / TOPIC / "2").open("r+b") as file:
        file.truncate(50)


def zero_a_unit(root: Path) -> None:
    change(first_file(root / "consumequeue" / TOPIC / "3"), 5 * UNIT_BYTES, bytes(UNIT_BYTES))


@pytest.mark.parametrize(
    "damage",
    [delete_a_queue, delete_all_queues, shift_slots, cut_a_queue_file, zero_a_unit],
    ids=lambda damage: damage.__name__,
)
def test_queue_files_come_back_byte_for_byte(
    damage: Callable[[Path], None], recorded: Recorded
) -> None:
    root = recorded(FILE_STORE)
    queues = queue_bytes(root)
    damage(root)
    # With all files gone nothing is left to tell how long they were.
    report = repaired(root, queue_file_bytes=12_000 if damage is delete_all_queues else None)
    assert queue_bytes(root) == queues
    assert [action.part.value for action in report.actions] == ["queue files"]


def test_only_the_queue_with_shifted_slots_is_touched_and_its_old_file_is_kept(
    recorded: Recorded,
) -> None:
    root = recorded(FILE_STORE)
    shift_slots(root)
    before = {path: path.stat().st_ino for path in (root / "consumequeue").glob("*/*/*")}
    broken = first_file(root / "consumequeue" / TOPIC / "1")
    old = broken.read_bytes()
    report = repaired(root)
    after = {path: path.stat().st_ino for path in (root / "consumequeue").glob("*/*/*")}
    assert [path for path in before if before[path] != after[path]] == [broken]
    assert report.backup is not None
    assert (report.backup / broken.relative_to(root)).read_bytes() == old


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    shift_slots(root)
    first_file(root / "index").unlink()
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    report = repair_store(root, dry_run=True)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    assert [action.part.value for action in report.actions] == ["queue files", "key index"]
    assert not report.is_sound


# RocksDB


def rows_of(root: Path) -> dict[tuple[str, int], list[tuple[int, bytes]]]:
    database = QueueDatabase(root / "consumequeue", read_only=True)
    rows = QueueRows(database)
    found = {name: list(rows.items(name[0].encode(), name[1])) for name in rows.stored_queues()}
    database.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["CURRENT", "*.sst"])
@pytest.mark.parametrize("name", [BOTH_STORE, ROCKSDB_STORE])
def test_an_incomplete_rocksdb_is_set_aside_and_made_anew(
    name: str, missing: str, recorded: Recorded
) -> None:
    root = recorded(name)
    rows, queues = rows_of(root), queue_bytes(root)
    for path in (root / "consumequeue").glob(missing):
        path.unlink()
    left = {path.name for path in (root / "consumequeue").iterdir() if path.is_file()}
    report = repaired(root)
    assert rows_of(root) == rows
    assert queue_bytes(root) == queues
    assert report.backup is not None
    assert {path.name for path in (report.backup / "rocksdb").iterdir()} == left


@pytest.mark.slow
def test_a_hole_in_rocksdb_is_filled(recorded: Recorded) -> None:
    root = recorded(BOTH_STORE)
    rows = rows_of(root)
    database = QueueDatabase(root / "consumequeue")
    QueueRows(database).delete_units(BOTH_TOPIC, 2, 40, 43)
    database.close()
    repaired(root)
    assert rows_of(root) == rows


@pytest.mark.slow
def test_a_rocksdb_that_is_gone_comes_back_where_it_was_all_there_was(
    recorded: Recorded,
) -> None:
    root = recorded(ROCKSDB_STORE)
    rows = rows_of(root)
    for path in (root / "consumequeue").iterdir():
        if path.is_file():
            path.unlink()
    repaired(root)
    assert rows_of(root) == rows


# The key index


def test_the_key_index_comes_back(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    entries = verify_store(root).index_entries
    first_file(root / "index").unlink()
    report = repaired(root)
    assert report.after is not None
    assert report.after.index_entries == entries


@pytest.mark.slow
def test_everything_can_be_made_anew(recorded: Recorded) -> None:
    root = recorded(BOTH_STORE)
    rows, queues = rows_of(root), queue_bytes(root)
    report = repair_store(root, everything=True)
    assert [action.part.value for action in report.actions] == [
        "queue files",
        "rocksdb",
        "key index",
    ]
    assert report.is_sound
    assert (rows_of(root), queue_bytes(root)) == (rows, queues)


# The log


def test_a_torn_tail_is_cut_and_kept(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    end = verify_store(root).log_end
    log = max((root / "commitlog").iterdir())
    at = end - int(log.name)
    change(log, at - 300, bytes(200))
    torn = log.read_bytes()
    report = repair_store(root)
    assert report.after is not None
    assert report.after.is_sound
    new_end = report.after.log_end
    assert new_end < end
    assert log.read_bytes() == torn[: new_end - int(log.name)].ljust(len(torn), b"\0")
    assert report.backup is not None
    (kept,) = (report.backup / "commitlog").glob("*/*")
    begin = new_end - int(log.name)
    assert kept.read_bytes()[begin:] == torn[begin:]
    assert report.after.findings == []


def test_damage_inside_of_the_log_is_left_alone_and_told(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    log = first_file(root / "commitlog")
    change(log, 700 + 100, bytes([log.read_bytes()[800] ^ 1]))
    delete_a_queue(root)
    before = log_bytes(root)
    report = repair_store(root)
    assert log_bytes(root) == before
    assert report.after is not None
    assert [found.kind for found in report.after.problems] == ["damaged-body"]


def test_a_message_that_is_gone_gets_a_blank_unit(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    path = first_file(root / "consumequeue" / TOPIC / "1")
    position, size, _ = list(iter_units(path.read_bytes()))[7]
    change(first_file(root / "commitlog"), position, bytes(size - 1))
    path.unlink()
    report = repair_store(root)
    assert report.after is not None
    assert {found.kind for found in report.after.problems} == {"damaged-bytes"}
    units = list(iter_units(path.read_bytes()))
    assert units[7] == (0, BLANK_SIZE, 0)
    assert units[8][1] != BLANK_SIZE


async def test_a_queue_whose_messages_expired_goes_on_where_it_was(
    filled: Callable[..., Awaitable[Path]],
) -> None:
    root = await filled(150, topics=("old",))
    config = StoreConfig(
        root=root,
        commit_log_file_bytes=4096,
        consume_queue_file_bytes=200,
        max_hash_slots=7,
        max_index_entries=40,
    )
    for path in sorted((root / "commitlog").iterdir())[:-1]:
        path.unlink()
    begin = verify_store(root).log_begin
    assert begin > 0
    shutil.rmtree(root / "consumequeue")
    repaired(root, queue_file_bytes=200)
    async with open_store(config) as store:
        first, end = store.bounds("old", 0)
        assert end == 150
        record = store.message_at(store.units("old", 0, first, 1)[0].log_position)
        assert record is not None
        assert record.queue_offset == first > 0


# Kills, locks and mistakes


class Killed(Exception):  # noqa: N818 - the end of a process, not a fault of it
    pass


def kill_after(count: int, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process die before the next but ``count`` change of a name in the store."""
    left = [count]

    def dying(name: str) -> None:
        real = getattr(Path, name)

        def call(path: Path, *args: object, **options: object) -> object:
            left[0] -= path.is_relative_to(root)
            if left[0] < 0:
                raise Killed
            return real(path, *args, **options)

        monkeypatch.setattr(Path, name, call)

    for name in ("rename", "replace", "unlink", "hardlink_to", "touch"):
        dying(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [FILE_STORE, BOTH_STORE])
def test_a_repair_that_is_killed_anywhere_can_be_run_again(
    name: str, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = recorded(name)
    queues, rows = queue_bytes(root), rows_of(root) if name == BOTH_STORE else {}
    topic = TOPIC if name == FILE_STORE else BOTH_TOPIC
    pristine = root.with_name("pristine")
    shutil.copytree(root, pristine)
    log = log_bytes(root)
    kills = 0
    while True:
        shutil.rmtree(root)
        shutil.copytree(pristine, root)
        shutil.rmtree(root / "consumequeue" / topic / "1")
        first_file(root / "index").unlink()
        if rows:
            (root / "consumequeue/CURRENT").unlink()
        with monkeypatch.context() as patch:
            kill_after(kills, root, patch)
            try:
                repair_store(root, jobs=1)
                break
            except Killed:
                kills += 1
        repair_store(root, jobs=1)
        assert verify_store(root, jobs=1).is_sound, kills
        assert queue_bytes(root) == queues
        assert log_bytes(root) == log
        if rows:
            assert rows_of(root) == rows
    assert kills > 5


def test_a_store_in_use_is_not_repaired(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    delete_a_queue(root)
    lock = RealFiles().lock(root / "lock", root)
    for dry_run in (False, True):
        with pytest.raises(StoreLocked):
            repair_store(root, dry_run=dry_run)
    lock.release()


def test_what_is_no_store_is_not_touched(tmp_path: Path) -> None:
    with pytest.raises(NotAStore):
        repair_store(tmp_path)
    assert list(tmp_path.iterdir()) == []
