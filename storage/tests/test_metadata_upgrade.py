"""Topics, groups and offsets on their way from JSON files to RocksDB and back.

On real directories, for RocksDB has no other. A kill is a copy of the directory, taken while the
tables are open.
"""

import json
import logging
import os
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from rocksdict import Options, Rdict

from lanemq.storage import (
    ConfigInvalid,
    ConfigTables,
    StartRefused,
    StoreConfig,
    StoreCorrupted,
    StoreError,
    StoreLocked,
    StoreType,
    open_store,
)
from lanemq.storage._tables import check_tables
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.tables.rocks import _database as database
from lanemq.storage.tables.rocks._database import Change, ConfigDatabase
from lanemq.storage.tables.rocks._rows import GROUPS, KINDS, OFFSETS, TOPICS, Kind
from lanemq.storage.tables.rocks._rule import Marker
from lanemq.storage.tools import export_in_place
from lanemq.testkit.calls import calls_of_this_thread
from lanemq.wire import fastjson
from lanemq.wire.bodies import DataVersion, SubscriptionGroupConfig, TopicConfig

NOW_MS = 1_700_000_000_000
EARLIER_S, LATER_S = 1_000_000.0, 2_000_000.0
ROCKSDB = StoreType.ROCKSDB


@asynccontextmanager
async def tables(
    root: Path,
    **settings: Any,  # noqa: ANN401 - every setting has its own type
) -> AsyncIterator[ConfigTables]:
    """The tables as a store opens and closes them."""
    files, config = RealFiles(), StoreConfig(root=root, **settings)
    check_tables(config, files)
    opened = ConfigTables(config, files, lambda: NOW_MS)
    try:
        opened.load(after_crash=False)
        yield opened
        await opened.finish()
    finally:
        opened.close()


def write_json(root: Path, kind: Kind, entries: object, version: object = None) -> Path:
    path = root / "config" / kind.file
    path.parent.mkdir(parents=True, exist_ok=True)
    members = {kind.member: entries} | ({"dataVersion": version} if version else {})
    path.write_text(json.dumps(members))
    return path


def counter(number: int) -> dict[str, int]:
    return {"counter": number, "stateVersion": 0, "timestamp": 1}


def topic(name: str, queues: int = 4) -> dict[str, object]:
    return {"topicName": name, "readQueueNums": queues, "writeQueueNums": queues}


def write_rows(
    root: Path, kind: Kind, entries: dict[str, object], version: int | None = None
) -> Path:
    """A database as 5.3.3 leaves it: rows, and a version or none."""
    path = root / "config" / kind.name
    opened = ConfigDatabase(path)
    changes = [
        Change(database.ROWS, key.encode(), kind.row(value)) for key, value in entries.items()
    ]
    if version is not None:
        row = json.dumps(counter(version)).encode()
        changes.append(Change(database.VERSION, database.VERSION_KEY, row))
    opened.write(changes, sync=True)
    opened.close()
    return path


def rows(root: Path, kind: Kind, family: str = database.ROWS) -> dict[bytes, bytes]:
    opened = ConfigDatabase(root / "config" / kind.name, read_only=True)
    try:
        return opened.rows(family)
    finally:
        opened.close()


def version_of(root: Path, kind: Kind) -> Any:  # noqa: ANN401 - JSON
    row = rows(root, kind, database.VERSION).get(database.VERSION_KEY)
    return json.loads(row)["counter"] if row else None


def marker_of(root: Path, kind: Kind) -> Marker:
    return Marker.parse(rows(root, kind, database.VERSION)[database.MARKER_KEY])


def written(path: Path, time_s: float) -> None:
    """Say when a file, or all of a database, was written last."""
    for file in [path, *path.glob("*")] if path.is_dir() else [path]:
        os.utime(file, (time_s, time_s))


