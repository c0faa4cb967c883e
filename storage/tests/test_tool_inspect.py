"""``lanemq store inspect`` and ``export-metadata``: what a store holds, and in which stage."""

import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from lanemq.storage import ConfigTables, StoreConfig, StoreLocked, open_store
from lanemq.storage._layouts import iter_units
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase
from lanemq.storage.tools import (
    Inspection,
    NotAStore,
    Severity,
    export_in_place,
    export_tables,
    inspect_store,
    write_tables,
)
from lanemq.testkit.storage.stores import NAMES, Recorded, expected_of
from lanemq.wire.logical import progress_topic
from lanemq.wire.message import BROKER_STAGE_PREFIX, StageRecord, stage_group

FILE_STORE = "file-4.9.7-clean"
BOTH_STORE = "dualwrite-5.3.3-clean"
ROCKSDB_STORE = "rocksdb-5.3.3-clean"


def all_units(root: Path) -> list[tuple[int, int, int]]:
    paths = [path for path in (root / "consumequeue").rglob("*") if path.is_file()]
    return sorted(unit for path in paths for unit in iter_units(path.read_bytes()) if unit[1] > 0)


def kinds(found: Inspection, severity: Severity) -> set[str]:
    return {finding.kind for finding in found.findings if finding.severity is severity}


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_store_is_summed_up_as_its_broker_did(name: str, unpacked_stores: Path) -> None:
    root, expected = unpacked_stores / name, expected_of(name)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    found = inspect_store(root)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    assert found.is_clean == ("killed" not in name)
    assert found.log.end == expected["commitLogWalk"]["end"]
    assert abs(found.log.records_estimate - expected["commitLogWalk"]["records"]) < 10
    stage = {"f": 1, "d": 2, "r": 3}[name[0]]
    assert found.stage.stage == stage
    assert found.stage.is_sure
    ends = {(queue.topic, queue.queue_id): (queue.min, queue.end) for queue in found.queues}
    for topic, described in expected["topics"].items():
        for number, queue in described["queues"].items():
            assert ends.get((topic, int(number)), (0, 0)) == (queue["min"], queue["max"])
    lags = {(group.group, group.topic): group.offsets for group in found.groups}
    for group, topics in expected["consumerOffsets"].items():
        for topic, queues in topics.items() if isinstance(topics, dict) else ():
            for number, offsets in queues.items():
                known = lags.get((group, topic), {}).get(int(number), 0)
                assert known == offsets["consumerOffset"], (group, topic)
    assert kinds(found, Severity.PROBLEM) == set()


def test_a_crash_is_told_with_what_the_next_start_does(unpacked_stores: Path) -> None:
    found = inspect_store(unpacked_stores / "dualwrite-5.3.3-killed")
    assert found.abort_text.isdigit()
    assert {"not-closed", "rocksdb-covers-less"} <= kinds(found, Severity.NOTE)
    assert found.watermarks["rocksdb"] == 0


@pytest.mark.slow
def test_rocksdb_without_the_history_is_told_before_a_switch(recorded: Recorded) -> None:
    root = recorded(BOTH_STORE)
    assert inspect_store(root).findings == []
    database = QueueDatabase(root / "consumequeue")
    QueueRows(database).delete_units("sd_orders", 2, 0, 10)
    database.close()
    (found,) = inspect_store(root).findings
    assert (found.kind, found.count) == ("rocksdb-covers-less", 1)
    assert "too early" in found.what
    assert "convert" in found.way_on


def test_a_message_without_a_row_hides_none_before_it(recorded: Recorded) -> None:
    root = recorded(ROCKSDB_STORE)

    def bounds() -> tuple[int, int]:
        (found,) = (
            (queue.min, queue.end)
            for queue in inspect_store(root).queues
            if (queue.topic, queue.queue_id) == ("sd_orders", 2)
        )
        return found

    first, end = before = bounds()
    assert end - first > 2
    database = QueueDatabase(root / "consumequeue")
    QueueRows(database).delete_units("sd_orders", 2, first + 1, end - 1)
    database.close()
    assert bounds() == before


