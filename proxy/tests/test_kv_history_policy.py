"""Histories of keys are compacted by the settings, and not further."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from lanemq.storage import KvEngine
from lanemq.testkit.proxy.keys import SUCCESS, Keys, keys_of
from lanemq.testkit.storage.kv import sizes_read
from lanemq.wire import RequestCode as Code
from lanemq.wire import ResponseCode
from lanemq.wire.kv import Action, OpType, RangePage, Step, decode_answer

COMPACTED = ResponseCode.KV_COMPACTED


def now_ms() -> int:
    """A time of day that goes with trio's clock."""
    return 1_700_000_000_000 + int(trio.current_time() * 1000)


@asynccontextmanager
async def opened(root: Path, **settings: Any) -> AsyncIterator[Keys]:  # noqa: ANN401
    async with keys_of(root, kv_engine=KvEngine.MEMORY, now_ms=now_ms, **settings) as (keys, _):
        yield keys


async def value_at(keys: Keys, revision: int) -> int | None:
    """Return the number in the entry ``k`` at a revision; None if that is no longer known."""
    answer = await keys.ask(Code.KV_RANGE, b"", revision=revision)
    if answer.code == COMPACTED:
        assert (await keys.watch(revision)).code == COMPACTED
        return None
    assert answer.code == SUCCESS, answer
    (entry,) = decode_answer(answer.body, RangePage).entries
    return int(entry.value)


async def test_so_many_revisions_of_history_are_kept(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with opened(tmp_path, kv_history_revisions=20) as keys:
        for number in range(100):
            assert (await keys.put(b"k", b"%d" % number)).code == SUCCESS
        assert await value_at(keys, 1) == 0
        await trio.sleep(15)
        assert await value_at(keys, 79) is None
        assert await value_at(keys, 80) == 79
        status = await keys.status()
        assert (status.position, status.changes_from) == (101, 80)
        await trio.sleep(100)  # nothing more is forgotten while nothing is written
        assert (await keys.status()).position == 101
        assert await value_at(keys, 80) == 79


async def test_history_up_to_an_age_is_kept(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with opened(tmp_path, kv_history_seconds=200) as keys:
        for number in range(30):
            assert (await keys.put(b"k", b"%d" % number)).code == SUCCESS
            await trio.sleep(20)
        # The puts of that time, and what was there before these.
        assert await value_at(keys, 15) is None
        begin = (await keys.status()).changes_from
        first = await value_at(keys, begin)
        assert first is not None
        assert 200 <= 600 - 20 * first <= 200 + 20 + 20 + 10  # a tenth, the next put, a look
        await trio.sleep(300)
        status = await keys.status()
        assert status.changes == 0
        await trio.sleep(200)
        assert (await keys.status()).position == status.position


async def test_an_age_is_looked_for_without_reading_values(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with opened(tmp_path, kv_history_seconds=200) as keys:
        for number in range(30):
            assert (await keys.put(b"k", b"%050000d" % number)).code == SUCCESS
            await trio.sleep(5)
        with sizes_read() as sizes:
            await trio.sleep(150)
        status = await keys.status()
        assert 10 < status.changes_from < status.position
    # Each look of ten seconds reads the first time, and halves what is left.
    assert 0 < len(sizes) <= 15 * 2 * 7
    assert max(sizes) < 1000


async def test_without_the_settings_history_is_kept(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with opened(tmp_path) as keys:
        for number in range(100):
            assert (await keys.put(b"k", b"%d" % number)).code == SUCCESS
        await trio.sleep(100)
        assert await value_at(keys, 1) == 0


@pytest.mark.parametrize("is_upgraded", [False, True])
async def test_history_makes_room_in_memory_before_writes_are_refused(
    tmp_path: Path, autojump_clock: MockClock, is_upgraded: bool
) -> None:
    """Nothing but the changes grows; a store of an earlier version may have too many at once."""
    limit_bytes = (64 if is_upgraded else 1) << 20
    async with opened(tmp_path, kv_memory_max_bytes=limit_bytes) as keys:
        for number in range(60):
            steps = (Step(b"k%d" % key, Action.PUT, b"%d" % number) for key in range(200))
            assert (await keys.write(OpType.BATCH, *steps)).code == SUCCESS
            await trio.sleep(3)
    async with opened(tmp_path, kv_memory_max_bytes=1 << 20) as keys:
        await trio.sleep(30)
        assert (await keys.put(b"k0", b"0")).code == SUCCESS
        status = await keys.status()
        assert 1000 < status.changes < 5000
        assert status.entries == 200
        before = status.position
        await trio.sleep(100)
        assert (await keys.status()).position == before, "and no more than that"


@pytest.mark.parametrize("revisions", [1, 2, 9, 10, 11, 100])
async def test_a_history_is_compacted_once_for_a_tenth_more(
    tmp_path: Path, autojump_clock: MockClock, revisions: int
) -> None:
    """The record of a compaction is a revision, too: it leads to no other."""
    async with opened(tmp_path, kv_history_revisions=revisions) as keys:
        for number in range(2 * revisions + 5):
            assert (await keys.put(b"k", b"%d" % number)).code == SUCCESS
        await trio.sleep(60)
        status = await keys.status()
        assert status.position == 2 * revisions + 6
        assert status.changes_from == revisions + 5
