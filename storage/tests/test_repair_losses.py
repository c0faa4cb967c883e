"""A repair takes no message away that can be read, unless it is told to."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from lanemq.storage import Store
from lanemq.storage._layouts import pack_unit
from lanemq.storage.bulk import convert_to_files, convert_to_rocksdb
from lanemq.storage.cli import store as store_command
from lanemq.storage.queues.files._consume_queue import FileConsumeQueue
from lanemq.storage.queues.rocks._queue_rows import QueueRows
from lanemq.storage.rocks import QueueDatabase
from lanemq.storage.tools import repair_store, verify_store
from lanemq.testkit.storage.stages import (
    Stand,
    assert_files_agree,
    assert_rows_agree,
    new_message,
    stored_files,
    wanted_rows,
)

FILES, BOTH, ROCKSDB = 1, 2, 3


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return Stand(tmp_path / "store", commit_log_file_bytes=1 << 20)


def hand_out_again(store: Store, offset: int, numbers: range) -> None:
    """Let queue 0 continue at an offset it had before, as 4.9.7 does without its last files."""
    queue = store._parts.queues.find("T", 0)
    assert isinstance(queue, FileConsumeQueue)
    queue.write_out()
    queue.cut(offset)
    queue.next = offset
    for number in numbers:
        store.put(new_message(number))
    store.commit()


async def store_with_reused_offsets(stand: Stand) -> None:
    """300 messages; then offsets from 250 on are handed out again, to three more."""
    async with stand.open(FILES) as store:
        stand.put(store, 300, queues=1)
        hand_out_again(store, 250, range(300, 303))


async def readable(stand: Stand) -> list[int]:
    async with stand.open(FILES) as store:
        return stand.bodies(store)


async def test_offsets_that_were_handed_out_twice_leave_the_older_ones_readable(
    stand: Stand, tmp_path: Path
) -> None:
    await store_with_reused_offsets(stand)
    expected = [*range(250), 300, 301, 302]
    root = stand.root
    report = verify_store(root)
    assert report.is_sound, report.problems
    (note,) = [found for found in report.findings if found.kind == "offsets-reused"]
    assert (note.queue_offset, note.count) == (250, 1)
    files = stored_files(stand.config(FILES))
    assert repair_store(root, everything=True).losses == []
    assert stored_files(stand.config(FILES)) == files
    assert await readable(stand) == expected


async def test_a_damaged_queue_with_such_offsets_comes_back(stand: Stand) -> None:
    await store_with_reused_offsets(stand)
    files = stored_files(stand.config(FILES))
    path = sorted((stand.root / "consumequeue" / "T" / "0").iterdir())[3]
    path.write_bytes(bytes(200))
    report = repair_store(stand.root)
    assert report.is_sound
    assert report.losses == []
    assert stored_files(stand.config(FILES)) == files


async def test_conversions_know_such_offsets(stand: Stand) -> None:
    await store_with_reused_offsets(stand)
    files = stored_files(stand.config(FILES))
    for from_log in (False, True):
        convert_to_rocksdb(stand.root, from_log=from_log)
        assert_rows_agree(stand.config(ROCKSDB))
    assert verify_store(stand.root).is_sound
    shutil.rmtree(stand.root / "consumequeue" / "T")
    convert_to_files(stand.root, queue_file_bytes=200)
    assert_files_agree(stand.config(FILES))
    assert stored_files(stand.config(FILES)) == files


async def test_a_repair_that_would_take_messages_away_leaves_them_and_says_so(
    stand: Stand,
) -> None:
    await stand.run(FILES, 100, queues=1)
    # Its files lead to a message of that queue which the log says is over: it was at offset 3.
    async with stand.open(FILES) as store:
        older = store.units("T", 0, 99, 1)[0]
        hand_out_again(store, 99, range(100, 101))
    path = stand.root / "consumequeue" / "T" / "0" / f"{9 * 200:020d}"
    path.write_bytes(path.read_bytes()[:180] + pack_unit(*older))
    before = stored_files(stand.config(FILES))
    runner = CliRunner()
    dry = runner.invoke(store_command, ["repair", str(stand.root), "--dry-run"])
    assert dry.exit_code == 1
    assert "would take away 1 message that can be read now" in dry.output
    told = runner.invoke(store_command, ["repair", str(stand.root)])
    assert told.exit_code == 1
    assert "left alone, for it would take away 1 message that can be read now" in told.output
    assert "1 message of queue 0 of T, from offset 99" in told.output
    assert "--allow-loss" in told.output
    assert stored_files(stand.config(FILES)) == before
    done = runner.invoke(store_command, ["repair", str(stand.root), "--allow-loss"])
    assert done.exit_code == 0, done.output
    assert "taken away: 1 message that could be read before" in done.output
    assert stored_files(stand.config(FILES)) != before
    assert_files_agree(stand.config(FILES))


async def test_rows_that_lead_to_older_messages_are_not_taken_away(stand: Stand) -> None:
    await stand.run(FILES, 300, queues=1)
    convert_to_rocksdb(stand.root)
    async with stand.open(FILES) as store:
        hand_out_again(store, 250, range(300, 303))
    # Stage 3 reads the rows: they have 300 messages, and the log says that 253 can be reached.
    for table in ("topics", "subscriptionGroups", "consumerOffsets"):
        QueueDatabase(stand.root / "config" / table).close()
    rows = QueueRows(QueueDatabase(stand.root / "consumequeue"))
    rows.delete_units("T", 0, 10, 11)
    rows.close()
    (stand.root / "config" / "dispatchWatermark.json").unlink()
    report = repair_store(stand.root)
    assert sum(loss.count for loss in report.losses) == 50
    assert {loss.queue_offset for loss in report.losses} == {250}
    assert len(wanted_rows(stand.config(FILES))["T", 0]) == 253
