"""A repair knows topics from the log, where no table of topics proves that they were deleted."""

import shutil

import pytest

from lanemq.storage.tools import repair_store, verify_store
from lanemq.testkit.storage.stages import Stand
from lanemq.wire.bodies import TopicConfig

FILES, BOTH, ROCKSDB = 1, 2, 3
MESSAGES = 40


async def kill_in_stage_3(stand: Stand, *topics: str) -> None:
    """Fill a store and kill it, with messages whose rows are in memory only.

    The table of topics has ``topics``; messages are in T.
    """
    async with stand.open(ROCKSDB) as store:
        for topic in topics:
            store.tables.topics.put(TopicConfig(topic, 2, 2))
        await store.tables.sync()
        stand.put(store, MESSAGES)
        await store.in_rocksdb(store.max_position)
        stand.kill(stand.root.parent / "killed")


async def readable(stand: Stand) -> list[int]:
    async with stand.open(ROCKSDB) as store:
        return sorted(stand.bodies(store) + stand.bodies(store, queue_id=1))


@pytest.mark.slow
@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("table", ["empty", "other topics", "gone"])
async def test_a_repair_gives_queues_what_the_next_start_would_give_them(
    stand: Stand, table: str, everything: bool
) -> None:
    await kill_in_stage_3(stand, *(["U"] if table == "other topics" else []))
    if table == "gone":
        shutil.rmtree(stand.root / "config/topics")
    assert "deleted-topics" not in {found.kind for found in verify_store(stand.root).findings}
    repair_store(stand.root, everything=everything, queue_file_bytes=200)
    assert await readable(stand) == list(range(MESSAGES))
