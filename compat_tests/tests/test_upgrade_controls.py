"""Mistakes of Apache 5.3.3 in the upgrade to RocksDB and on the way back, seen there.

Each control shows the fault on the real broker. Then lanemq does the same with the same store,
and repairs the store that Apache has left.
"""

import struct
from pathlib import Path

import pytest
import trio

from lanemq.compat import StoreStand, walk_log, walk_rows
from lanemq.storage import Stage
from lanemq.wire.bodies import ConsumerOffsetTable

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.usefixtures("java")]

APACHE = "apache-5.3.3"
KIB = 1024


@pytest.mark.parametrize("name", ["file-5.3.3-clean", "file-4.9.7-clean"])
async def test_at_apache_a_direct_switch_loses_a_record_and_all_offsets(
    name: str, tmp_path: Path
) -> None:
    """Stage 1 to 3: n - 1 of n rows, and groups at their start (row 5 of the wrong stores).

    consumerOffset.json has the counter 0 in one store, and no version at all in the other.
    """
    stand = StoreStand.recorded(name, tmp_path)
    recorded = {record.log_position for record in walk_log(stand.store)}
    file = stand.store / "config" / "consumerOffset.json"
    document = ConsumerOffsetTable.decode(file.read_bytes())
    assert len(document.offset_table) >= 2
    assert document.data_version is None or document.data_version.counter == 0

    async with stand.run(APACHE, Stage.ROCKSDB, killed=True):
        view = await stand.view()

    assert recorded - view.positions == {0}, "all but the record that begins the log"
    assert view.offsets == {}

    ours = StoreStand.recorded(name, tmp_path / "ours")
    async with ours.run("lanemq", Stage.BOTH):
        await ours.indexes_agree()
    async with ours.run("lanemq", Stage.ROCKSDB):
        view = await ours.view()
    assert recorded <= walk_rows(ours.store).positions
    assert view.holes == []
    for key, queues in document.offset_table.items():
        topic, _, group = key.rpartition("@")
        assert view.offsets[group, topic] == queues


async def test_at_apache_a_rollback_shifts_slots_and_forgets_what_is_new(
    tmp_path: Path,
) -> None:
    """Stage 3 to 1 after a clean stop: slots hold their neighbour's message, one is lost.

    Topics and groups of stage 3 are in RocksDB alone, which nobody reads any more.
    """
    stand = StoreStand.recorded("rocksdb-5.3.3-clean", tmp_path)
    recorded = {record.log_position: record for record in walk_log(stand.store)}
    rows = walk_rows(stand.store)
    assert rows.positions == recorded.keys()

    async with stand.run(APACHE, Stage.FILES, killed=True):
        view = await stand.view()

    queue = ("RMQ_SYS_TRANS_HALF_TOPIC", 0)
    assert view.shifted == [(*queue, offset) for offset in range(38, 38 + 421)]
    lost = rows.units[*queue, 38].log_position
    assert lost in recorded
    assert lost not in view.positions
    assert "sdx_events" in {record.topic for record in recorded.values()}
    assert "sdx_events" not in view.topics
    assert "sd_group_a2" not in view.groups

    stale = {"allowStaleJsonMetadata": "true"}  # or it does not start with what Apache left
    async with stand.run("lanemq", Stage.FILES, settings=stale):  # whose slots are shifted
        repaired = await stand.view()
    assert repaired.shifted == []
    assert repaired.holes == []
    ours = StoreStand.recorded("rocksdb-5.3.3-clean", tmp_path / "ours")
    async with ours.run("lanemq", Stage.ROCKSDB):
        kept = await ours.view()
    async with ours.run("lanemq", Stage.FILES):
        view = await ours.view()
    assert recorded.keys() <= kept.positions
    assert kept.lost_in(view) == []
    assert view.shifted == []


async def test_at_apache_a_crash_in_stage_2_leaves_a_hole_that_nobody_sees(
    tmp_path: Path,
) -> None:
    """Rows were in memory only, and recovery begins in a later log file (order of events 1).

    The watermark says afterwards that everything is there.
    """
    stand = StoreStand(tmp_path)
    small = {
        "mappedFileSizeCommitLog": str(1024 * KIB),
        # So that the checkpoint comes in a second and not in a minute.
        "flushIntervalCommitLog": "100",
        "flushCommitLogThoroughInterval": "100",
        "flushConsumeQueueThoroughInterval": "100",
    }
    async with stand.run(APACHE, Stage.BOTH, killed=True, settings=small):
        await stand.send("T", 0, [b"x" * 40 * KIB] * 60)
        await trio.sleep(3.5)  # recovery goes back three seconds behind the checkpoint
        await stand.send("T", 0, [b"y" * 40 * KIB] * 26)
        newest = max(record.store_timestamp_ms for record in walk_log(stand.store))
        with trio.fail_after(60):
            while min(_checkpoint_ms(stand.store)) < newest:  # noqa: ASYNC110 - another process
                await trio.sleep(0.1)
    assert walk_rows(stand.store).units == {}
    ours = stand.copy(tmp_path / "ours")

    async with stand.run(APACHE, Stage.BOTH, settings=small):
        view = await stand.view()
        assert view.bounds["T", 0] == (0, 86)
        assert view.holes == [], "the file queues are whole"

    rows = walk_rows(stand.store)
    assert rows.watermark >= max(rows.positions)
    missing = set(range(86)) - {offset for topic, _, offset in rows.units if topic == "T"}
    assert missing == set(range(max(missing) + 1))
    assert len(missing) >= 26

    for left_by_apache in (ours, stand):
        async with left_by_apache.run("lanemq", Stage.BOTH, settings=small):
            await left_by_apache.indexes_agree()
        rows = walk_rows(left_by_apache.store)
        assert {offset for topic, _, offset in rows.units if topic == "T"} == set(range(86))


def _checkpoint_ms(store: Path) -> tuple[int, int]:
    """Return the store times up to which the log and the file queues are flushed."""
    log_ms, queues_ms = struct.unpack_from(">2q", (store / "checkpoint").read_bytes())
    return log_ms, queues_ms
