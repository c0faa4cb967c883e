"""The tables of stores that real brokers left, taken to RocksDB and back."""

import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lanemq.storage import ConfigTables, StartRefused, StoreConfig, StoreType
from lanemq.storage._tables import check_tables
from lanemq.storage.disk._real_files import RealFiles
from lanemq.storage.tables.rocks import _database as database
from lanemq.storage.tables.rocks._database import ConfigDatabase
from lanemq.storage.tables.rocks._rows import KINDS, OFFSETS, TOPICS, parse_version, version_row
from lanemq.testkit.storage.stores import STORES
from lanemq.wire import fastjson

FILES = sorted(
    path.name.removesuffix(".tar.gz") for path in STORES.glob("[df]*.tar.gz")
)  # files, some with queues in RocksDB beside them
ROCKSDB = "rocksdb-5.3.3-clean"


def unpacked(name: str, folder: Path) -> Path:
    """The config directory of a recorded store; returns the store's."""
    with tarfile.open(STORES / f"{name}.tar.gz") as archive:
        wanted = [member for member in archive.getmembers() if "/config" in member.name]
        archive.extractall(folder, wanted, filter="data")
    return folder / name


def json_of(root: Path, name: str) -> Any:  # noqa: ANN401 - JSON
    path = root / "config" / name
    return fastjson.loads(path.read_bytes()) if path.exists() else {}


@asynccontextmanager
async def tables(
    root: Path,
    **settings: Any,  # noqa: ANN401 - every setting has its own type
) -> AsyncIterator[ConfigTables]:
    files, config = RealFiles(), StoreConfig(root=root, **settings)
    check_tables(config, files)
    opened = ConfigTables(config, files, lambda: 1_800_000_000_000)
    try:
        opened.load(after_crash=False)
        yield opened
        await opened.finish()
    finally:
        opened.close()


def all_of(opened: ConfigTables) -> object:
    return (
        dict(opened.topics.configs),
        dict(opened.groups.configs),
        opened.consumer_offsets.as_table(),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
async def test_tables_in_files_are_the_same_in_rocksdb_and_back(name: str, tmp_path: Path) -> None:
    root = unpacked(name, tmp_path)
    before = {kind: json_of(root, kind.file) for kind in KINDS}
    async with tables(root) as opened:
        in_files = all_of(opened)
        versions = [table.data_version.counter for table in opened.all[:3]]
    async with tables(root, store_type=StoreType.ROCKSDB) as opened:
        # 5.3.3 has members in rows that 4.9 does not write: only they are new.
        assert opened.topics.names
        assert sorted(opened.topics.names) == sorted(before[TOPICS]["topicConfigTable"])
        assert opened.consumer_offsets.as_table() == {
            name: {int(queue_id): offset for queue_id, offset in queues.items()}
            for name, queues in before[OFFSETS].get("offsetTable", {}).items()
        }
        counters = [table.data_version.counter for table in opened.all[:3]]
        for counter, version, kind in zip(counters, versions, KINDS, strict=True):
            assert counter == (version + 1 if before[kind].get(kind.member) else 0), kind.name
        in_rocksdb = all_of(opened)
    async with tables(root) as opened:
        assert all_of(opened) == in_rocksdb
    if "5.3.3" in name:
        assert in_rocksdb == in_files


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_row_of_5_3_3_is_written_as_it_was(kind: Any, tmp_path: Path) -> None:  # noqa: ANN401
    root = unpacked(ROCKSDB, tmp_path)
    opened = ConfigDatabase(root / "config" / kind.name, read_only=True)
    try:
        rows = opened.rows()
        assert (
            len(rows) == {"topics": 25, "subscriptionGroups": 14, "consumerOffsets": 9}[kind.name]
        )
        for row in rows.values():
            assert kind.row(kind.entry(row)) == row
        for row in opened.rows(database.VERSION).values():
            assert version_row(parse_version(row)) == row
    finally:
        opened.close()


async def test_tables_that_5_3_3_made_in_rocksdb_do_not_vanish(tmp_path: Path) -> None:
    """5.3.3 itself would start with the files: seven topics and three groups less."""
    root = unpacked(ROCKSDB, tmp_path)
    with pytest.raises(StartRefused, match=r"sdx_orders.*sd_group_a2, sdx_group_a.*sdx_events@"):
        async with tables(root):
            pass
    async with tables(root, store_type=StoreType.ROCKSDB) as opened:
        assert len(opened.topics.names) == 25
        assert len(opened.groups.names) == 14
        assert opened.consumer_offsets.queues("sdx_group_a", "sdx_orders") == {
            0: 15, 1: 16, 2: 12, 3: 13
        }  # fmt: skip
        in_rocksdb = all_of(opened)
    async with tables(root) as opened:
        assert all_of(opened) == in_rocksdb


async def test_offsets_that_5_3_3_did_not_take_over_are_there(tmp_path: Path) -> None:
    """The same store before 5.3.3 changed to RocksDB: there its groups began again at 0."""
    root = unpacked("dualwrite-5.3.3-clean", tmp_path)
    assert json_of(root, OFFSETS.file)["dataVersion"]["counter"] == 0
    async with tables(root, store_type=StoreType.ROCKSDB) as opened:
        assert opened.consumer_offsets.queues("sd_group_a", "sd_orders") == {
            0: 154, 1: 155, 2: 156, 3: 151
        }  # fmt: skip
