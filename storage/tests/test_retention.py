"""Retention: the files that go, their times, and what goes with them."""

import errno
import os
from pathlib import Path

import pytest
import trio

from lanemq.storage import ConfigInvalid, GetStatus, Store, StoreConfig
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.stores import ROOT, MakeMessage, OpenSmall

LOG = ROOT / "commitlog"
ALL_HOURS = ";".join(str(hour) for hour in range(24))
RESERVED_S = 360  # kept short: the store's tasks run many times a second
RESERVED_HOURS = RESERVED_S / 3600


def log_files(files: SimulatedFiles) -> list[int]:
    return [int(entry.name) for entry in files.entries(LOG)]


async def fill(store: Store, make_message: MakeMessage, count: int = 60) -> None:
    """Four messages of queue 0, 0, 0 and 1 in about 1400 bytes of log."""
    for number in range(count):
        queue_id = number % 4 == 3
        store.put(make_message(bytes(200), queue_id=int(queue_id), unique_key=f"U{number}"))
        store.commit()
    await trio.sleep(2)


async def test_old_files_go_at_their_hour_but_never_the_one_in_use(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small(delete_when=ALL_HOURS, file_reserved_hours=RESERVED_HOURS) as store:
        await fill(store, make_message)
        before = log_files(files)
        assert len(before) > 4
        await trio.sleep(RESERVED_S - 20)
        assert log_files(files) == before
        await trio.sleep(40)
        in_use = store.max_position // 4096 * 4096
        assert log_files(files) == [start for start in before if start >= in_use]
        assert store.min_position == in_use

        begin, end = store.bounds("T", 0)
        assert end == 45
        assert begin > 0
        got = store.get("T", 0, begin, max_count=1)
        assert got.status is GetStatus.FOUND
        assert store.get("T", 0, begin - 1, max_count=1).status is GetStatus.OFFSET_TOO_SMALL
        assert store.units("T", 0, begin, 1)[0].log_position >= in_use
        assert store.record_at(0) is None
        found = store.query("T", "U0", max_count=1, begin_ms=0, end_ms=1 << 60)
        assert found.records == []
        assert int(files.entries(ROOT / "consumequeue/T/0")[0].name) == begin * 20 // 200 * 200
        bounds = {queue: store.bounds(*queue) for queue in store.queues()}
    async with open_small() as store:
        assert {queue: store.bounds(*queue) for queue in store.queues()} == bounds


async def test_outside_its_hours_old_files_stay_until_the_disk_fills_up(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small(delete_when="", file_reserved_hours=RESERVED_HOURS) as store:
        await fill(store, make_message)
        before = log_files(files)
        await trio.sleep(2 * RESERVED_S)
        assert log_files(files) == before
        files.used_ratio = 0.76
        await trio.sleep(11)
        assert len(log_files(files)) == 2


async def test_young_files_go_from_a_disk_that_is_too_full_only_if_that_is_allowed(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    files.used_ratio = 0.86
    async with open_small(clean_forcibly=False) as store:
        await fill(store, make_message)
        before = log_files(files)
        await trio.sleep(100)
        assert log_files(files) == before
    async with open_small() as store:
        await trio.sleep(100)
        assert len(log_files(files)) == 2
        assert store.bounds("T", 0)[1] == 45


async def test_files_go_when_somebody_asks_for_it(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small(delete_when="", file_reserved_hours=0) as store:
        await fill(store, make_message)
        await trio.sleep(70)
        before = log_files(files)
        store.delete_expired_files()
        await trio.sleep(11)
        assert len(log_files(files)) < len(before)


async def test_queues_begin_with_the_log_also_where_a_file_could_not_be_removed(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_small(delete_when="", file_reserved_hours=0) as store:
        await fill(store, make_message)
        await trio.sleep(70)
        stays, remove = log_files(files)[2], files.remove

        def refuse(path: Path) -> None:
            if path.parent == LOG and int(path.name) == stays:
                raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            remove(path)

        monkeypatch.setattr(files, "remove", refuse)
        store.delete_expired_files()
        await trio.sleep(60)
        assert store.min_position == stays
        begin, _ = store.bounds("T", 0)
        assert begin > 0
        assert store.units("T", 0, begin, 1)[0].log_position >= stays


async def test_ten_files_go_in_one_run(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small(file_reserved_hours=0, delete_when="", first_clean_s=5) as store:
        await fill(store, make_message, 200)
        before = len(log_files(files))
        store.delete_expired_files()
        await trio.sleep(4.5)
        assert len(log_files(files)) == before - 10


async def test_a_queue_without_new_messages_keeps_its_end(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small(delete_when=ALL_HOURS, file_reserved_hours=RESERVED_HOURS) as store:
        for _ in range(25):
            store.put(make_message(topic="quiet"))
        store.commit()
        await fill(store, make_message)
        await trio.sleep(2 * RESERVED_S)
        assert store.bounds("quiet", 0) == (25, 25)
        assert store.get("quiet", 0, 3, max_count=1).next_offset == 25
        assert store.earliest_time_ms("quiet", 0) == -1
        assert len(files.entries(ROOT / "consumequeue/quiet/0")) == 1
    async with open_small() as store:
        assert store.bounds("quiet", 0) == (25, 25)
        assert store.put(make_message(topic="quiet")).queue_offset == 25


@pytest.mark.parametrize("hours", ["24", "x", "4;-1"])
def test_hours_that_no_day_has_are_refused(hours: str) -> None:
    with pytest.raises(ConfigInvalid, match="deleteWhen"):
        StoreConfig(root=ROOT, delete_when=hours)


@pytest.mark.parametrize("levels", ["1", "1x", "s", "1s 2", "", " "])
def test_delay_levels_that_are_no_times_are_refused(levels: str) -> None:
    with pytest.raises(ConfigInvalid, match="messageDelayLevel"):
        StoreConfig(root=ROOT, delay_levels=levels)


def test_sizes_are_above_zero_and_queue_files_hold_whole_units() -> None:
    with pytest.raises(ConfigInvalid, match="commit_log_file_bytes is 0"):
        StoreConfig(root=ROOT, commit_log_file_bytes=0)
    assert StoreConfig(root=ROOT, consume_queue_file_bytes=101).consume_queue_file_bytes == 120
