"""Without a file descriptor the store waits for one; that is not a broken disk."""

import os
import resource
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.storage import FlushMode, Store, StoreConfig, StoreUnwritable, open_store
from lanemq.storage.disk._real_files import RealFiles
from lanemq.testkit.storage.stores import MakeMessage


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Let this process open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 10, hard))
    try:
        while True:
            try:
                taken.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                break
        yield
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    config = StoreConfig(
        root=tmp_path / "store",
        commit_log_file_bytes=4096,
        consume_queue_file_bytes=2000,
        max_hash_slots=100,
        max_index_entries=400,
        flush=FlushMode.SYNC,
    )
    async with open_store(config) as store:
        yield store


async def test_a_flush_waits_for_a_descriptor_and_then_is_done(
    store: Store, make_message: MakeMessage
) -> None:
    flushed = []

    async def put_and_wait() -> None:
        put = store.put(make_message(bytes(500)))
        store.commit()
        await store.flushed(put.end)
        flushed.append(put)

    await put_and_wait()
    async with trio.open_nursery() as nursery:
        # A new file's name is made durable through its directory, which has to be opened.
        for _ in range(7):
            nursery.start_soon(put_and_wait)
        await wait_all_tasks_blocked()
        with no_descriptor_left():
            for _ in range(3):
                await trio.sleep(0.05)
    assert len(flushed) == 8
    assert store.unwritable_reason == ""
    await put_and_wait()


async def test_a_write_without_a_descriptor_is_refused_and_the_next_one_taken(
    store: Store, make_message: MakeMessage
) -> None:
    store.put(make_message())
    store.commit()
    with no_descriptor_left():
        for _ in range(20):  # beyond the end of a file
            store.put(make_message(bytes(500)))
        with pytest.raises(StoreUnwritable, match="Too many open files"):
            store.commit()
    assert store.writable
    put = store.put(make_message())
    store.commit()
    assert put.queue_offset == 1


def test_idle_files_are_closed_where_no_descriptor_is_left(tmp_path: Path) -> None:
    files = RealFiles()
    opened = [files.create(tmp_path / str(number), 100) for number in range(20)]
    for one in opened[:10]:
        one.write(0, b"x")
    with no_descriptor_left():
        for one in opened:
            one.write(0, b"y")
    assert all(one.read(0, 1) == b"y" for one in opened)


async def test_what_is_made_is_for_its_user_alone_and_what_exists_keeps_its_modes(
    tmp_path: Path, autojump_clock: MockClock, make_message: MakeMessage
) -> None:
    root = tmp_path / "new" / "store"
    config = StoreConfig(root=root, commit_log_file_bytes=1 << 16)
    mask = os.umask(0o022)
    try:
        async with open_store(config) as store:
            store.put(make_message(keys="k"))
            store.commit()
            store.tables.consumer_offsets.put("g", "T", 0, 1)
            await trio.sleep(20)
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (root, *root.rglob("*"))}
        assert len(modes) > 10
        for path, mode in modes.items():
            assert mode == (0o700 if path.is_dir() else 0o600), path
        for path in modes:  # as Apache's broker makes them
            path.chmod(0o755 if path.is_dir() else 0o644)
        async with open_store(config) as store:
            store.put(make_message())
            store.commit()
            assert store.bounds("T", 0) == (0, 2)
        log = root / "commitlog" / f"{0:020d}"
        assert stat.S_IMODE(log.stat().st_mode) == 0o644
    finally:
        os.umask(mask)
