"""``lanemq store verify``: sound stores are found sound, and every kind of damage is named."""

import os
import random
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from hypothesis import assume, given
from hypothesis import strategies as st

from lanemq.storage import StoreLocked
from lanemq.storage._layouts import UNIT_BYTES, iter_units, pack_unit
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.index._index_file import key_hash
from lanemq.storage.index._key_hashes import key_hashes
from lanemq.storage.index._keys import key_data_of, keys_of
from lanemq.storage.log._records import Record
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase
from lanemq.storage.tools import (
    Finding,
    NotAStore,
    Severity,
    inspect_store,
    look_into,
    repair_store,
    verify_store,
)
from lanemq.storage.tools.checks import _log_check
from lanemq.storage.tools.checks._keys_check import keys_in
from lanemq.storage.tools.checks._rows import RowScan, row_of
from lanemq.storage.tools.reading._scan import LogScan
from lanemq.testkit.storage.stages import Stand
from lanemq.testkit.storage.stores import NAMES, Recorded, expected_of
from lanemq.testkit.storage.tools import change, first_file
from lanemq.wire import LocalProtocolError
from lanemq.wire.message import encode_properties

FILE_STORE = "file-4.9.7-clean"
TOPIC = "sa_orders"
BOTH_STORE = "dualwrite-5.3.3-clean"
BOTH_TOPIC = "sd_orders"


