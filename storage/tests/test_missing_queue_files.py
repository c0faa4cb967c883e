"""Queue files that are gone from a store that was closed cleanly: no offset is used again."""

import json
import logging
import shutil
from pathlib import Path

import pytest
from trio.testing import MockClock

from lanemq.storage import StartRefused, Store
from lanemq.storage.bulk import convert_to_files
from lanemq.storage.tools import inspect_store, repair_store
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.stages import Stand, new_message
from lanemq.testkit.storage.stores import ROOT, MakeMessage, OpenSmall
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.message import BROKER_STAGE_PREFIX, StageRecord, decode_messages, stage_group

QUEUES = ROOT / "consumequeue"
WATERMARKS = ROOT / "config/dispatchWatermark.json"
MESSAGES = 60


@pytest.fixture(autouse=True)
def clock(autojump_clock: MockClock) -> None:
    """No test here waits."""


async def fill(open_small: OpenSmall, make_message: MakeMessage) -> None:
    """Messages 0 to 59: the older half in queue 0, the younger in queues 1 and 2."""
    async with open_small() as store:
        store.tables.topics.put(TopicConfig("T", 4, 4))
        for number in range(MESSAGES):
            queue_id = 0 if number < MESSAGES // 2 else 1 + number % 2
            store.put(make_message(b"%d" % number + bytes(200), queue_id=queue_id))
        store.commit()
        store.tables.consumer_offsets.put("g", "T", 0, 25)


def remove_queue(files: SimulatedFiles, queue_id: int, *, keep: int = 0) -> None:
    """Remove the files of a queue, but the first ``keep``."""
    directory = QUEUES / "T" / str(queue_id)
    for entry in files.entries(directory)[keep:]:
        files.remove(directory / entry.name)


def all_bodies(store: Store) -> list[int]:
    found: list[int] = []
    for queue_id in range(4):
        begin, end = store.bounds("T", queue_id)
        while begin < end:
            got = store.get("T", queue_id, begin, max_count=32)
            begin = got.next_offset
            found += [
                int(message.body.rstrip(b"\0"))
                for message in decode_messages(b"".join(got.records))
            ]
    return sorted(found)


@pytest.mark.parametrize("ours", [True, False], ids=["our own stop", "another's stop"])
@pytest.mark.parametrize("queue_id", [0, 1, 2])
@pytest.mark.parametrize("keep", [0, 1])
async def test_units_that_are_missing_are_made_anew_and_that_is_said(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    caplog: pytest.LogCaptureFixture,
    ours: bool,
    queue_id: int,
    keep: int,
) -> None:
    if not ours and queue_id == 0 and keep:
        return  # nothing shows it: what a group has read was not more than is left
    await fill(open_small, make_message)
    remove_queue(files, queue_id, keep=keep)
    if not ours:
        files.remove(WATERMARKS)
    async with open_small() as store:
        assert all_bodies(store) == list(range(MESSAGES))
        expected = MESSAGES // 2 if queue_id == 0 else MESSAGES // 4
        assert store.put(make_message(queue_id=queue_id)).queue_offset == expected
        store.commit()
    said = (f"queue {queue_id} of T: files with", f"queue {queue_id} of T lacked")
    assert any(text in caplog.text for text in said)


