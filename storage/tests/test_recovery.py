"""The start of a store: the end of its log, the work redone, the files kept aside."""

import logging
from pathlib import Path

import pytest
import trio

from lanemq.storage import (
    GetStatus,
    Put,
    Store,
    StoreConfig,
    StoreCorrupted,
    open_store,
)
from lanemq.storage._config import Stage
from lanemq.testkit.storage.disk import Crash, SimulatedFiles
from lanemq.testkit.storage.stages import Stand, new_message
from lanemq.testkit.storage.stores import ROOT, MakeMessage, OpenSmall
from lanemq.wire.bodies import TopicConfig
from lanemq.wire.message import decode_messages

LOG = ROOT / "commitlog"
QUEUE = ROOT / "consumequeue/T/0"
BLANK_SIZE = 2147483647
LOST = 700


def change(files: SimulatedFiles, path: Path, position: int, data: bytes) -> None:
    files.open(path).write(position, data)


def segment(directory: Path, start: int) -> Path:
    return directory / f"{start:020d}"


async def fill(
    open_small: OpenSmall, make_message: MakeMessage, count: int, size_bytes: int = 300
) -> list[Put]:
    """A store of ``count`` messages in queue 0 of T, closed cleanly."""
    async with open_small() as store:
        puts = [
            store.put(make_message(b"%d" % n + bytes(size_bytes), unique_key=f"U{n}"))
            for n in range(count)
        ]
        store.commit()
    return puts


def bodies(store: Store, topic: str = "T", queue_id: int = 0) -> list[int]:
    begin, end = store.bounds(topic, queue_id)
    records: list[bytes] = []
    while begin < end:
        got = store.get(topic, queue_id, begin, max_count=32)
        records += got.records
        begin = got.next_offset
    return [int(message.body.rstrip(b"\0")) for message in decode_messages(b"".join(records))]


