"""Stores that real brokers wrote go through all stages, and hold what they held."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lanemq.storage import GetStatus, Store
from lanemq.testkit.storage.stages import Stand, assert_files_agree, assert_rows_agree
from lanemq.testkit.storage.stores import NAMES, STORES
from lanemq.wire.message import decode_messages

pytestmark = pytest.mark.slow
ORDERS = [(1, 2, 3, 1), (3, 2, 1, 3), (2, 3, 1, 2)]


def check(store: Store, expected: dict[str, Any]) -> None:
    total = 0
    for topic, described in expected["topics"].items():
        for queue_id, bounds in described["queues"].items():
            begin, end = store.bounds(topic, int(queue_id))
            assert (begin, end) == (bounds["min"], bounds["max"]), topic
            offset = begin
            while offset < end:
                got = store.get(topic, int(queue_id), offset, max_count=32)
                assert got.status is GetStatus.FOUND
                for message in decode_messages(b"".join(got.records), check_crc=True):
                    assert (message.topic, message.queue_offset) == (topic, offset)
                    offset += 1
                    total += 1
    assert total == expected["messageCount"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_store_passes_through_all_stages(
    name: str, order: tuple[int, ...], recorded: Callable[[str], Path]
) -> None:
    with (STORES / f"{name}.expected.json").open() as file:
        expected = json.load(file)
    sizes = expected["config"]
    stand = Stand(
        recorded(name),
        commit_log_file_bytes=sizes["mappedFileSizeCommitLog"],
        consume_queue_file_bytes=sizes["mappedFileSizeConsumeQueue"],
        max_hash_slots=sizes["maxHashSlotNum"],
        max_index_entries=sizes["maxIndexNum"],
        allow_stale_json=True,  # the tables are not what this is about
    )
    for stage in order:
        async with stand.open(stage) as store:
            check(store, expected)
            await store.in_rocksdb(store.max_position)
        if stage > 1:
            assert_rows_agree(stand.config(stage))
        if stage < 3:
            assert_files_agree(stand.config(stage))