async def test_a_first_file_that_is_missing_is_made_anew_too(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    await fill(open_small, make_message)
    directory = QUEUES / "T/0"
    files.remove(directory / files.entries(directory)[0].name)
    async with open_small() as store:
        assert store.bounds("T", 0) == (0, MESSAGES // 2)
        assert all_bodies(store) == list(range(MESSAGES))


async def test_nothing_is_said_and_nothing_read_where_nothing_is_missing(
    open_small: OpenSmall, make_message: MakeMessage, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(open_small, make_message)
    for _ in range(2):
        async with open_small() as store:
            assert all_bodies(store) == list(range(MESSAGES))
    assert [line for line in caplog.records if line.levelno >= logging.WARNING] == []


async def drop_log_files(files: SimulatedFiles) -> None:
    """Take away the log files that have the messages of queue 0, as retention does."""
    directory = ROOT / "commitlog"
    for entry in files.entries(directory)[:-2]:
        files.remove(directory / entry.name)


async def test_a_queue_without_files_and_messages_goes_on_where_its_groups_are(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    await fill(open_small, make_message)
    await drop_log_files(files)
    remove_queue(files, 0)
    files.remove(WATERMARKS)
    async with open_small() as store:
        assert store.put(make_message(queue_id=0)).queue_offset == 25
        store.commit()


@pytest.mark.parametrize(
    ("group", "number"),
    [
        (stage_group("g"), StageRecord(12, 3).pack()),
        (BROKER_STAGE_PREFIX + "g", StageRecord(12, 3).pack()),
        ("a client's word", 1 << 61),
    ],
)
async def test_numbers_that_are_no_offsets_move_no_queue(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    group: str,
    number: int,
) -> None:
    """Stage records are kept as offsets of a shadow group; brokers keep whatever is committed."""
    await fill(open_small, make_message)
    async with open_small() as store:
        store.tables.consumer_offsets.put(group, "T", 3, number)
    remove_queue(files, 0)  # what makes the start go over the log
    files.remove(WATERMARKS)
    async with open_small() as store:
        assert all_bodies(store) == list(range(MESSAGES))
        assert store.put(make_message(queue_id=3)).queue_offset == 0
        store.commit()


async def test_where_offsets_would_be_used_again_the_start_is_refused_unless_told(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await fill(open_small, make_message)
    await drop_log_files(files)
    remove_queue(files, 0)
    for _ in range(2):
        with pytest.raises(StartRefused, match="allowMissingQueueFiles=true") as caught:
            async with open_small():
                pass
        assert "offsets that were given out before" in str(caught.value)
        assert not files.exists(ROOT / "abort")
    async with open_small(allow_missing_queue_files=True) as store:
        assert store.put(make_message(queue_id=0)).queue_offset == 25
        store.commit()
    assert "it is allowed by allowMissingQueueFiles" in caplog.text
    async with open_small() as store:  # that was the start that it was needed for
        assert store.bounds("T", 0)[1] == 26


async def test_a_digest_of_the_queues_is_there_only_while_the_store_is_at_rest(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    await fill(open_small, make_message)
    assert json.loads(files.read_all(WATERMARKS) or b"")["queues"]
    async with open_small():
        assert not json.loads(files.read_all(WATERMARKS) or b"")["queues"]


async def test_a_store_of_another_broker_without_any_queue_file_keeps_its_oldest_messages(
    tmp_path: Path,
) -> None:
    stand = Stand(tmp_path / "store")
    async with stand.open(1) as store:
        store.tables.topics.put(TopicConfig("T", 2, 2))
        stand.put(store, 100)
        store.tables.consumer_offsets.put("g", "T", 0, 35)  # files have ten units
    shutil.rmtree(stand.root / "consumequeue")
    (stand.root / "config/dispatchWatermark.json").unlink()
    async with stand.open(1) as store:
        assert stand.bodies(store) == list(range(0, 100, 2))


@pytest.mark.parametrize("tool", ["convert", "repair"])
@pytest.mark.parametrize("stage", [1, 3])
async def test_files_lost_after_a_tool_changed_them_are_noticed(
    tmp_path: Path, tool: str, stage: int
) -> None:
    stand = Stand(tmp_path / "store")
    async with stand.open(1) as store:
        store.tables.topics.put(TopicConfig("T", 2, 2))
        stand.put(store, 20)
        for number in range(100):  # so many that a start looks at none of T's
            store.put(new_message(number, topic="U"))
        store.commit()
    lost = stand.root / "consumequeue/T/0"
    if tool == "convert":
        for path in lost.iterdir():
            path.write_bytes(bytes(path.stat().st_size))
        convert_to_files(stand.root, from_log=True)
    else:
        shutil.rmtree(stand.root / "consumequeue/T/1")
        repair_store(stand.root, jobs=1)
    shutil.rmtree(lost)
    async with stand.open(stage) as store:
        assert stand.bodies(store) == list(range(0, 20, 2))
        assert stand.bodies(store, queue_id=1) == list(range(1, 20, 2))


@pytest.mark.parametrize("stage", [1, 2])
async def test_a_broker_that_noted_only_the_time_of_its_queues_was_there_since(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stage: int
) -> None:
    """Apache's, stopped a few seconds after its first message, leaves the old time of the log."""
    stand = Stand(tmp_path / "store")
    noted, checkpoint = (
        stand.root / name for name in ("config/dispatchWatermark.json", "checkpoint")
    )
    await stand.run(stage, 10)
    ours, times = noted.read_bytes(), checkpoint.read_bytes()
    await stand.run(stage, 10, first=10)
    noted.write_bytes(ours)
    later_ms = int.from_bytes(times[8:16], "big") + 5000
    checkpoint.write_bytes(times[:8] + later_ms.to_bytes(8, "big") + times[16:])
    assert {"log-begin", "queue-missing"}.isdisjoint(
        finding.kind for finding in inspect_store(stand.root).findings
    )
    caplog.set_level(logging.WARNING)
    async with stand.open(stage) as store:
        assert stand.bodies(store) == list(range(0, 20, 2))
        assert store.bounds("T", 1) == (0, 10)
    assert "missing" not in caplog.text
    async with stand.open(stage) as store:  # which we noted as ours again
        assert store.bounds("T", 1) == (0, 10)
    assert "missing" not in caplog.text
