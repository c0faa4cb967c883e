"""Jobs about stores, on recorded ones; Apache's broker and lanemq's tools judge the results."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lanemq.compat import StoreStand, walk_rows
from lanemq.storage import NewMessage, Stage, StoreConfig, open_store
from lanemq.storage.bulk import convert_to_rocksdb
from lanemq.storage.tools import export_tables, inspect_store, verify_store
from lanemq.testkit.peers import require_tools
from lanemq.testkit.spark import require_packages
from lanemq.wire import HostAddress
from lanemq.wire.message import encode_properties

require_packages()

from pyarrow import dataset  # noqa: E402

from lanemq.spark import SourceError  # noqa: E402
from lanemq.spark.jobs import (  # noqa: E402
    audit,
    build,
    compare,
    convert,
    diff,
    export,
    export_kv,
    find,
    lag,
    verify,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.peers]
ExpectedOf = Callable[[str], dict[str, Any]]
CLEAN = ("dualwrite-5.3.3-clean", "file-4.9.7-clean", "rocksdb-5.3.3-clean")
UNIT_BYTES = 20


def change(path: Path, place: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(data)


@pytest.fixture
def store(recorded_stores: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Copies of recorded stores, to be changed."""
    return lambda name: Path(shutil.copytree(recorded_stores / name, tmp_path / name))


@pytest.mark.parametrize("name", CLEAN)
def test_a_store_that_was_closed_is_sound(
    spark: "SparkSession", recorded_stores: Path, expected_of: ExpectedOf, name: str
) -> None:
    done = verify(spark, str(recorded_stores / name))
    assert done.is_sound
    assert done.records == expected_of(name)["commitLogWalk"]["records"]
    assert verify_store(recorded_stores / name).is_sound
    used = [one for one in done.queues if one.counts]
    assert [one.source for one in used] == ["rocksdb" if name.startswith("rocks") else "files"]


def test_a_killed_store_is_sound_but_for_what_the_next_start_adds(
    spark: "SparkSession", recorded_stores: Path
) -> None:
    done = verify(spark, str(recorded_stores / "file-4.9.7-killed"))
    assert not done.is_clean
    assert done.is_sound
    assert [one.missing for one in done.queues] == [0]


def test_what_is_wrong_is_counted_and_told(
    spark: "SparkSession", store: Callable[[str], Path]
) -> None:
    root = store("file-5.3.3-clean")
    queue = next((root / "consumequeue/sc_orders/0").iterdir())
    change(queue, 5 * UNIT_BYTES, b"\xff" * 8)  # no position
    change(queue, 9 * UNIT_BYTES + 12, bytes(8))  # no tags
    other = next((root / "consumequeue/sc_orders/1").iterdir())
    change(other, 3 * UNIT_BYTES, bytes(UNIT_BYTES))  # as if it had not been written
    found = verify(spark, str(root))
    assert not found.is_sound
    (files,) = found.queues
    # A unit with a position before the log is none.
    assert (files.missing, files.wrong, files.superfluous) == (2, 1, 0)
    assert found.damage == {}
    (log,) = (root / "commitlog").glob("0*0")
    change(log, 90, b"?!?!")  # in the first body
    damaged = verify(spark, str(root))
    assert sum(damaged.damage.values()) == 1
    assert damaged.first_damage[0].file == str(log)


def test_queues_are_compared_from_any_two_sides(
    spark: "SparkSession", store: Callable[[str], Path], tmp_path: Path
) -> None:
    root = store("dualwrite-5.3.3-clean")
    same = diff(spark, str(root), "files", "rocksdb")
    rows = walk_rows(root)
    assert same.right_units == len(rows.units)
    assert same.differences == 0
    assert same.left_units == same.right_units
    topic, queue_id, offset = min(key for key in rows.units if key[0].startswith("sd_") and key[2])
    queue = next((root / f"consumequeue/{topic}/{queue_id}").iterdir())
    change(queue, offset * UNIT_BYTES + 8, (7).to_bytes(4, "big"))
    output = tmp_path / "differences"
    for right in ("rocksdb", "log"):
        found = diff(spark, str(root), "files", right, output=str(output / right))
        assert found.differences == 1
        (one,) = found.queues
        assert (one.topic, one.queue, one.first_offset) == (topic, queue_id, offset)
        assert one.kind == "different"
        (row,) = dataset.dataset(output / right).to_table().to_pylist()
        expected = rows.units[topic, queue_id, offset]
        assert row["right"]["logPosition"] == expected.log_position
        assert (row["left"]["storeSize"], row["right"]["storeSize"]) == (7, expected.size_bytes)


@pytest.mark.parametrize("name", ["rocksdb-5.3.3-clean", "file-4.9.7-clean"])
def test_lags_are_those_that_the_store_shows_and_an_archive_has_them(
    spark: "SparkSession", recorded_stores: Path, tmp_path: Path, name: str
) -> None:
    root = recorded_stores / name
    done = lag(spark, str(root))
    lags: dict[tuple[str, str], int] = {}
    for one in done.groups:
        lags[one.group, one.topic] = lags.get((one.group, one.topic), 0) + one.lag
        assert (one.oldest_ms is not None) == (one.lag > 0)
    shown = {(one.group, one.topic): one.lag for one in inspect_store(root).groups}
    assert {key: lags[key] for key in shown} == shown
    assert sum(shown.values()) > 0
    archive = str(tmp_path / "archive")
    export(spark, str(root), archive)
    with pytest.raises(SourceError, match="no offsets of groups: export with `with_offsets`"):
        lag(spark, archive)
    again = lag(spark, archive, offsets=str(root))
    assert (again.groups, again.dead) == (done.groups, done.dead)
    shutil.rmtree(archive)
    export(spark, str(root), archive, with_offsets=True)
    assert lag(spark, archive).groups == done.groups


