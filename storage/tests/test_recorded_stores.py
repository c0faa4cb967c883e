"""Stores that real brokers wrote open, and hold what those brokers said they hold."""

import hashlib
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lanemq.storage import GetStatus, Store, StoreConfig, open_store
from lanemq.testkit.storage.stores import NAMES, STORES, expected_of
from lanemq.wire import SysFlag
from lanemq.wire.message import decode_messages

ROCKSDB = "rocksdb-5.3.3-clean"
# What this broker kept in RocksDB only, after the change of storeType: topics, groups and
# offsets made from then on cannot come from the JSON files.
ROCKSDB_ONLY_GROUPS = {"sd_group_a2", "sdx_group_a", "sdx_group_b"}
READER = "golden_dump_reader"  # a killed store was read, and this group made, in a copy


def config_of(name: str, root: Path) -> StoreConfig:
    sizes = expected_of(name)["config"]
    return StoreConfig(
        root=root,
        commit_log_file_bytes=sizes["mappedFileSizeCommitLog"],
        consume_queue_file_bytes=sizes["mappedFileSizeConsumeQueue"],
        max_hash_slots=sizes["maxHashSlotNum"],
        max_index_entries=sizes["maxIndexNum"],
        allow_stale_json=name == ROCKSDB,  # here it is opened as files
    )


@asynccontextmanager
async def opened(name: str, directory: Path) -> AsyncIterator[Store]:
    if not (directory / name).exists():
        with tarfile.open(STORES / f"{name}.tar.gz") as archive:
            archive.extractall(directory, filter="data")
    async with open_store(config_of(name, directory / name)) as store:
        yield store


def read_all(store: Store, topic: str, queue_id: int) -> list[bytes]:
    offset, _ = store.bounds(topic, queue_id)
    records: list[bytes] = []
    while True:
        got = store.get(topic, queue_id, offset, max_count=32)
        if got.status is not GetStatus.FOUND:
            return records
        records += got.records
        offset = got.next_offset


def test_all_six_stores_are_here() -> None:
    assert len(NAMES) == 6


@pytest.mark.parametrize("name", NAMES)
async def test_queues_have_the_bounds_and_messages_the_broker_reported(
    name: str, tmp_path: Path
) -> None:
    expected = expected_of(name)
    async with opened(name, tmp_path) as store:
        total = 0
        for topic, described in expected["topics"].items():
            for queue_id, bounds in described["queues"].items():
                number = int(queue_id)
                assert store.bounds(topic, number) == (bounds["min"], bounds["max"]), topic
                messages = decode_messages(b"".join(read_all(store, topic, number)), check_crc=True)
                assert len(messages) == bounds["read"]
                assert [message.queue_offset for message in messages] == list(
                    range(bounds["min"], bounds["max"])
                )
                total += len(messages)
        assert total == expected["messageCount"]


@pytest.mark.parametrize("name", NAMES)
async def test_the_log_has_the_records_an_independent_walk_found(name: str, tmp_path: Path) -> None:
    expected = expected_of(name)["commitLogWalk"]
    async with opened(name, tmp_path) as store:
        assert store.max_position == expected["end"]
        queued = {
            unit.log_position
            for topic, queue_id in store.queues()
            for unit in store.units(topic, queue_id, *store.bounds(topic, queue_id))
        }
        assert len(queued) == expected["records"]
        assert all(store.record_at(position) is not None for position in queued)
        assert store.query("no such topic", "k", max_count=1, begin_ms=0, end_ms=1).records == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if "killed" in name])