@pytest.mark.parametrize("missing", ["CURRENT", "*.sst"])
def test_an_incomplete_rocksdb_is_told_and_the_rest_is_shown(
    missing: str, recorded: Recorded
) -> None:
    root = recorded(ROCKSDB_STORE)
    for path in (root / "consumequeue").glob(missing):
        path.unlink()
    found = inspect_store(root)
    assert kinds(found, Severity.PROBLEM) == {"rocksdb-unreadable"}
    assert found.stage.stage == 3
    assert found.log.end == expected_of(ROCKSDB_STORE)["commitLogWalk"]["end"]


def test_offsets_that_were_never_merged_are_told(recorded: Recorded) -> None:
    root = recorded(ROCKSDB_STORE)
    offsets = root / "config/consumerOffset.json"
    text = offsets.read_text()
    assert '"offsetTable":{' in text
    offsets.write_text(text.replace('"offsetTable":{', '"offsetTable":{\n"T@only_in_json":{0:5},'))
    found = inspect_store(root)
    assert "never-merged" in kinds(found, Severity.NOTE)


def test_tables_of_another_kind_are_a_problem(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    (root / "config/rdb").mkdir()
    (root / "config/rdb/CURRENT").write_text("MANIFEST-000005\n")
    assert kinds(inspect_store(root), Severity.PROBLEM) == {"config-v2"}


def test_a_table_that_cannot_be_read_is_a_problem(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    for name in ("topics.json", "topics.json.bak"):
        (root / "config" / name).write_text("{")
    found = inspect_store(root)
    assert kinds(found, Severity.PROBLEM) == {"table-unreadable"}
    with pytest.raises(NotAStore, match="cannot be read"):
        export_tables(root)


def test_a_group_beyond_the_end_of_its_queue_is_told(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    offsets = root / "config/consumerOffset.json"
    offsets.write_text(offsets.read_text().replace("0:153", "0:9153"))
    found = inspect_store(root)
    assert kinds(found, Severity.NOTE) == {"offset-beyond-end"}


def test_a_store_without_indexes_still_has_a_log(recorded: Recorded) -> None:
    root = recorded("file-4.9.7-killed")
    for name in ("consumequeue", "index", "config"):
        shutil.rmtree(root / name)
    found = inspect_store(root)
    assert found.log.end == expected_of("file-4.9.7-killed")["commitLogWalk"]["end"]
    assert found.log.spare_files == 1
    assert found.queues == []


async def test_a_store_of_lanemq_says_its_stage_itself(
    filled: Callable[..., Awaitable[Path]],
) -> None:
    found = inspect_store(await filled(40, topics=("A", "B"), queues=2))
    assert "lanemq noted it" in found.stage.why
    assert found.stage.stage == 1
    assert {(queue.topic, queue.queue_id, queue.end) for queue in found.queues} == {
        ("A", 0, 10),
        ("A", 1, 10),
        ("B", 0, 10),
        ("B", 1, 10),
    }


def test_a_store_in_use_is_refused(recorded: Recorded) -> None:
    root = recorded(FILE_STORE)
    lock = RealFiles().lock(root / "lock", root)
    with pytest.raises(StoreLocked):
        inspect_store(root)
    lock.release()


# The tables


@pytest.mark.parametrize("name", NAMES)
def test_exported_tables_are_read_back_as_they_were(
    name: str, unpacked_stores: Path, tmp_path: Path
) -> None:
    stage, tables = export_tables(unpacked_stores / name)
    written = write_tables(tables, tmp_path / "config")
    assert sorted(path.name for path in written) == [
        "consumerOffset.json",
        "delayOffset.json",
        "subscriptionGroup.json",
        "topics.json",
    ]
    read = ConfigTables(StoreConfig(root=tmp_path), RealFiles(), lambda: 0)
    read.load(after_crash=False)
    expected = expected_of(name)
    for topic, described in expected["topics"].items():
        config = read.topics.get(topic)
        assert config is not None
        assert config.read_queue_nums == described["readQueueNums"]
    for group, topics in expected["consumerOffsets"].items():
        for topic, queues in topics.items() if isinstance(topics, dict) else ():
            for number, offsets in queues.items():
                known = read.consumer_offsets.get(group, topic, int(number)) or 0
                assert known == offsets["consumerOffset"]
    assert {table.source for table in tables} == (
        {"json", "rocksdb"} if stage.stage == 3 else {"json"}
    )


def test_an_export_overwrites_nothing(unpacked_stores: Path, tmp_path: Path) -> None:
    _, tables = export_tables(unpacked_stores / FILE_STORE)
    (tmp_path / "delayOffset.json").write_text("mine")
    with pytest.raises(FileExistsError):
        write_tables(tables, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["delayOffset.json"]


def test_either_side_can_be_exported(unpacked_stores: Path) -> None:
    root = unpacked_stores / ROCKSDB_STORE
    _, rocksdb = export_tables(root, from_rocksdb=True)
    _, before = export_tables(root, from_rocksdb=False)
    assert rocksdb[0].entries == 25 > before[0].entries
    assert rocksdb[0].members["dataVersion"].counter == 14


@pytest.mark.slow
async def test_tables_written_in_place_are_what_a_broker_without_rocksdb_starts_with(
    recorded: Recorded,
) -> None:
    root = recorded(ROCKSDB_STORE)
    old = (root / "config/topics.json").read_bytes()
    with pytest.raises(NotAStore, match=r"consumerOffset\.json") as refused:
        export_in_place(root)  # nothing proves that RocksDB has all that the file has
    assert "only an Apache broker has used its RocksDB" in str(refused.value)
    assert "`export_in_place(overwrite=True)` is right" in str(refused.value)
    _, written = export_in_place(root, overwrite=True)
    assert [path.name for _, path in written] == [
        "topics.json",
        "subscriptionGroup.json",
        "consumerOffset.json",
    ]
    assert (root / "config/topics.json.bak").read_bytes() == old
    sizes = expected_of(ROCKSDB_STORE)["config"]
    config = StoreConfig(
        root=root,
        commit_log_file_bytes=sizes["mappedFileSizeCommitLog"],
        consume_queue_file_bytes=sizes["mappedFileSizeConsumeQueue"],
        max_hash_slots=sizes["maxHashSlotNum"],
        max_index_entries=sizes["maxIndexNum"],
    )
    async with open_store(config) as store:
        assert store.tables.topics.get("sdx_orders") is not None
        assert store.tables.consumer_offsets.get("sdx_group_a", "sdx_orders", 0) == 15


def test_a_store_without_tables_in_rocksdb_has_nothing_to_write_in_place(
    recorded: Recorded,
) -> None:
    root = recorded(FILE_STORE)
    before = (root / "config/topics.json").read_bytes()
    with pytest.raises(NotAStore, match="in JSON already"):
        export_in_place(root)
    assert (root / "config/topics.json").read_bytes() == before


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_a_damaged_message_is_named_and_a_torn_one_is_no_problem(
    closed: bool, recorded: Recorded
) -> None:
    root = recorded("file-4.9.7-clean" if closed else "file-4.9.7-killed")
    end = inspect_store(root).log.end
    log = min((root / "commitlog").iterdir())
    data = bytearray(log.read_bytes())
    positions = [unit[0] for unit in all_units(root) if unit[0] < len(data)]
    first, last = positions[len(positions) // 2], max(unit[0] for unit in all_units(root))
    for position in (first, last):
        path = root / "commitlog" / f"{position // len(data) * len(data):020}"
        with path.open("r+b") as file:
            file.seek(position % len(data) + 90)
            byte = file.read(1)[0]
            file.seek(position % len(data) + 90)
            file.write(bytes([byte ^ 1]))
    found = inspect_store(root)
    assert found.log.end == end
    told = {one.log_position: one.kind for one in found.findings if one.log_position is not None}
    assert told[first] == "damaged-body"
    assert told[last] == ("damaged-body" if closed else "torn-tail")


@pytest.mark.parametrize(
    "name",
    [
        f"sa_orders@{stage_group('g')}",
        f"sa_orders@{BROKER_STAGE_PREFIX}g",
        f"{progress_topic('sa_orders', 1 << 20)}@g",
    ],
)
def test_progress_that_is_no_offset_is_not_compared_with_queues(
    name: str, recorded: Recorded
) -> None:
    """Stage records, and offsets in logical queues, which continue at other brokers."""
    root = recorded(FILE_STORE)
    number = StageRecord(7, 7).pack()
    path = root / "config/consumerOffset.json"
    path.write_text(json.dumps({"offsetTable": {name: {"0": number, "3": number}}}))
    shutil.rmtree(root / "consumequeue/sa_orders/3")
    found = inspect_store(root)
    assert not kinds(found, Severity.NOTE) & {"offset-beyond-end", "queue-files-missing"}
    assert all(group.lag == 0 for group in found.groups)
