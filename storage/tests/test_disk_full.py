"""A disk that is full or fails: nothing is half stored, reads go on, writing comes back."""

import pytest
import trio

from lanemq.storage import GetStatus, StoreUnwritable
from lanemq.testkit.storage.batches import batch_of
from lanemq.testkit.storage.disk import SimulatedFiles
from lanemq.testkit.storage.stores import ROOT, MakeMessage, OpenSmall


@pytest.mark.parametrize("opened_s", [0, 30, 3600])
@pytest.mark.parametrize("cause", ["a full disk", "one above its limit"])
async def test_writing_comes_back_within_seconds_of_room(
    open_small: OpenSmall,
    make_message: MakeMessage,
    files: SimulatedFiles,
    opened_s: int,
    cause: str,
) -> None:
    """However long the store is open: cleanings, which look as well, are far apart."""
    async with open_small() as store:
        await trio.sleep(opened_s)
        if cause == "a full disk":
            files.space_bytes = 0
            store.put(make_message())
            with pytest.raises(StoreUnwritable):
                store.commit()
        else:
            files.used_ratio = 0.95
            await trio.sleep(100)
        await trio.sleep(40)
        assert store.unwritable_reason
        files.space_bytes, files.used_ratio = None, 0.5
        await trio.sleep(2)
        store.put(make_message())
        store.commit()


@pytest.mark.parametrize("space_bytes", [0, 1, 200, 500])
async def test_a_full_disk_takes_back_the_whole_commit(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles, space_bytes: int
) -> None:
    async with open_small() as store:
        kept = store.put(make_message())
        store.commit()
        files.space_bytes = space_bytes
        for queue_id in (0, 1, 0):
            store.put(make_message(bytes(200), queue_id=queue_id))
        with pytest.raises(StoreUnwritable, match="No space left on device"):
            store.commit()
        assert not store.writable
        assert "No space left" in store.unwritable_reason
        with pytest.raises(StoreUnwritable):
            store.put(make_message())
        with pytest.raises(StoreUnwritable):
            store.put_batch(batch_of([make_message()]))
        assert store.max_position == kept.end
        assert store.get("T", 0, 0, max_count=9).status is GetStatus.FOUND
        assert store.bounds("T", 1) == (0, 0)
        assert store.statistics().put_failed_total == 3
        data = files.read_all(ROOT / "commitlog" / f"{0:020d}") or b""
        assert not any(data[kept.end :])

        files.space_bytes = None
        await trio.sleep(120)
        assert store.unwritable_reason == ""
        put = store.put(make_message())
        store.commit()
        assert (put.log_position, put.queue_offset) == (kept.end, 1)
    async with open_small() as store:
        assert store.bounds("T", 0) == (0, 2)


async def test_a_commit_over_two_files_is_taken_back_in_both(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        first = store.put(make_message())
        store.commit()
        files.space_bytes = 3500 + 700
        for _ in range(3):
            store.put(make_message(bytes(1600)))
        with pytest.raises(StoreUnwritable):
            store.commit()
        files.space_bytes = None
        await trio.sleep(120)
        again = store.put(make_message())
        store.commit()
        assert again.log_position == first.end
    async with open_small() as store:
        assert store.bounds("T", 0) == (0, 2)


async def test_queues_that_cannot_be_written_keep_their_units_in_memory(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        for _ in range(20):
            store.put(make_message())
        store.commit()
        files.space_bytes = 0
        await trio.sleep(5)
        assert "queues or index cannot be written" in store.unwritable_reason
        assert len(store.get("T", 0, 0, max_count=32).records) == 20
        files.space_bytes = None
        await trio.sleep(120)
        assert store.writable
    async with open_small() as store:
        assert store.bounds("T", 0) == (0, 20)


async def test_a_disk_above_its_limit_takes_no_messages_until_it_is_below(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        files.used_ratio = 0.95
        assert store.disk_ratio() == 0.95
        await trio.sleep(100)
        assert store.unwritable_reason == "the disk is full to 95%"
        files.used_ratio = 0.5
        await trio.sleep(20)
        store.put(make_message())
        store.commit()


async def test_after_a_failed_sync_nothing_is_promised_and_the_next_start_is_one_after_a_crash(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        put = store.put(make_message())
        store.commit()
        files.sync_fails = True
        with pytest.raises(StoreUnwritable, match="failed to keep the commit log"):
            await store.flushed(put.end)
        assert not store.writable
        files.sync_fails = False
        await trio.sleep(300)
        assert not store.writable
        with pytest.raises(StoreUnwritable):
            await store.flushed(put.end)
        assert store.get("T", 0, 0, max_count=1).records
    assert files.exists(ROOT / "abort")
    async with open_small() as store:
        assert store.writable
        assert store.bounds("T", 0) == (0, 1)
    assert not files.exists(ROOT / "abort")


async def test_a_store_that_cannot_be_closed_keeps_its_abort_file(
    open_small: OpenSmall, make_message: MakeMessage, files: SimulatedFiles
) -> None:
    async with open_small() as store:
        store.put(make_message())
        store.commit()
        files.space_bytes = 0
    assert files.exists(ROOT / "abort")
    files.space_bytes = None
    async with open_small() as store:
        assert store.bounds("T", 0) == (0, 1)