def test_dead_letters_are_counted_by_group_and_topic(
    spark: "SparkSession", recorded_stores: Path, tmp_path: Path
) -> None:
    async def fill() -> None:
        async with open_store(StoreConfig(root=tmp_path)) as store:
            for number in range(10):
                properties = {"RETRY_TOPIC": "orders"} if number < 7 else {}
                message = NewMessage(
                    topic="%DLQ%billing",
                    queue_id=0,
                    body=b"dead",
                    properties=encode_properties(properties),
                    born_timestamp_ms=1_700_000_000_000,
                    born_host=HostAddress("127.0.0.1", 1).packed,
                    store_host=HostAddress("127.0.0.1", 1).packed,
                )
                store.put(message)
                store.commit()

    trio.run(fill)
    dead = lag(spark, str(tmp_path), offsets=str(recorded_stores / "file-4.9.7-clean")).dead
    found = [(one.group, one.topic, one.messages) for one in dead]
    assert found == [("billing", None, 3), ("billing", "orders", 7)]
    times = [one.oldest_ms for one in dead] + [one.newest_ms for one in dead]
    now_ms = time.time() * 1000
    assert all(now_ms - 600_000 < one < now_ms + 1000 for one in times)


def test_apache_goes_on_with_what_was_built_and_converted(
    spark: "SparkSession", expected_of: ExpectedOf, tmp_path: Path
) -> None:
    """A store in files becomes one in RocksDB: queues by tables, then the tables of its config."""
    require_tools("java")
    name = "file-5.3.3-clean"
    expected = expected_of(name)
    stand = StoreStand.recorded(name, tmp_path)
    plain = Path(shutil.copytree(stand.store, tmp_path / "plain"))
    before = {table.name: table.members for table in export_tables(stand.store)[1]}
    done = build(spark, str(stand.store), part_bytes=1 << 17)
    assert done.tables > 4
    assert done.unplaced == 0
    convert_to_rocksdb(plain, from_log=True)
    assert walk_rows(stand.store) == walk_rows(plain)
    assert done.units == len(walk_rows(plain).units)
    (converted,) = convert(spark, [str(stand.store)], "rocksdb")
    assert {one.name for one in converted.tables} == {
        "topics",
        "subscriptionGroups",
        "consumerOffsets",
    }
    tool = [str(Path(sys.executable).with_name("lanemq")), "store", "verify", str(stand.store)]
    checked = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr

    async def look() -> tuple[Any, Any]:
        async with stand.run("apache-5.3.3", Stage.ROCKSDB):
            return await stand.view(), await stand.committed()

    view, committed = trio.run(look)
    assert view.holes == view.shifted == []
    for topic, described in expected["topics"].items():
        for queue, bounds in described["queues"].items():
            if bounds["max"] > bounds["min"]:
                begin, end = view.bounds[topic, int(queue)]
                assert begin == bounds["min"]
                # Delayed messages come while it runs.
                assert end >= bounds["max"]
    for group, of_topics in expected["consumerOffsets"].items():
        if not isinstance(of_topics, str):
            for topic, queues in of_topics.items():
                for queue, offset in queues.items():
                    known = committed.get((group, topic), {}).get(int(queue), 0)
                    assert known == offset["consumerOffset"]
    (back,) = convert(spark, [str(stand.store)], "json", force=True)
    assert {one.name for one in back.tables} == {"topics", "groups", "consumerOffsets"}
    after = {
        table.name: table.members for table in export_tables(stand.store, from_rocksdb=False)[1]
    }
    for group_at_topic, offsets in before["consumerOffsets"]["offsetTable"].items():
        assert after["consumerOffsets"]["offsetTable"][group_at_topic] == offsets
    assert before["topics"]["topicConfigTable"].keys() <= after["topics"]["topicConfigTable"].keys()


def test_a_store_in_use_or_none_is_refused(spark: "SparkSession", tmp_path: Path) -> None:
    for job in (verify, build):
        with pytest.raises(SourceError, match="is not a store: it has no commitlog"):
            job(spark, str(tmp_path))
    with pytest.raises(SourceError, match=r"is not an archive: .* It is not a store either"):
        lag(spark, str(tmp_path))
    with pytest.raises(SourceError, match="RocksDB writes to local paths only"):
        convert(spark, ["mock://x"], "rocksdb")


@pytest.mark.parametrize("job", ["export", "diff", "compare", "find", "audit", "export_kv"])
def test_a_directory_that_is_there_is_refused_before_a_task_runs(
    spark: "SparkSession", recorded_stores: Path, tmp_path: Path, job: str
) -> None:
    store, there = str(recorded_stores / "file-5.3.3-clean"), tmp_path.as_uri()
    work: dict[str, Callable[[], object]] = {
        "export": lambda: export(spark, store, there),
        "diff": lambda: diff(spark, store, "files", "log", output=there),
        "compare": lambda: compare(spark, store, store, output=there),
        "find": lambda: find(spark, [store], ["k"], output=there),
        "audit": lambda: audit(spark, store, "sc_orders", "g", output=there),
        "export_kv": lambda: export_kv(spark, store, there),
    }
    spark.sparkContext.setJobGroup(f"refused {job}", "")
    try:
        with pytest.raises(SourceError, match=r"already exists: name a directory that does not$"):
            work[job]()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type] # to unset it
    assert not spark.sparkContext.statusTracker().getJobIdsForGroup(f"refused {job}")