@pytest.mark.parametrize("at", [0, 4, 28, 84])
async def test_a_destroyed_head_in_a_killed_store_costs_one_message(
    name: str, at: int, tmp_path: Path
) -> None:
    """300 records before it, some 2,000 behind it."""
    position = 0
    with tarfile.open(STORES / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    path = next((tmp_path / name / "commitlog").glob("0*0"))
    log = bytearray(path.read_bytes())
    for _ in range(300):
        position += int.from_bytes(log[position : position + 4], "big")
    end = position + int.from_bytes(log[position : position + 4], "big")
    log[position + at : position + at + 4] = b"\x7f\x00\x7f\x01"
    path.write_bytes(log)
    expected = expected_of(name)
    async with opened(name, tmp_path) as store:
        assert store.max_position == expected["commitLogWalk"]["end"]
        positions = list[int]()
        for topic, queue_id in store.queues():
            begin, behind = store.bounds(topic, queue_id)
            records = read_all(store, topic, queue_id)
            positions += [message.log_position for message in decode_messages(b"".join(records))]
            known = expected["topics"].get(topic, {}).get("queues", {}).get(str(queue_id))
            assert known is None or (begin, behind) == (known["min"], known["max"])
        assert len(set(positions)) == expected["commitLogWalk"]["records"] - 1
        assert not any(position <= found < end for found in positions)


@pytest.mark.parametrize("name", NAMES)
async def test_sampled_messages_are_the_same_by_offset_position_and_key(
    name: str, tmp_path: Path
) -> None:
    expected = expected_of(name)
    async with opened(name, tmp_path) as store:
        for sample in expected["sample"]:
            topic, queue_id, offset = sample["topic"], sample["queueId"], sample["queueOffset"]
            message = store.message_at(sample["commitLogOffset"])
            assert message is not None
            assert (message.topic, message.queue_id, message.queue_offset) == (
                topic,
                queue_id,
                offset,
            )
            assert message.size_bytes == sample["storeSize"]
            assert message.offset_id == sample["offsetMsgId"]
            assert (message.unique_key or message.offset_id) == sample["msgId"]
            assert message.tags == sample.get("tags")
            assert message.properties == sample["properties"]
            assert message.flag == sample["flag"]
            # The 5.x client that took the samples clears this bit when it decompresses.
            clear = ~SysFlag.COMPRESSED
            assert message.sys_flag & clear == sample["sysFlag"] & clear
            assert message.body_crc == sample["bodyCRC"]
            body = message.decompressed_body()
            assert len(body) == sample["bodyLength"]
            assert hashlib.sha256(body).hexdigest() == sample["bodySha256"]
            assert message.born_timestamp_ms == sample["bornTimestamp"]
            assert message.store_timestamp_ms == sample["storeTimestamp"]
            assert str(message.born_host) == sample["bornHost"]
            assert str(message.store_host) == sample["storeHost"]
            assert message.reconsume_times == sample["reconsumeTimes"]
            assert message.prepared_transaction_offset == sample["preparedTransactionOffset"]
            got = store.get(topic, queue_id, offset, max_count=1)
            assert decode_messages(got.records[0])[0] == message
            assert store.store_time_ms(topic, queue_id, offset) == sample["storeTimestamp"]
            stored_ms = message.store_timestamp_ms
            for key in (message.unique_key, *message.keys):
                if key:
                    found = store.query(
                        topic, key, max_count=64, begin_ms=stored_ms, end_ms=stored_ms
                    )
                    assert got.records[0] in found.records, key


@pytest.mark.parametrize("name", NAMES)
async def test_topics_groups_and_offsets_are_those_of_the_json_files(
    name: str, tmp_path: Path
) -> None:
    expected = expected_of(name)
    async with opened(name, tmp_path) as store:
        tables = store.tables
        for topic, described in expected["topics"].items():
            config = tables.topics.get(topic)
            if config is None:
                assert name == ROCKSDB
                continue
            assert config.read_queue_nums == described["readQueueNums"]
            assert config.write_queue_nums == described["writeQueueNums"]
            assert config.perm == described["perm"]
            assert config.topic_sys_flag == described["topicSysFlag"]
            assert config.order == described["order"]
        missing = set(expected["subscriptionGroups"]) - {READER, *tables.groups.names}
        assert missing <= (ROCKSDB_ONLY_GROUPS if name == ROCKSDB else set())
        for group, topics in expected["consumerOffsets"].items():
            if isinstance(topics, str):  # the broker could not say
                continue
            for topic, queues in topics.items():
                for queue_id, offsets in queues.items():
                    number = int(queue_id)
                    assert store.bounds(topic, number)[1] == offsets["brokerOffset"]
                    if name != ROCKSDB:  # its JSON is of before the change
                        committed = tables.consumer_offsets.get(group, topic, number) or 0
                        assert committed == offsets["consumerOffset"], (group, topic)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
async def test_an_opened_store_is_closed_as_it_was_found(name: str, tmp_path: Path) -> None:
    async with opened(name, tmp_path) as store:
        bounds = {queue: store.bounds(*queue) for queue in store.queues()}
        end = store.max_position
    assert not (tmp_path / name / "abort").exists()
    async with opened(name, tmp_path) as store:
        again = {queue: store.bounds(*queue) for queue in store.queues()}
        assert {queue: bounds[queue] for queue in again} == again
        assert all(bounds[queue] == (0, 0) for queue in bounds.keys() - again.keys())
        assert store.max_position == end
