"""The tools on stores of lanemq's own, in every stage: what the store says, they find."""

from dataclasses import replace
from pathlib import Path

import pytest

from lanemq.storage import StoreConfig, StoreType, open_store
from lanemq.storage.tools import Severity, VerifyReport, inspect_store, repair_store, verify_store
from lanemq.testkit.storage.stores import MakeMessage
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.message import encode_properties

LIGHT = "%LMQ%one"
NO_GROUPS = {"groups-missing", "consumerOffsets-missing"}
"""The notes on a store whose broker had neither groups nor their offsets."""


@pytest.fixture
def config(tmp_path: Path) -> StoreConfig:
    return StoreConfig(
        root=tmp_path / "store",
        commit_log_file_bytes=8192,
        consume_queue_file_bytes=400,
        max_hash_slots=7,
        max_index_entries=40,
        multi_dispatch=True,
    )


async def put(config: StoreConfig, make_message: MakeMessage, begin: int, end: int) -> None:
    """Open a store, put messages into two queues, every seventh into a light one, and close it."""
    async with open_store(config) as store:
        if store.tables.topics.get("T") is None:
            store.tables.topics.put(TopicConfig("T", 2, 2))
        for number in range(begin, end):
            properties = {"UNIQ_KEY": f"K{number:09d}", "TAGS": "x"}
            if number % 7 == 0:
                properties["INNER_MULTI_DISPATCH"] = LIGHT
            store.put(
                make_message(
                    b"%d" % number, queue_id=number % 2, properties=encode_properties(properties)
                )
            )
        store.commit()


def verified(config: StoreConfig, records: int) -> VerifyReport:
    report = verify_store(config.root)
    assert report.is_sound, report.problems
    assert report.records == report.index_entries == records
    return report


@pytest.mark.slow
async def test_a_store_is_sound_through_all_stages_and_when_all_is_made_anew(
    config: StoreConfig, make_message: MakeMessage
) -> None:
    both = replace(config, rocksdb_double_write=True)
    rocksdb = replace(config, store_type=StoreType.ROCKSDB)
    light = [len(range(0, end, 7)) for end in (0, 60, 120, 180, 210)]
    await put(config, make_message, 0, 60)
    assert verified(config, 60).file_units == 60 + light[1]
    await put(both, make_message, 60, 120)
    report = verified(config, 120)
    assert report.file_units == report.rocksdb_rows == 120 + light[2]
    assert {found.kind for found in report.findings} == NO_GROUPS
    await put(rocksdb, make_message, 120, 180)
    report = verified(config, 180)
    assert (report.stage.stage, report.rocksdb_rows) == (3, 180 + light[3])
    assert {found.kind for found in report.findings} == {"units-behind"}
    await put(config, make_message, 180, 210)
    report = verified(config, 210)
    assert (report.stage.stage, report.file_units) == (1, 210 + light[4])
    done = repair_store(config.root, everything=True)
    assert done.is_sound
    assert done.after is not None
    assert done.after.findings == []
    assert done.after.rocksdb_rows == done.after.file_units == 210 + light[4]
    # What was made again is what a broker goes on with, in every stage.
    for stage in (both, rocksdb, config):
        await put(stage, make_message, 0, 0)
        verified(config, 210)
        async with open_store(stage) as store:
            assert store.bounds("T", 0) == (0, 105)
            assert store.bounds(LIGHT, 0) == (0, light[4])


async def test_a_topic_that_was_deleted_and_made_anew_is_no_problem(
    config: StoreConfig, make_message: MakeMessage
) -> None:
    await put(config, make_message, 0, 20)
    async with open_store(config) as store:
        store.delete_topic("T")
        store.tables.topics.remove("T")
    report = verified(config, 20)
    assert {found.kind for found in report.findings} == {"deleted-topics", *NO_GROUPS}
    await put(config, make_message, 20, 30)
    report = verified(config, 30)
    assert {found.kind for found in report.findings} == {"queue-restarted", *NO_GROUPS}
    assert all(found.severity is Severity.NOTE for found in report.findings)
    queues = {
        (queue.topic, queue.queue_id): queue.end for queue in inspect_store(config.root).queues
    }
    assert queues["T", 0] == 5
    assert repair_store(config.root, everything=True).is_sound
    async with open_store(config) as store:
        assert store.bounds("T", 0) == (0, 5)
