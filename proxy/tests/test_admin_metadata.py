"""Exporting what a broker keeps in RocksDB, as its operators ask for it (355)."""

import json
from pathlib import Path

import pytest

from lanemq.storage import StoreType
from lanemq.testkit.proxy.brokers import open_test_broker
from lanemq.wire import RequestCode, ResponseCode
from lanemq.wire.bodies import SubscriptionGroupConfig, TopicConfig
from lanemq.wire.headers import ExportRocksdbConfigToJson

EXPORT = RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON


async def test_an_export_serves_a_start_with_files(tmp_path: Path) -> None:
    config = tmp_path / "config"
    async with open_test_broker(tmp_path) as broker:
        broker.context.topics.put(TopicConfig("T"))
    older = (config / "topics.json").read_bytes()
    async with open_test_broker(
        tmp_path, store_type=StoreType.ROCKSDB, export_json_on_shutdown=False
    ) as broker:
        broker.context.topics.put(TopicConfig("V"))
        broker.context.store.tables.groups.put(SubscriptionGroupConfig("v"))
        broker.context.commit_offset("v", "V", 0, 4)
        client = broker.connect()
        header = ExportRocksdbConfigToJson("topics;subscriptionGroups;consumerOffsets;")
        answer = await client.call(EXPORT, header.to_fields())
        assert (answer.code, answer.remark) == (0, "export done.")
    assert (config / "topics.json.bak").read_bytes() == older
    assert "V" in json.loads((config / "topics.json").read_text())["topicConfigTable"]
    async with open_test_broker(tmp_path) as broker:
        assert broker.context.topics.get("V") is not None
        assert broker.context.groups.get("v") is not None
        assert broker.context.store.tables.consumer_offsets.get("v", "V", 0) == 4


async def test_only_what_is_asked_for_is_exported(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path, store_type=StoreType.ROCKSDB) as broker:
        client = broker.connect()
        answer = await client.call(EXPORT, {"configType": " SubscriptionGroups ; "})
        assert answer.code == 0
        assert (tmp_path / "config" / "subscriptionGroup.json").exists()
        assert not (tmp_path / "config" / "topics.json").exists()
        assert not (tmp_path / "config" / "consumerOffset.json").exists()


async def test_a_broker_with_files_has_nothing_to_export_and_says_done(tmp_path: Path) -> None:
    async with open_test_broker(tmp_path) as broker:
        before = (tmp_path / "config" / "topics.json").stat().st_mtime_ns
        answer = await broker.connect().call(EXPORT, {"configType": "topics"})
        assert (answer.code, answer.remark) == (0, "export done.")
        assert (tmp_path / "config" / "topics.json").stat().st_mtime_ns == before


async def test_an_unknown_table_and_a_full_disk_are_refused_with_their_names(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_test_broker(tmp_path, store_type=StoreType.ROCKSDB) as broker:
        client = broker.connect()
        answer = await client.call(EXPORT, {"configType": "topics;subscription"})
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "Unknown config type: subscription"
        (tmp_path / "config" / "topics.json.tmp").mkdir()  # nothing can be written there
        answer = await client.call(EXPORT, {"configType": "topics"})
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "the tables cannot be exported: Is a directory"
        assert "topics.json.tmp" in caplog.text
        (tmp_path / "config" / "topics.json.tmp").rmdir()