def state_of(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything there is below a directory: size, time of change, bytes."""
    return {
        str(path.relative_to(root)): (
            (path.stat().st_size, path.stat().st_mtime_ns, path.read_bytes())
            if path.is_file()
            else (0, path.stat().st_mtime_ns, b"")
        )
        for path in root.rglob("*")
    }


def units_of(root: Path, topic: str, queue_id: int) -> list[tuple[int, int, int]]:
    path = first_file(root / "consumequeue" / topic / str(queue_id))
    return [unit for unit in iter_units(path.read_bytes()) if unit[1] > 0]


def problems(root: Path) -> list[Finding]:
    return verify_store(root, jobs=1).problems


def only_problem(root: Path) -> Finding:
    (found,) = problems(root)
    return found


def notes(root: Path) -> list[Finding]:
    report = verify_store(root, jobs=1)
    assert report.is_sound
    return [found for found in report.findings if found.severity is Severity.NOTE]


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_store_is_sound_and_nothing_in_it_is_changed(
    name: str, unpacked_stores: Path
) -> None:
    root, expected = unpacked_stores / name, expected_of(name)
    before = state_of(root)
    report = verify_store(root, jobs=1)
    assert state_of(root) == before
    assert report.is_sound, report.problems
    assert report.log_end == expected["commitLogWalk"]["end"]
    assert report.records == expected["commitLogWalk"]["records"]
    if name.startswith("rocksdb"):
        assert report.rocksdb_rows == report.records
    else:
        assert report.file_units == report.records
    assert report.is_clean == ("killed" not in name)


@pytest.mark.parametrize("range_bytes", [3_000, 65_536, 10_000_000])
def test_the_parts_that_a_log_is_checked_in_do_not_show(
    range_bytes: int, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = recorded(FILE_STORE)
    position = units_of(root, TOPIC, 0)[100][0]
    change(first_file(root / "commitlog"), position + 2, b"\x7f")  # its size
    whole = verify_store(root, jobs=1)
    monkeypatch.setattr(_log_check, "RANGE_BYTES", range_bytes)
    parts = verify_store(root, jobs=1)
    assert parts.findings == whole.findings
    assert (parts.records, parts.file_units, parts.index_entries) == (
        whole.records,
        whole.file_units,
        whole.index_entries,
    )


@pytest.mark.slow
def test_several_processes_find_what_one_finds(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = recorded(BOTH_STORE)
    shutil.rmtree(root / "consumequeue" / BOTH_TOPIC / "1")
    one = verify_store(root, jobs=1)
    monkeypatch.setattr(_log_check, "RANGE_BYTES", 100_000)
    monkeypatch.setattr(_log_check, "PARALLEL_FROM_BYTES", 0)
    two = verify_store(root, jobs=2)
    assert two.findings == one.findings
    assert not one.is_sound
    assert two.rocksdb_rows == one.rocksdb_rows == two.records


# The log


def test_a_flipped_byte_of_a_body_is_told_with_its_message(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    position = units_of(root, TOPIC, 2)[7][0]
    log = first_file(root / "commitlog")
    change(log, position + 100, bytes([log.read_bytes()[position + 100] ^ 1]))
    found = only_problem(root)
    assert found.kind == "damaged-body"
    assert (found.topic, found.queue_id, found.queue_offset) == (TOPIC, 2, 7)
    assert found.log_position == position
    assert "copy of the log file" in found.way_on


def test_what_lies_behind_a_broken_record_is_checked_too(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    position, size, _ = units_of(root, TOPIC, 2)[7]
    change(first_file(root / "commitlog"), position, bytes(size - 1))
    found = problems(root)
    assert {one.kind for one in found} == {"damaged-bytes", "units-astray", "keys-stray"} or {
        one.kind for one in found
    } == {"damaged-bytes", "keys-stray"}
    (damage,) = [one for one in found if one.kind == "damaged-bytes"]
    assert (damage.log_position, damage.count) == (position, size)
    report = verify_store(root, jobs=1)
    assert report.records == expected_of(FILE_STORE)["commitLogWalk"]["records"] - 1


async def test_a_missing_log_file_is_a_gap(
    filled: Callable[..., Awaitable[Path]],
) -> None:
    root = await filled(150)
    files = sorted((root / "commitlog").iterdir())
    files[2].unlink()
    found = problems(root)
    gap = next(one for one in found if one.kind == "damaged-gap")
    assert gap.log_position == int(files[2].name)
    assert gap.count == int(files[3].name) - int(files[2].name)
    assert "put the missing log file back" in gap.way_on


def test_a_torn_tail_after_a_clean_stop_is_a_problem_and_after_a_crash_a_note(
    recorded: Recorded,
) -> None:
    root = recorded(FILE_STORE)
    end = verify_store(root).log_end
    log = sorted((root / "commitlog").iterdir())[-1]
    at = end - int(log.name)
    change(log, at - 300, bytes(200))
    found = problems(root)
    torn = [one for one in found if one.kind == "torn-tail"]
    assert len(torn) == 1
    assert 0 < torn[0].count < 600
    (root / "abort").touch()
    report = verify_store(root, jobs=1)
    assert "torn-tail" in {one.kind for one in report.findings if one.severity is Severity.NOTE}


def test_a_log_file_of_another_size_is_told(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    log = first_file(root / "commitlog")
    with log.open("r+b") as file:
        file.truncate(524_288 - 4096)
    kinds = {found.kind for found in problems(root)}
    assert "log-file-size" in kinds


# Queue files


def test_a_deleted_queue_file_is_told(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    first_file(root / "consumequeue" / TOPIC / "0").unlink()
    found = only_problem(root)
    assert (found.kind, found.topic, found.queue_id) == ("units-behind", TOPIC, 0)
    assert found.count == 153
    assert "`repair_store`" in found.way_on


def test_shifted_slots_are_told_with_the_first(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    units = units_of(root, TOPIC, 1)
    path = first_file(root / "consumequeue" / TOPIC / "1")
    shifted = b"".join(pack_unit(*unit) for unit in units[:10] + units[11:])
    change(path, 0, shifted + bytes(UNIT_BYTES))
    found = problems(root)
    assert [one.kind for one in found] == ["units-wrong", "units-behind"]
    assert found[0].queue_offset == 10
    assert found[0].count == len(units) - 11


def test_a_unit_that_is_gone_and_one_with_other_tags_are_told(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    units = units_of(root, TOPIC, 1)
    path = first_file(root / "consumequeue" / TOPIC / "1")
    change(path, 20 * UNIT_BYTES, bytes(UNIT_BYTES))
    position, size, code = units[30]
    change(path, 30 * UNIT_BYTES, pack_unit(position, size, code + 1))
    found = {one.kind: one for one in problems(root)}
    assert found["units-missing"].queue_offset == 20
    assert found["units-wrong"].queue_offset == 30
    assert "tags" in found["units-wrong"].what


def test_units_behind_the_log_are_dropped_by_a_start(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    path = first_file(root / "consumequeue" / TOPIC / "1")
    count, end = len(units_of(root, TOPIC, 1)), verify_store(root).log_end
    change(path, count * UNIT_BYTES, pack_unit(end, 500, 0))
    (note,) = notes(root)
    assert (note.kind, note.queue_offset) == ("units-ahead", count)


def test_records_of_a_deleted_topic_are_no_problem(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    shutil.rmtree(root / "consumequeue" / "sa_single")
    assert problems(root)
    topics = root / "config/topics.json"
    topics.write_text(topics.read_text().replace('"sa_single"', '"sa_other"'))
    (note,) = notes(root)
    assert (note.kind, note.count) == ("deleted-topics", 297)


def test_a_queue_that_lags_after_a_crash_is_left_to_the_next_start(recorded: Recorded) -> None:
    root = recorded("file-4.9.7-killed")
    path = max((root / "consumequeue/sb_orders/0").iterdir())
    units = [unit for unit in iter_units(path.read_bytes()) if unit[1] > 0]
    change(path, (len(units) - 5) * UNIT_BYTES, bytes(5 * UNIT_BYTES))
    (note,) = notes(root)
    assert (note.kind, note.count) == ("units-behind", 5)
    assert "next start" in note.way_on


# RocksDB


def tamper(root: Path) -> QueueRows:
    return QueueRows(QueueDatabase(root / "consumequeue"))


def test_a_hole_in_rocksdb_is_told_with_its_first_offset(recorded: Recorded) -> None:
    root = recorded(BOTH_STORE)
    rows = tamper(root)
    rows.delete_units(BOTH_TOPIC, 2, 40, 43)
    rows.database.close()
    found = only_problem(root)
    assert (found.kind, found.part.value, found.queue_offset) == ("units-missing", "rocksdb", 40)
    assert found.count == 3


@pytest.mark.slow
def test_rocksdb_that_starts_late_is_a_note_while_files_are_read(
    recorded: Recorded,
) -> None:
    root = recorded(BOTH_STORE)
    rows = tamper(root)
    rows.delete_units(BOTH_TOPIC, 2, 0, 10)
    rows.database.close()
    (note,) = notes(root)
    assert (note.kind, note.count) == ("units-begin-late", 10)
    assert "convert" in note.way_on


@pytest.mark.slow
def test_an_overhang_of_rocksdb_is_told(recorded: Recorded) -> None:
    root = recorded(BOTH_STORE)
    end = verify_store(root).log_end
    rows = tamper(root)
    batch = rows.batch()
    data = BOTH_TOPIC.encode()
    batch.put_unit(data, 3, 151, end, 300, 0, 1)
    batch.put_max(data, 3, end, 151)
    batch.write()
    rows.database.close()
    (note,) = notes(root)
    assert (note.kind, note.queue_offset) == ("units-ahead", 151)


@pytest.mark.slow
def test_a_watermark_behind_the_log_is_told(recorded: Recorded) -> None:
    root = recorded(BOTH_STORE)
    rows = tamper(root)
    batch = rows.batch()
    batch.set_watermark(10_000_000)
    batch.write()
    rows.database.close()
    (note,) = notes(root)
    assert note.kind == "watermark"


@pytest.mark.slow
def test_a_wrong_row_for_the_end_of_a_queue_is_told(recorded: Recorded) -> None:
    root = recorded(BOTH_STORE)
    rows = tamper(root)
    batch = rows.batch()
    batch.put_max(BOTH_TOPIC.encode(), 0, 1, 3)
    batch.write()
    rows.database.close()
    found = only_problem(root)
    assert (found.kind, found.queue_id) == ("bound-wrong", 0)


@pytest.mark.parametrize("missing", ["CURRENT", "*.sst"])
def test_a_rocksdb_that_lacks_a_file_is_told_and_the_rest_is_checked(
    missing: str, recorded: Recorded
) -> None:
    root = recorded(BOTH_STORE)
    for path in (root / "consumequeue").glob(missing):
        path.unlink()
    before = state_of(root)
    found = only_problem(root)
    assert found.kind == "rocksdb-unreadable"
    assert "aside" in found.way_on
    assert verify_store(root).file_units == 1601
    assert state_of(root) == before


# The key index


def test_a_missing_index_file_is_told(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    first_file(root / "index").unlink()
    found = only_problem(root)
    assert (found.kind, found.count) == ("keys-missing", 1999)


def test_an_entry_with_another_hash_breaks_key_and_chain(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    path = first_file(root / "index")
    at = 40 + 500 * 4 + 50 * 20
    change(path, at, (int.from_bytes(path.read_bytes()[at : at + 4], "big") ^ 1).to_bytes(4, "big"))
    assert {found.kind for found in problems(root)} == {"keys-missing", "keys-stray", "keys-chain"}


# What is not a store, or in use


def test_what_is_no_store_is_refused_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="there is no such directory"):
        verify_store(tmp_path / "nowhere")
    with pytest.raises(NotAStore, match="storePathRootDir"):
        verify_store(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    for look in (verify_store, inspect_store, repair_store):
        with pytest.raises(NotAStore, match="it is a file; a store is a broker's directory"):
            look(tmp_path / "file")


def test_a_store_in_use_is_refused(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    lock = RealFiles().lock(root / "lock", root)
    with pytest.raises(StoreLocked):
        verify_store(root)
    lock.release()
    assert verify_store(root).is_sound


@given(
    topic=st.text(min_size=1, max_size=20),
    keys=st.lists(
        st.one_of(
            st.text(st.characters(exclude_characters="\x01\x02 "), min_size=1),
            st.text("ABCDEF0123456789", min_size=1, max_size=40),
        ),
        max_size=9,
    ),
)
def test_keys_are_hashed_as_the_index_does_it(topic: str, keys: list[str]) -> None:
    try:
        properties = encode_properties({"UNIQ_KEY": "AC1E" * 8, "KEYS": " ".join(keys)})
    except LocalProtocolError:
        assume(False)
    record = Record(7, 100, topic, 0, 0, 0, 0, properties)
    found = keys_in([row_of(record)])
    assert [key for _, _, key in found] == key_data_of(properties)
    wanted = [key_hash(topic, key) for key in keys_of(properties)]
    heads: dict[tuple[str, bytes], int] = {}
    for _ in range(2):  # the second time from what is remembered
        assert key_hashes(found, heads) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_rows_are_the_records_that_a_walk_over_damage_finds(seed: int, recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    rng = random.Random(seed)
    for path in sorted((root / "commitlog").iterdir()):
        data = bytearray(path.read_bytes())
        for _ in range(rng.choice((0, 1, 5, 60))):
            at, size = rng.randrange(len(data)), rng.choice((1, 1, 4, 300, 5000))
            data[at : at + size] = rng.choice((bytes(size), rng.randbytes(size)))[: len(data) - at]
        path.write_bytes(data)
    log = look_into(root).log
    for begin, end in _log_check.log_ranges(log):
        cut = rng.randrange(begin, end)
        for part in ((begin, cut), (cut, end), (begin, end)):
            plain, walk = RowScan(log, *part), LogScan(log, *part)
            rows = [row for rows in plain for row in rows]
            assert rows == [row_of(record) for record in walk]
            assert (plain.first, plain.stopped, plain.why) == (walk.first, walk.stopped, walk.why)
            assert plain.damages == walk.damages


@pytest.mark.slow
def test_the_log_is_read_once_and_progress_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand = Stand(
        tmp_path / "store",
        commit_log_file_bytes=1 << 22,
        consume_queue_file_bytes=1 << 20,
        max_index_entries=50_000,
    )
    trio.run(stand.run, 1, 40_000)
    root = stand.root
    monkeypatch.setattr(_log_check, "RANGE_BYTES", 1 << 21)
    read, told = 0, []
    pread = os.pread

    def counted(descriptor: int, size: int, position: int) -> bytes:
        nonlocal read
        data = pread(descriptor, size, position)
        read += len(data) if "commitlog" in os.readlink(f"/proc/self/fd/{descriptor}") else 0
        return data

    monkeypatch.setattr(os, "pread", counted)
    report = verify_store(root, progress=lambda what, done, total: told.append((what, done, total)))
    assert report.is_sound
    assert report.log_end > 8 << 20
    at_the_end = 4 << 20  # where it stops it looks more than once, however long the log is
    assert report.log_end <= read <= 1.1 * report.log_end + at_the_end
    log = [(done, total) for what, done, total in told if what == "log"]
    assert len(log) > 1
    assert log == sorted(log)
    assert log[-1][0] == log[-1][1]