async def test_a_clean_stop_leaves_no_spare_file_and_no_abort_file(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        assert (files.read_all(ROOT / "abort") or b"").isdigit()
        assert files.read_all(ROOT / "lock") == b"lock"
        store.put(make_message())
        store.commit()
        await trio.sleep(2)
        assert [entry.name for entry in files.entries(LOG)] == [f"{0:020d}", f"{4096:020d}"]
    assert [entry.name for entry in files.entries(LOG)] == [f"{0:020d}"]
    assert not files.exists(ROOT / "abort")
    checkpoint = files.read_all(ROOT / "checkpoint") or b""
    assert len(checkpoint) == 4096
    assert checkpoint[0:8] == checkpoint[8:16] != bytes(8)


async def test_a_checkpoint_keeps_the_fields_it_does_not_know(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    await fill(open_small, make_message, 1)
    change(files, ROOT / "checkpoint", 24, bytes(range(1, 17)))
    await fill(open_small, make_message, 1)
    assert (files.read_all(ROOT / "checkpoint") or b"")[24:40] == bytes(range(1, 17))


@pytest.mark.parametrize("content", [None, b"", b"short"])
async def test_a_lost_checkpoint_costs_time_but_nothing_else(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles, content: bytes | None
) -> None:
    await fill(open_small, make_message, 20)
    files.remove(ROOT / "checkpoint")
    if content is not None:
        files.write_all(ROOT / "checkpoint", content)
    files.write_all(ROOT / "abort", b"")
    async with open_small() as store:
        assert bodies(store) == list(range(20))


@pytest.mark.parametrize("crashed", [False, True])
async def test_one_flipped_byte_of_a_body_damages_one_message(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    caplog: pytest.LogCaptureFixture,
    crashed: bool,
) -> None:
    puts = await fill(open_small, make_message, 30)
    bad = puts[14]
    start = bad.log_position // 4096 * 4096
    change(files, segment(LOG, start), bad.log_position - start + 100, b"\xff")
    log = {entry.name: files.read_all(LOG / entry.name) for entry in files.entries(LOG)}
    for _ in range(2):
        if crashed:
            files.write_all(ROOT / "abort", b"")
        caplog.clear()
        async with open_small() as store:
            assert bodies(store) == [n for n in range(30) if n != 14]
            assert store.bounds("T", 0) == (0, 30)
            alone = store.get("T", 0, 14, max_count=1)
            assert alone.next_offset > 14
            assert alone.records == [] or decode_messages(alone.records[0])[0].queue_offset == 15
            assert store.record_at(bad.log_position) is None
            assert store.why_damaged(bad.log_position) == "its body fails the checksum"
            assert store.why_damaged(puts[15].log_position) == ""
            found = store.query("T", "U14", max_count=1, begin_ms=0, end_ms=1 << 60)
            assert (found.records, found.damaged) == ([], [bad.log_position])
            assert store.statistics().damaged_pieces == 1
        assert f"the message at {bad.log_position} of the log, offset 14 of queue 0" in caplog.text
        assert not files.exists(ROOT / "commitlog-cut")
        assert log == {entry.name: files.read_all(LOG / entry.name) for entry in files.entries(LOG)}


@pytest.mark.parametrize("crashed", [False, True])
async def test_queues_made_anew_after_damage_have_the_damaged_message_s_place(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles, crashed: bool
) -> None:
    puts = await fill(open_small, make_message, 30)
    bad = puts[14]
    start = bad.log_position // 4096 * 4096
    change(files, segment(LOG, start), bad.log_position - start + 100, b"\xff")
    if crashed:
        files.write_all(ROOT / "abort", b"")
    for entry in files.entries(QUEUE):
        files.remove(QUEUE / entry.name)
    async with open_small() as store:
        assert bodies(store) == [n for n in range(30) if n != 14]
        assert store.bounds("T", 0) == (0, 30)
        [unit] = store.units("T", 0, 14, 1)
        assert unit.log_position == bad.log_position


async def test_damage_at_the_end_of_a_store_is_told_from_a_torn_write(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    """A queue's unit proves that the message was whole, where the store was closed cleanly."""
    puts = await fill(open_small, make_message, 5)
    change(files, segment(LOG, 0), puts[4].log_position + 100, b"\xff")
    async with open_small() as store:
        assert bodies(store) == [0, 1, 2, 3]
        assert store.put(make_message(b"5", unique_key="U5")).queue_offset == 5
        store.commit()
    async with open_small() as store:
        assert bodies(store) == [0, 1, 2, 3, 5]


async def test_remains_of_an_older_log_do_not_make_a_torn_write_a_damaged_message(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    """Apache leaves what it cuts off in the file; records of one size lie at the same places."""
    puts = await fill(open_small, make_message, 6)
    older = files.read_all(segment(LOG, 0)) or b""
    files.remove(ROOT / "config" / "dispatchWatermark.json")
    change(files, segment(LOG, 0), puts[3].log_position, bytes(4096 - puts[3].log_position))
    files.write_all(ROOT / "abort", b"")
    await trio.sleep(5)
    async with open_small() as store:  # it was cut; now others are written there
        again = store.put(make_message(b"9" + bytes(300), unique_key="U9"))
        store.commit()
        assert again.log_position == puts[3].log_position
        assert again.end == puts[4].log_position
    behind = puts[4].log_position
    change(files, segment(LOG, 0), behind, older[behind:])
    change(files, segment(LOG, 0), again.log_position + 100, b"\xff")
    files.remove(ROOT / "config" / "dispatchWatermark.json")
    files.write_all(ROOT / "abort", b"")
    async with open_small() as store:
        assert bodies(store) == [0, 1, 2]
        assert store.max_position == again.log_position


@pytest.mark.parametrize("at", [0, 4, 28, 84])
async def test_behind_bytes_that_are_no_record_a_clean_store_is_served_on(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    caplog: pytest.LogCaptureFixture,
    at: int,
) -> None:
    puts = await fill(open_small, make_message, 30)
    start = puts[14].log_position // 4096 * 4096
    change(files, segment(LOG, start), puts[14].log_position - start + at, b"\x7f\x7f")
    async with open_small() as store:
        assert bodies(store) == [n for n in range(30) if n != 14]
        assert store.bounds("T", 0) == (0, 30)
    assert f"bytes of the log at {puts[14].log_position} are not a record" in caplog.text
    for entry in files.entries(QUEUE):
        files.remove(QUEUE / entry.name)
    files.write_all(ROOT / "abort", b"")  # a watermark proves that the log was whole there
    async with open_small() as store:
        assert bodies(store) == [n for n in range(30) if n != 14]
        assert store.bounds("T", 0) == (0, 30)


@pytest.mark.slow
@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("at", [0, 4, 28, 84])
async def test_a_kill_does_not_make_a_destroyed_head_the_end_of_the_log(
    tmp_path: Path, at: int, stage: Stage
) -> None:
    """Nothing of the store but the log proves it: it is as Apache's broker leaves one."""
    stand = Stand(tmp_path / "store")
    async with stand.open(stage) as store:
        store.tables.topics.put(TopicConfig("T", 2, 2))
        puts = [store.put(new_message(n, topic="T", queue_id=n % 2)) for n in range(40)]
        store.commit()
    (stand.root / "config/dispatchWatermark.json").unlink()
    (stand.root / "abort").touch()
    file_bytes = stand.config(stage).commit_log_file_bytes
    start = puts[17].log_position // file_bytes * file_bytes
    with segment(stand.root / "commitlog", start).open("r+b") as log:
        log.seek(puts[17].log_position - start + at)
        log.write(b"\x7f\x7f")
    for _ in range(2):
        async with stand.open(stage) as store:
            assert bodies(store, queue_id=0) == list(range(0, 40, 2))
            assert bodies(store, queue_id=1) == [n for n in range(1, 40, 2) if n != 17]
            assert store.bounds("T", 1) == (0, 20)
        assert not (stand.root / "commitlog-cut").exists()
        (stand.root / "abort").touch()


async def test_several_destroyed_pieces_of_a_killed_store_cost_only_themselves(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    """A flipped body right before a destroyed head, and the mark at a file's end, among them."""
    puts = await fill(open_small, make_message, 60)
    files.remove(ROOT / "config" / "dispatchWatermark.json")
    files.write_all(ROOT / "abort", b"")
    for number, at in ((7, 4), (20, 100), (21, 0), (22, 84), (40, 28)):
        start = puts[number].log_position // 4096 * 4096
        change(files, segment(LOG, start), puts[number].log_position - start + at, b"\x7f\x7f")
    last = max(put.end for put in puts if put.end <= 8192)
    change(files, segment(LOG, 4096), last - 4096 + 4, b"\x7f")
    async with open_small() as store:
        assert bodies(store) == [n for n in range(60) if n not in (7, 20, 21, 22, 40)]
        assert store.bounds("T", 0) == (0, 60)
        assert store.put(make_message(b"60")).queue_offset == 60
        store.commit()


@pytest.mark.parametrize("later_s", [5, -5])
async def test_remains_of_an_older_log_are_not_taken_for_its_continuation(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    small_config: StoreConfig,
    later_s: int,
) -> None:
    """Behind a torn head lie records that a broker gave up: older ones, or of offsets that others
    have now (where the clock was set back)."""
    puts = await fill(open_small, make_message, 12)
    older = files.read_all(segment(LOG, 0)) or b""
    change(files, segment(LOG, 0), puts[4].log_position, bytes(4096 - puts[4].log_position))
    files.write_all(ROOT / "abort", b"")
    files.remove(ROOT / "config" / "dispatchWatermark.json")
    now_ms = puts[0].store_timestamp_ms + later_s * 1000
    async with open_store(small_config, files=files, clock_ms=lambda: now_ms) as store:
        # It was cut; now two others are written there.
        for number in (50, 51):
            again = store.put(make_message(b"%d" % number, unique_key=f"U{number}"))
        store.commit()
        assert again.queue_offset == 5
    behind = next(put for put in puts if put.log_position > again.end + 100)
    change(files, segment(LOG, 0), again.end, older[again.end :])
    change(files, segment(LOG, 0), again.end, b"\x7f\x7f")
    files.remove(ROOT / "config" / "dispatchWatermark.json")
    files.write_all(ROOT / "abort", b"")
    assert behind.queue_offset == 5
    async with open_small() as store:
        assert bodies(store) == [0, 1, 2, 3, 50, 51]
        assert store.max_position == again.end


async def test_a_missing_log_file_costs_what_was_in_it(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    puts = await fill(open_small, make_message, 30)
    files.remove(segment(LOG, 4096))
    async with open_small() as store:
        kept = [n for n, put in enumerate(puts) if not 4096 <= put.log_position < 8192]
        assert bodies(store) == kept
        assert store.bounds("T", 0) == (0, 30)


async def test_the_log_is_cut_at_the_first_bad_record_and_what_follows_is_saved(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After a crash, where sectors were never written: a loss of power leaves that."""
    puts = await fill(open_small, make_message, 30)
    assert puts[-1].log_position > 2 * 4096
    bad = puts[14]
    start = bad.log_position // 4096 * 4096
    before = files.read_all(segment(LOG, start)) or b""
    change(files, segment(LOG, start), bad.log_position - start, bytes(LOST))
    files.remove(ROOT / "config" / "dispatchWatermark.json")
    files.write_all(ROOT / "abort", b"")
    caplog.set_level(logging.WARNING)
    async with open_small() as store:
        assert store.max_position == bad.log_position
        assert bodies(store) == list(range(14))
        found = store.query("T", "U20", max_count=1, begin_ms=0, end_ms=1 << 60)
        assert found.records == []
        again = store.put(make_message(b"14", unique_key="U14"))
        store.commit()
        assert (again.log_position, again.queue_offset) == (bad.log_position, 14)
        found = store.query("T", "U14", max_count=1, begin_ms=0, end_ms=1 << 60)
        assert len(found.records) == 1
    assert f"the log ends at {bad.log_position}" in caplog.text
    assert "nothing was written here" in caplog.text
    saved = ROOT / "commitlog-cut" / f"{bad.log_position:020d}"
    assert len(files.entries(saved)) == 3 - start // 4096
    copy = files.read_all(segment(saved, start)) or b""
    at = bad.log_position - start
    assert copy[at + LOST :] == before[at + LOST :].ljust(4096 - at - LOST, b"\0")
    assert copy[: at + LOST] == bytes(at + LOST)


@pytest.mark.parametrize(
    ("at", "data", "why"),
    [
        (0, b"\0\0\0\1", "impossible size 1"),
        (4, b"\1", "wrong magic number"),
        (28, b"\0\0\0\0\0\0\0\1", "belongs to position 1"),
        (84, b"\x7f", "impossible body length"),
        (0, b"\x7f", "impossible size"),
    ],
)
async def test_the_log_says_what_was_wrong_at_its_end(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    caplog: pytest.LogCaptureFixture,
    at: int,
    data: bytes,
    why: str,
) -> None:
    puts = await fill(open_small, make_message, 5)
    change(files, segment(LOG, 0), puts[4].log_position + at, data)
    files.remove(ROOT / "config" / "dispatchWatermark.json")
    files.write_all(ROOT / "abort", b"")
    async with open_small() as store:
        assert bodies(store) == [0, 1, 2, 3]
    assert why in caplog.text
    assert str(segment(LOG, 0)) in caplog.text


async def test_queues_behind_the_log_are_redone_from_the_record_at_their_end(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    # The trap of 5.3.3: the record that begins where the last unit ends is the first to redo.
    await fill(open_small, make_message, 30)
    for start in (0, 200, 400):
        files.remove(segment(QUEUE, start))
    async with open_small() as store:
        assert bodies(store) == list(range(30))
        assert store.put(make_message(b"30")).queue_offset == 30
    change(files, segment(QUEUE, 400), 100, bytes(100))
    async with open_small() as store:
        assert bodies(store) == list(range(31))


async def test_messages_missing_in_a_queue_are_found_when_a_later_one_is_redone(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_small() as store:
        for number in range(40):
            store.put(make_message(b"%d" % number, queue_id=number % 2))
        store.commit()
    other = ROOT / "consumequeue/T/1"
    for start in (0, 200):
        files.remove(segment(other, start))
    # The newest unit of queue 0 is gone as well, so that the redo begins before both ends.
    change(files, segment(QUEUE, 200), 180, bytes(20))
    files.remove(ROOT / "config" / "dispatchWatermark.json")  # which would have shown it at once
    async with open_small() as store:
        assert bodies(store) == list(range(0, 40, 2))
        assert bodies(store, "T", 1) == list(range(1, 40, 2))
    assert "lacked 18 units before 18: 18 were found" in caplog.text


async def test_what_is_gone_from_the_log_leaves_blank_units_that_nobody_reads(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    await fill(open_small, make_message, 35)
    files.remove(segment(LOG, 0))
    for entry in files.entries(QUEUE):
        files.remove(QUEUE / entry.name)
    async with open_small() as store:
        begin, end = store.bounds("T", 0)
        assert end == 35
        assert store.min_position == 4096
        message = decode_messages(store.get("T", 0, begin, max_count=1).records[0])[0]
        assert (message.log_position, message.queue_offset) == (4096, begin)
    name = segment(QUEUE, begin * 20 // 200 * 200)
    data = files.read_all(name) or b""
    blank = bytes(8) + BLANK_SIZE.to_bytes(4, "big") + bytes(8)
    assert data.startswith(blank * (begin % 10))
    async with open_small() as store:
        assert store.bounds("T", 0) == (begin, 35)
        assert store.get("T", 0, begin - 1, max_count=1).status is GetStatus.OFFSET_TOO_SMALL


async def test_queues_ahead_of_the_log_are_cut(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    puts = await fill(open_small, make_message, 30)
    files.remove(segment(LOG, 8192))
    async with open_small() as store:
        kept = sum(put.log_position < 8192 for put in puts)
        assert bodies(store) == list(range(kept))
        assert store.put(make_message()).queue_offset == kept


async def test_without_a_log_queues_and_index_are_moved_aside(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await fill(open_small, make_message, 5)
    files.remove(segment(LOG, 0))
    files.write_all(ROOT / "consumequeue/CURRENT", b"a RocksDB lives here as well")
    async with open_small() as store:
        assert store.bounds("T", 0) == (0, 0)
        put = store.put(make_message(unique_key="U0"))
        store.commit()
        assert (put.log_position, put.queue_offset) == (0, 0)
        assert store.query("T", "U0", max_count=9, begin_ms=0, end_ms=1 << 60).records
    (moved,) = [e.name for e in files.entries(ROOT) if e.name.startswith("consumequeue.aside")]
    assert files.exists(ROOT / moved / "CURRENT")
    assert files.exists(ROOT / moved / "T/0" / f"{0:020d}")
    assert "there is no commit log" in caplog.text


@pytest.mark.parametrize("directory", [LOG, QUEUE])
async def test_an_empty_last_file_is_what_a_crash_left_and_goes(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles, directory: Path
) -> None:
    await fill(open_small, make_message, 5)
    start = 4096 if directory == LOG else 200
    files.create(segment(directory, start), 0)
    async with open_small() as store:
        assert bodies(store) == list(range(5))
        assert not files.exists(segment(directory, start))


async def test_a_short_last_file_behind_a_whole_one_is_filled_up(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    await fill(open_small, make_message, 5)
    files.create(segment(LOG, 4096), 100)
    async with open_small() as store:
        assert bodies(store) == list(range(5))
        assert len(files.read_all(segment(LOG, 4096)) or b"") == 4096


@pytest.mark.parametrize(
    "name", ["commitlog/00000000000000000000", "consumequeue/T/0/00000000000000000000", "index/*"]
)
async def test_a_file_of_a_wrong_size_stops_the_start_and_is_named(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles, name: str
) -> None:
    await fill(open_small, make_message, 30)
    path = ROOT / name
    if name.endswith("*"):
        path = ROOT / "index" / files.entries(ROOT / "index")[0].name
    size = len(files.read_all(path) or b"")
    files.write_all(path, bytes(size + 1))
    with pytest.raises(StoreCorrupted, match=f"{path}: has {size + 1} bytes") as caught:
        async with open_small():
            pass
    assert caught.value.path == path
    assert not files.locked


async def test_another_file_size_in_the_settings_is_told_from_damage(
    open_small: OpenSmall, make_message: MakeMessage
) -> None:
    await fill(open_small, make_message, 3)
    with pytest.raises(
        StoreCorrupted, match="was the store made with mappedFileSizeCommitLog=4096"
    ) as caught:
        async with open_small(commit_log_file_bytes=8192):
            pass
    assert "may have been cut short" in str(caught.value)  # one file alone proves nothing
    assert "`repair_store`" in str(caught.value)


async def test_names_that_are_not_the_stores_are_left_alone(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    strangers = [
        LOG / "notes.txt",
        QUEUE / "backup.tar",
        ROOT / "consumequeue/CURRENT",
        ROOT / "consumequeue/T/old/00000000000000000000",
        ROOT / "index/readme",
        ROOT / "timerwheel",
        ROOT / "config/topicQueueMapping.json",
    ]
    await fill(open_small, make_message, 30)
    for path in strangers:
        files.write_all(path, b"not ours")
    await fill(open_small, make_message, 1)
    assert [files.read_all(path) for path in strangers] == [b"not ours"] * len(strangers)


async def test_a_crash_in_the_middle_of_a_recovery_is_a_crash(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    await fill(open_small, make_message, 30)
    change(files, segment(LOG, 4096), 0, bytes(LOST))
    files.remove(ROOT / "config" / "dispatchWatermark.json")
    files.write_all(ROOT / "abort", b"")
    for operation in range(12):
        files.crash_after = operation
        with pytest.raises(Crash):
            async with open_small(files):
                raise Crash
        files = files.reboot("kill")
    async with open_small(files) as store:
        assert store.max_position == 4096
        assert len(bodies(store)) == store.bounds("T", 0)[1]


async def test_only_the_newest_part_of_a_long_log_is_checked_after_a_clean_stop(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    puts = await fill(open_small, make_message, 30)
    change(files, segment(LOG, 4096), puts[13].log_position - 4096 + 100, b"\xff")
    monkeypatch.setattr("lanemq.storage.start._recovery.NORMAL_BYTES", 1000)
    async with open_small() as store:
        assert store.max_position == puts[-1].end
        assert store.statistics().damaged_pieces == 0
        for _ in range(2):  # what was not checked then is so when it is read
            assert bodies(store) == [n for n in range(30) if n != 13]
            assert store.statistics().damaged_pieces == 1
        assert store.record_at(puts[13].log_position) is None
    monkeypatch.undo()
    async with open_small() as store:
        assert store.statistics().damaged_pieces == 1
        assert bodies(store) == [n for n in range(30) if n != 13]


def test_a_small_store_is_described_by_its_settings(small_config: StoreConfig) -> None:
    assert small_config.commit_log_path == LOG