def everything(root: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(root)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


async def test_what_is_put_comes_back_from_rocksdb_in_5_3_3_s_form(tmp_path: Path) -> None:
    async with tables(tmp_path, store_type=ROCKSDB, export_json_on_close=False) as opened:
        opened.topics.put(TopicConfig("T/1", 4, 4))
        opened.topics.put(TopicConfig("gone", 4, 4))
        opened.topics.remove("gone")
        opened.groups.put(SubscriptionGroupConfig("g"))
        opened.consumer_offsets.put("g", "T/1", 0, 640)
        opened.consumer_offsets.put("g", "T/1", 2, 1 << 60)
        opened.consumer_offsets.put("h", "T/1", 0, 1)
        opened.consumer_offsets.remove_group("h")
        opened.delay_offsets.put(3, 9)
    assert rows(tmp_path, TOPICS) == {b"T/1": TOPICS.row(TopicConfig("T/1", 4, 4))}
    assert rows(tmp_path, GROUPS) == {b"g": GROUPS.row(SubscriptionGroupConfig("g"))}
    assert rows(tmp_path, OFFSETS) == {
        b"T/1@g": b'{"offsetTable":{"0":640,"2":"1152921504606846976"}}'
    }
    assert version_of(tmp_path, TOPICS) == 3
    assert version_of(tmp_path, OFFSETS) is None  # 5.3.3 counts only merges, nearly
    assert sorted(path.name for path in (tmp_path / "config").glob("*.json")) == [
        "delayOffset.json"
    ]
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert opened.topics.names == ("T/1",)
        assert opened.topics.data_version == DataVersion(NOW_MS, 3, 0)
        assert opened.consumer_offsets.queues("g", "T/1") == {0: 640, 2: 1 << 60}
        assert opened.delay_offsets.get(3) == 9


async def test_topics_and_groups_survive_a_kill_at_once_and_offsets_once_written(
    tmp_path: Path,
) -> None:
    root, killed = tmp_path / "root", tmp_path / "killed"
    async with tables(root, store_type=ROCKSDB) as opened:
        opened.topics.put(TopicConfig("T"))
        opened.groups.put(SubscriptionGroupConfig("g"))
        opened.consumer_offsets.put("g", "T", 0, 5)
        opened.persist()
        await opened.sync()
        opened.consumer_offsets.put("g", "T", 0, 6)
        shutil.copytree(root, killed)
    async with tables(killed, store_type=ROCKSDB) as opened:
        assert opened.topics.names == ("T",)
        assert opened.groups.names == ("g",)
        assert opened.consumer_offsets.queues("g", "T") == {0: 5}


async def test_changes_wait_for_the_task_where_the_settings_allow_it(tmp_path: Path) -> None:
    root, killed = tmp_path / "root", tmp_path / "killed"
    async with tables(root, store_type=ROCKSDB, persist_metadata_at_once=False) as opened:
        opened.topics.put(TopicConfig("T"))
        shutil.copytree(root, killed)
    assert rows(killed, TOPICS) == {}
    assert list(rows(root, TOPICS)) == [b"T"]


async def test_members_beside_the_topics_are_kept_in_rocksdb_and_come_back(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text(
        json.dumps({"topicConfigTable": {"T": topic("T")}, "more": {"a/b": [1]}})
    )
    (tmp_path / "config" / "subscriptionGroup.json").write_text(
        json.dumps(
            {"subscriptionGroupTable": {"g": {"groupName": "g"}}, "forbiddenTable": {"g": {"T": 3}}}
        )
    )
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert opened.topics.member("more") == {"a/b": [1]}
        await opened.topics.put_member("map", {"T": {"0": []}}, [TopicConfig("U")])
    assert rows(tmp_path, GROUPS, database.FORBIDDEN) == {b"g": b'{"T":3}'}
    async with tables(tmp_path) as opened:  # files again
        assert opened.topics.member("map") == {"T": {"0": []}}
        assert opened.topics.member("more") == {"a/b": [1]}
        assert set(opened.topics.names) == {"T", "U"}
        await opened.topics.put_member("map", {})  # the entries stay what they are
    text = (tmp_path / "config" / "subscriptionGroup.json").read_text()
    assert json.loads(text)["forbiddenTable"] == {"g": {"T": 3}}
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert opened.topics.member("map") == {}


async def test_rows_without_a_version_are_merged_again_in_one_batch(tmp_path: Path) -> None:
    write_json(tmp_path, TOPICS, {"T": topic("T"), "U": topic("U")}, counter(2))
    write_rows(tmp_path, TOPICS, {"T": topic("T")})
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert set(opened.topics.names) == {"T", "U"}
    assert version_of(tmp_path, TOPICS) == 3


async def test_json_that_went_on_after_a_start_that_failed_counts(tmp_path: Path) -> None:
    """5.3.3's start converted, could not lock the queues, and the running broker went on."""
    path = write_rows(tmp_path, OFFSETS, {"T@g": {0: 640}, "U@g": {0: 1}}, 4)
    written(path, EARLIER_S)
    written(write_json(tmp_path, OFFSETS, {"T@g": {"0": 900}}, counter(3)), LATER_S)
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert opened.consumer_offsets.queues("g", "T") == {0: 900}
        assert opened.consumer_offsets.queues("g", "U") == {0: 1}


async def test_a_rollback_and_forward_takes_over_each_change_and_logs_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_json(tmp_path, TOPICS, {"T": topic("T"), "U": topic("U")}, counter(2))
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        opened.topics.put(TopicConfig("V"))
    async with tables(tmp_path) as opened:
        assert set(opened.topics.names) == {"T", "U", "V"}
        opened.topics.put(TopicConfig("T", 9, 9))
        opened.topics.remove("U")
    caplog.set_level(logging.INFO)
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        # RocksDB had not changed since the export: what was deleted meanwhile stays deleted.
        assert set(opened.topics.names) == {"T", "V"}
        config = opened.topics.get("T")
        assert config is not None
        assert config.read_queue_nums == 9
    taken = [line for line in caplog.messages if "is taken over from JSON" in line]
    assert [line.split()[1] for line in taken if "/topics:" in line] == ["T", "U"]


async def test_stale_json_is_passed_over_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(write_rows(tmp_path, TOPICS, {"T": topic("T"), "U": topic("U")}, 9), LATER_S)
    written(write_json(tmp_path, TOPICS, {"T": topic("T", 1), "X": topic("X")}, counter(3)), 1.0)
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert opened.topics.names == ("T", "U")
    [warning] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "stale JSON" in warning.getMessage()
    assert warning.getMessage().endswith("what differs: T, U, X")


async def newer_in_rocksdb(root: Path) -> Path:
    """A store killed in RocksDB after a topic, a group and offsets were made there."""
    write_json(root, TOPICS, {"T": topic("T")}, counter(2))
    write_json(root, GROUPS, {"g": {"groupName": "g"}}, counter(1))
    write_json(root, OFFSETS, {"T@g": {"0": 5}})
    live = root.with_name("live")
    shutil.copytree(root, live)
    async with tables(live, store_type=ROCKSDB) as opened:
        opened.topics.put(TopicConfig("V"))
        opened.groups.put(SubscriptionGroupConfig("v"))
        opened.consumer_offsets.put("g", "T", 0, 9)
        opened.persist()
        shutil.rmtree(root)
        shutil.copytree(live, root)
    return root


async def test_a_start_with_files_is_refused_while_rocksdb_is_newer(tmp_path: Path) -> None:
    root = await newer_in_rocksdb(tmp_path / "root")
    before = everything(root)
    for double_write in (False, True):
        with pytest.raises(StartRefused) as caught:
            async with tables(root, rocksdb_double_write=double_write):
                pass
        text = str(caught.value)
        assert "topics: V; subscriptionGroups: v; consumerOffsets: T@g" in text
        assert "storeType=defaultRocksDB once more" in text
        assert "write them now with `export_in_place`" in text
        assert "allowStaleJsonMetadata=true" in text
    assert everything(root) == before


async def test_a_refused_store_is_left_as_it_was(tmp_path: Path) -> None:
    root = await newer_in_rocksdb(tmp_path / "root")
    before = everything(root)
    with pytest.raises(StartRefused):
        async with open_store(StoreConfig(root=root)):
            pass
    assert {name for name in everything(root) if name != "lock"} == set(before)


async def test_once_exported_or_forced_it_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = await newer_in_rocksdb(tmp_path / "root")
    forced = tmp_path / "forced"
    shutil.copytree(root, forced)
    async with tables(forced, allow_stale_json=True) as opened:
        assert opened.topics.names == ("T",)
        opened.topics.put(TopicConfig("later"))
        opened.consumer_offsets.put("g", "T", 0, 7)
        opened.groups.put(SubscriptionGroupConfig("later"))
    assert "topics: V" in caplog.text
    for kind in KINDS:
        written(forced / "config" / kind.name, EARLIER_S)
    async with tables(forced):  # the files have been used since: no need to force it again
        pass
    async with tables(forced, store_type=ROCKSDB) as opened:  # nothing is lost on the way back
        assert set(opened.topics.names) == {"T", "V", "later"}
        assert opened.consumer_offsets.get("g", "T", 0) == 7
    async with tables(root, store_type=ROCKSDB):
        pass
    async with tables(root) as opened:
        assert opened.topics.names == ("T", "V")
        assert opened.consumer_offsets.get("g", "T", 0) == 9


@pytest.mark.parametrize("version", [None, counter(0)], ids=["of 4.9", "counter 0"])
async def test_offsets_that_5_3_3_never_converts_are_taken_over(
    tmp_path: Path, version: object
) -> None:
    queues = {"0": 640, "1": 800, "2": 768, "3": 800}
    write_json(tmp_path, OFFSETS, {"BenchT2@some_group": queues}, version)
    ConfigDatabase(tmp_path / "config" / OFFSETS.name).close()  # as 5.3.3 leaves it: empty
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert opened.consumer_offsets.queues("some_group", "BenchT2") == {
            0: 640, 1: 800, 2: 768, 3: 800
        }  # fmt: skip
    assert rows(tmp_path, OFFSETS) == {
        b"BenchT2@some_group": b'{"offsetTable":{"0":640,"1":800,"2":768,"3":800}}'
    }
    assert version_of(tmp_path, OFFSETS) == 1


async def test_a_backup_alone_is_taken_over_with_its_version(tmp_path: Path) -> None:
    """5.3.3 reads the version from the file itself only, and converts nothing."""
    path = write_json(tmp_path, TOPICS, {"T": topic("T")}, counter(2))
    path.rename(path.with_name("topics.json.bak"))
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert opened.topics.names == ("T",)
    assert version_of(tmp_path, TOPICS) == 3


async def test_what_5_3_3_did_since_counts_and_groups_it_never_saw_are_added(
    tmp_path: Path,
) -> None:
    path = write_json(tmp_path, OFFSETS, {"T@g": {"0": 640}, "T@asleep": {"0": 7}}, counter(0))
    written(path, EARLIER_S)
    written(write_rows(tmp_path, OFFSETS, {"T@g": {0: 900}}), LATER_S)
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert opened.consumer_offsets.get("g", "T", 0) == 900
        assert opened.consumer_offsets.get("asleep", "T", 0) == 7


async def test_in_doubt_the_smaller_offset_counts(tmp_path: Path) -> None:
    path = write_json(tmp_path, OFFSETS, {"T@g": {"0": 640, "1": 9}, "T@asleep": {"0": 7}})
    written(path, EARLIER_S)
    written(write_rows(tmp_path, OFFSETS, {"T@g": {0: 900, 1: 2}}), EARLIER_S)
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert opened.consumer_offsets.queues("g", "T") == {0: 640, 1: 2}
        assert opened.consumer_offsets.get("asleep", "T", 0) == 7


async def test_a_topic_deleted_with_rocksdb_is_gone_from_the_export(tmp_path: Path) -> None:
    write_json(tmp_path, TOPICS, {"T": topic("T"), "U": topic("U")}, counter(2))
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        opened.topics.remove("U")
    async with tables(tmp_path) as opened:
        assert opened.topics.names == ("T",)


async def test_without_an_export_a_deleted_topic_is_named(tmp_path: Path) -> None:
    write_json(tmp_path, TOPICS, {"T": topic("T"), "U": topic("U")}, counter(2))
    async with tables(tmp_path, store_type=ROCKSDB, export_json_on_close=False) as opened:
        opened.topics.remove("U")
        opened.topics.put(TopicConfig("V"))
    with pytest.raises(StartRefused, match=r"topics: U, V\."):
        async with tables(tmp_path):
            pass


@pytest.mark.parametrize("settings", [{}, {"store_type": ROCKSDB}], ids=["files", "RocksDB"])
async def test_a_configuration_of_v2_needs_a_choice(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    write_json(tmp_path, TOPICS, {"T": topic("T")}, counter(2))
    write_rows(tmp_path, TOPICS, {"T": topic("T")}, 3)
    (tmp_path / "config" / "rdb").mkdir()
    (tmp_path / "config" / "rdb" / "CURRENT").write_text("MANIFEST-000005\n")
    before = everything(tmp_path)
    with pytest.raises(StartRefused, match=r"rdb holds .*configManagerVersion=v1 to start"):
        async with tables(tmp_path, **settings):
            pass
    assert everything(tmp_path) == before
    async with tables(tmp_path, config_manager_version="v1", **settings) as opened:
        assert opened.topics.names == ("T",)
    with pytest.raises(ConfigInvalid, match="it has no v2"):
        StoreConfig(root=tmp_path, config_manager_version="v2")


async def test_a_second_start_merges_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"T{number}" for number in range(15)]
    write_json(tmp_path, TOPICS, {name: topic(name) for name in names}, counter(2))
    for _ in range(2):
        async with tables(tmp_path, store_type=ROCKSDB, export_json_on_close=False) as opened:
            assert sorted(opened.topics.names) == sorted(names)
            assert opened.topics.data_version.counter == 3
        assert version_of(tmp_path, TOPICS) == 3
        caplog.clear()
        caplog.set_level(logging.INFO)
    assert "is taken over" not in caplog.text


async def test_one_change_after_a_rollback_is_not_lost(tmp_path: Path) -> None:
    write_json(tmp_path, TOPICS, {"T": topic("T")}, counter(2))
    async with tables(tmp_path, store_type=ROCKSDB, export_json_on_close=False):
        pass
    async with tables(tmp_path) as opened:  # RocksDB has nothing that the files lack
        opened.topics.put(TopicConfig("made meanwhile"))
        assert opened.topics.data_version.counter == version_of(tmp_path, TOPICS) == 3
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert set(opened.topics.names) == {"T", "made meanwhile"}


async def test_also_where_5_3_3_did_all_of_it(tmp_path: Path) -> None:
    written(write_rows(tmp_path, TOPICS, {"T": topic("T")}, 3), EARLIER_S)
    path = write_json(tmp_path, TOPICS, {"T": topic("T"), "U": topic("U")}, counter(3))
    written(path, LATER_S)
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert set(opened.topics.names) == {"T", "U"}
    assert version_of(tmp_path, TOPICS) == 4


async def test_an_export_has_all_and_the_backup_has_the_older_file(
    tmp_path: Path,
) -> None:
    root, killed = tmp_path / "root", tmp_path / "killed"
    older = write_json(root, TOPICS, {"T": topic("T")}, counter(2)).read_bytes()
    async with tables(root, store_type=ROCKSDB, export_json_on_close=False) as opened:
        opened.topics.put(TopicConfig("V"))
        opened.groups.put(SubscriptionGroupConfig("v"))
        opened.consumer_offsets.put("v", "V", 0, 4)
        await opened.export(["topics", "subscriptionGroups", "consumerOffsets"])
        shutil.copytree(root, killed)
    assert (killed / "config" / "topics.json.bak").read_bytes() == older
    exported = json.loads((killed / "config" / "topics.json").read_text())
    assert exported["dataVersion"]["counter"] == version_of(killed, TOPICS) == 4
    assert '"V@v":{0:4' in (killed / "config" / "consumerOffset.json").read_text()
    async with tables(killed) as opened:  # killed, and yet nothing refuses it
        assert opened.topics.names == ("T", "V")
        assert opened.groups.names == ("v",)
        assert opened.consumer_offsets.get("v", "V", 0) == 4


async def test_a_second_export_keeps_the_first_as_the_backup(tmp_path: Path) -> None:
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        opened.topics.put(TopicConfig("first"))
        await opened.export(["topics"])
        opened.topics.put(TopicConfig("second"))
        await opened.export(["topics"])
        backup = json.loads((tmp_path / "config" / "topics.json.bak").read_text())
        assert list(backup["topicConfigTable"]) == ["first"]


@pytest.mark.parametrize("settings", [{}, {"rocksdb_double_write": True}, {"store_type": ROCKSDB}])
async def test_a_second_start_in_any_stage_changes_no_byte(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    write_json(tmp_path, TOPICS, {"T": topic("T")}, counter(2))
    write_json(tmp_path, OFFSETS, {"T@g": {"0": 5}})
    async with open_store(StoreConfig(root=tmp_path)):
        before = everything(tmp_path)
        with pytest.raises(StoreLocked):
            async with open_store(StoreConfig(root=tmp_path, **settings)):
                pass
        assert everything(tmp_path) == before


async def test_a_database_that_another_process_writes_is_not_touched(tmp_path: Path) -> None:
    """A stopping 5.3.3 broker lets its databases go after the store's lock."""
    path = write_rows(tmp_path, TOPICS, {"T": topic("T")}, 3)
    other = ConfigDatabase(path)
    before = everything(tmp_path)
    try:
        with pytest.raises(StoreLocked, match="LOCK"):
            async with tables(tmp_path, store_type=ROCKSDB):
                pass
        assert everything(tmp_path) == before
    finally:
        other.close()
    async with tables(tmp_path, store_type=ROCKSDB) as opened:  # nothing was left open
        assert opened.topics.names == ("T",)


async def test_offsets_are_left_where_the_settings_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_json(tmp_path, TOPICS, {"T": topic("T")}, counter(2))
    write_json(tmp_path, OFFSETS, {"T@g": {"0": 5}, "U@g": {"0": 5}, "T@h": {"0": 6}}, counter(7))
    async with tables(tmp_path, store_type=ROCKSDB, transfer_offsets=False) as opened:
        assert opened.topics.names == ("T",)
        assert opened.consumer_offsets.groups == ()
    warnings = [line.getMessage() for line in caplog.records if line.levelno == logging.WARNING]
    assert "offsets of 2 groups exist only in JSON" in warnings[0]
    assert "consumerOffset.json stays as it is" in warnings[1]  # its offsets are nowhere else
    kept = json.loads((tmp_path / "config" / "consumerOffset.json").read_text())
    assert kept["offsetTable"] == {"T@g": {"0": 5}, "U@g": {"0": 5}, "T@h": {"0": 6}}
    async with tables(tmp_path, store_type=ROCKSDB) as opened:  # allowed now
        assert opened.consumer_offsets.groups == ("g", "h")


async def test_topics_and_groups_are_left_where_the_settings_say_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_json(tmp_path, TOPICS, {"T": topic("T"), "U": topic("U")}, counter(2))
    write_json(tmp_path, OFFSETS, {"T@g": {"0": 5}})
    off = {"store_type": ROCKSDB, "export_json_on_close": False, "transfer_metadata": False}
    async with tables(tmp_path, **off) as opened:
        assert opened.topics.names == ()
        assert opened.consumer_offsets.get("g", "T", 0) == 5
        opened.topics.put(TopicConfig("T", 9, 9))
    assert "2 topics exist only in JSON" in caplog.text
    with pytest.raises(StartRefused):
        async with tables(tmp_path):
            pass
    async with tables(tmp_path, store_type=ROCKSDB) as opened:  # allowed now: what was lacking
        assert set(opened.topics.names) == {"T", "U"}
        config = opened.topics.get("T")
        assert config is not None
        assert config.read_queue_nums == 9


async def test_a_broken_row_is_named(tmp_path: Path) -> None:
    opened = ConfigDatabase(tmp_path / "config" / TOPICS.name)
    opened.write([Change(database.ROWS, b"T", b"{")], sync=True)
    opened.close()
    with pytest.raises(ConfigInvalid, match=r"config/topics, T: "):
        async with tables(tmp_path, store_type=ROCKSDB):
            pass


def test_the_kinds_are_those_of_5_3_3() -> None:
    assert [kind.name for kind in KINDS] == ["topics", "subscriptionGroups", "consumerOffsets"]


@pytest.mark.parametrize("made", [["default"], ["default", "kvDataVersion"]])
async def test_a_database_whose_making_was_interrupted_is_finished(
    made: list[str], tmp_path: Path
) -> None:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    (tmp_path / "config").mkdir()
    path = str(tmp_path / "config" / TOPICS.name)
    unfinished = Rdict(path, options)
    for family in made[1:]:
        unfinished.create_column_family(family, options).close()
    unfinished.close()
    write_json(tmp_path, TOPICS, {"T": topic("T")}, counter(2))
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert opened.topics.names == ("T",)
    assert version_of(tmp_path, TOPICS) == 3


async def after_an_export(root: Path) -> None:
    """A store that ran in stage 3 and was stopped cleanly."""
    write_json(root, TOPICS, {"T": topic("T"), "U": topic("U")}, counter(2))
    async with tables(root, store_type=ROCKSDB) as opened:
        for number in range(9):
            opened.groups.put(SubscriptionGroupConfig(f"g{number}"))
        opened.consumer_offsets.put("g0", "T", 0, 640)


def as_4_9_7_leaves_it(root: Path, times: str) -> None:
    """A group more, offsets further on; groups are counted again, offsets not at all."""
    groups = {name: {"groupName": name} for name in (*[f"g{n}" for n in range(8)], "new")}
    paths = [
        write_json(root, TOPICS, {"T": topic("T"), "new": topic("new")}, counter(9)),
        write_json(root, GROUPS, groups, counter(1)),
        write_json(root, OFFSETS, {"T@g0": {"0": 700}, "T@new": {"0": 3}}),
    ]
    for path, kind in zip(paths, KINDS, strict=True):
        database_s = EARLIER_S if times == "kept" else LATER_S
        written(root / "config" / kind.name, database_s)
        written(path, EARLIER_S if times == "misleading" else LATER_S)


TIMES = ["kept", "lost in a copy", "misleading"]


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("double_write", [False, True])
async def test_work_of_4_9_7_after_a_rollback_is_kept_in_files(
    times: str, double_write: bool, tmp_path: Path
) -> None:
    """Its counters are lower than those of the export, or not there at all."""
    await after_an_export(tmp_path)
    as_4_9_7_leaves_it(tmp_path, times)
    async with tables(tmp_path, rocksdb_double_write=double_write) as opened:
        assert set(opened.topics.names) == {"T", "new"}
        assert "new" in opened.groups.names
        assert opened.consumer_offsets.get("g0", "T", 0) == 700


@pytest.mark.parametrize("times", TIMES)
async def test_work_of_4_9_7_after_a_rollback_goes_up_with_its_deletions(
    times: str, tmp_path: Path
) -> None:
    await after_an_export(tmp_path)
    as_4_9_7_leaves_it(tmp_path, times)
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert set(opened.topics.names) == {"T", "new"}
        assert set(opened.groups.names) == {*[f"g{n}" for n in range(8)], "new"}
        assert opened.consumer_offsets.get("g0", "T", 0) == 700
        assert opened.consumer_offsets.get("new", "T", 0) == 3


async def both_changed(root: Path) -> None:
    """A stage 3 that was killed, and an Apache broker that used the old files after it."""
    await after_an_export(root)
    killed = root.with_name("killed")
    async with tables(root, store_type=ROCKSDB) as opened:
        opened.topics.put(TopicConfig("in RocksDB"))
        opened.consumer_offsets.put("g1", "T", 0, 5)
        opened.consumer_offsets.put("g0", "T", 0, 650)
        opened.persist()
        shutil.copytree(root, killed)
    shutil.rmtree(root)
    killed.rename(root)


async def test_where_both_sides_changed_a_start_loses_nothing_of_either(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "root"
    await both_changed(root)
    as_4_9_7_leaves_it(root, "lost in a copy")
    (root / "commitlog").mkdir()
    before = everything(root)
    with pytest.raises(StartRefused, match="brings both together") as caught:
        async with tables(root):
            pass
    assert "export-metadata" not in str(caught.value)  # it would overwrite the newer JSON files
    with pytest.raises(StoreError, match=r"an export would overwrite that: .*topics\.json: .*new"):
        export_in_place(root)
    assert {name for name in everything(root) if name != "lock"} == set(before)
    async with tables(root, store_type=ROCKSDB) as opened:
        assert {"T", "new", "in RocksDB"} <= set(opened.topics.names)
        assert {"new", "g7"} <= set(opened.groups.names)
        assert "g8" not in opened.groups.names  # of groups only the file changed: it is deleted
        assert opened.consumer_offsets.get("new", "T", 0) == 3
        assert opened.consumer_offsets.get("g1", "T", 0) == 5
        assert opened.consumer_offsets.get("g0", "T", 0) == 650  # repeats; 700 might lose some
    warnings = [line.getMessage() for line in caplog.records if line.levelno == logging.WARNING]
    assert any("what differs: T@g0, T@g1, T@new" in line for line in warnings)
    async with tables(root) as opened:  # they were exported together
        assert {"T", "new", "in RocksDB"} <= set(opened.topics.names)


async def test_an_export_at_rest_is_remembered_like_one_of_a_stop(tmp_path: Path) -> None:
    root = await newer_in_rocksdb(tmp_path / "root")
    (root / "commitlog").mkdir()
    write_json(root, TOPICS, {"stale": topic("stale")}, counter(2))  # put there by hand
    with pytest.raises(StoreError, match=r"topics\.json: T, V, stale"):
        export_in_place(root)
    export_in_place(root, overwrite=True)
    assert marker_of(root, OFFSETS).json_sha256
    write_json(root, OFFSETS, {"T@g": {"0": 3}})
    written(root / "config" / OFFSETS.name, LATER_S)
    written(root / "config" / OFFSETS.file, EARLIER_S)
    async with tables(root, store_type=ROCKSDB) as opened:
        assert opened.topics.names == ("T", "V")
        assert opened.consumer_offsets.get("g", "T", 0) == 3  # only the file changed


async def test_a_backup_that_takes_the_place_of_a_torn_file_is_no_newer_file(
    tmp_path: Path,
) -> None:
    await after_an_export(tmp_path)
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        opened.consumer_offsets.put("g0", "T", 0, 900)
    (tmp_path / "config" / OFFSETS.file).write_bytes(b"")
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        assert opened.consumer_offsets.get("g0", "T", 0) == 900


def many_topics(root: Path) -> Path:
    """Topics in a table file of several blocks, and a JSON file that has fewer."""
    write_json(root, TOPICS, {"T": topic("T")}, counter(2))
    names = [f"topic-{number:06}" for number in range(3000)]
    path = write_rows(root, TOPICS, {name: topic(name) for name in names}, 9)
    options = Options(raw_mode=True)
    families = {name: Options(raw_mode=True) for name in database.FAMILIES}
    opened = Rdict(str(path), options, families)
    opened.flush()
    opened.close()
    (path / "rocksdict-config.json").unlink(missing_ok=True)
    for written_at_once in (path, root / "config" / TOPICS.file):
        written(written_at_once, EARLIER_S)
    return path


def damage_table(path: Path) -> None:
    """Flip a byte of a block in the middle of the rows."""
    table = max(path.glob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 0xFF
    table.write_bytes(data)


def test_rows_behind_a_block_that_cannot_be_read_are_missed_by_nobody(tmp_path: Path) -> None:
    path = many_topics(tmp_path)
    damage_table(path)
    opened = ConfigDatabase(path, read_only=True)
    try:
        with pytest.raises(StoreCorrupted, match="not all of its rows can be read: Corruption"):
            opened.rows()
    finally:
        opened.close()


@pytest.mark.parametrize("settings", [{}, {"rocksdb_double_write": True}, {"store_type": ROCKSDB}])
async def test_a_table_that_cannot_be_read_whole_is_never_exported(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    damage_table(many_topics(tmp_path))
    (tmp_path / "commitlog").mkdir()
    json_file = tmp_path / "config" / "topics.json"
    before = json_file.read_bytes()
    with pytest.raises(StartRefused) as caught:
        async with open_store(StoreConfig(root=tmp_path, **settings)):
            pass
    text = str(caught.value)
    assert "config/topics: not all of its rows can be read: Corruption" in text
    assert "from a copy of the store" in text
    assert "topics.json, which has 1 of them as of" in text
    assert "allowStaleJsonMetadata=true" in text
    assert json_file.read_bytes() == before
    with pytest.raises(StoreError, match="not all of its rows can be read") as at_rest:
        export_in_place(tmp_path)
    assert "/lanemq-rocksdb-" not in str(at_rest.value)  # the view that tools open
    assert json_file.read_bytes() == before


async def test_the_ways_on_from_a_table_that_cannot_be_read(tmp_path: Path) -> None:
    root, files = tmp_path / "root", tmp_path / "files"
    path = many_topics(root)
    damage_table(path)
    shutil.copytree(root, files)
    async with tables(files, allow_stale_json=True) as opened:
        assert opened.topics.names == ("T",)
    path.rename(path.with_name("topics.aside"))
    async with tables(root, store_type=ROCKSDB) as opened:
        assert opened.topics.names == ("T",)


async def test_a_table_that_breaks_while_it_is_in_use_is_exported_from_memory(
    tmp_path: Path,
) -> None:
    path = many_topics(tmp_path)
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        damage_table(path)
        opened.topics.put(TopicConfig("late"))
    with pytest.raises(StartRefused, match=r"topics\.json, which has 3002 of them as of"):
        async with tables(tmp_path, store_type=ROCKSDB):
            pass


async def test_an_export_is_made_beside_the_loop(tmp_path: Path) -> None:
    async with tables(tmp_path, store_type=ROCKSDB) as opened:
        for number in range(5000):
            opened.topics.put(TopicConfig(f"T{number}"), at_once=False)
        opened.persist()
        with calls_of_this_thread() as on_the_loop:
            await opened.export(["topics"])
        assert on_the_loop.count < 2500  # each of the 5,000 topics takes several
        exported = (tmp_path / "config" / "topics.json").read_bytes()
        assert exported == fastjson.dumps(
            {
                "dataVersion": opened.topics.data_version,
                "topicConfigTable": {f"T{n}": TopicConfig(f"T{n}") for n in range(5000)},
            },
            pretty=True,
        )


async def test_what_changes_during_an_export_counts_as_newer_than_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, writing, go_on = RealFiles.write_all, threading.Event(), threading.Event()

    def paused(self: RealFiles, path: Path, data: bytes) -> None:
        writing.set()
        assert go_on.wait(30)
        write(self, path, data)

    killed = tmp_path / "killed"
    async with tables(tmp_path / "store", store_type=ROCKSDB) as opened:
        opened.topics.put(TopicConfig("before"))
        with monkeypatch.context() as patched:
            patched.setattr(RealFiles, "write_all", paused)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(opened.export, ["topics"])
                await trio.to_thread.run_sync(writing.wait)
                nursery.cancel_scope.cancel()  # as a client that has gone: it is brought to its end
                opened.topics.put(TopicConfig("meanwhile"))
                opened.topics.put(TopicConfig("before", 7))
                go_on.set()
        shutil.copytree(tmp_path / "store", killed)
        text = (killed / "config" / "topics.json").read_text()
        assert set(json.loads(text)["topicConfigTable"]) == {"before"}
    with pytest.raises(StartRefused):
        async with tables(killed):
            pass
    async with tables(killed, store_type=ROCKSDB) as opened:
        assert set(opened.topics.names) == {"before", "meanwhile"}
    async with tables(tmp_path / "store") as opened:  # the export at the stop has all of it
        assert opened.topics.get("before") == TopicConfig("before", 7)
        assert set(opened.topics.names) == {"before", "meanwhile"}
