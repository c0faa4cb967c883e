"""A ttl lasts as long as it says, however the broker's clock is set, and over restarts."""

import random
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from lanemq.proxy.broker.kv import _register
from lanemq.storage import KvEngine
from lanemq.storage.tools import verify_kv
from lanemq.testkit.proxy.keys import Keys, keys_of, result
from lanemq.wire.kv import Action, OpType, Step

BASE_MS = 1_700_000_000_000
HOUR_S = 3600.0
LATE_S = 0.6
"""Seconds after which an entry whose time has come is gone: two looks of the broker."""
SLOWER = 1 / 0.9


class Clock:
    """A time of day that goes with trio's clock, and is set besides."""

    def __init__(self, ahead_s: float = 0.0) -> None:
        self.ahead_s = ahead_s

    def __call__(self) -> int:
        return BASE_MS + round((trio.current_time() + self.ahead_s) * 1000)


@asynccontextmanager
async def opened(root: Path, clock: Callable[[], int]) -> AsyncIterator[Keys]:
    async with keys_of(root, kv_engine=KvEngine.MEMORY, now_ms=clock) as (keys, _):
        await trio.sleep(0.3)  # a look at the clock
        yield keys


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S, 30 * 24 * HOUR_S, -30 * 24 * HOUR_S, 0, 5, -5])
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_step_frees_nothing_early_and_holds_nothing_for_its_length(
    tmp_path: Path, autojump_clock: MockClock, step_s: float, restarts: bool
) -> None:
    clock = Clock()
    async with opened(tmp_path, clock) as keys:
        await keys.put(b"lock", b"holder", 30_000)
        put_s = trio.current_time()
        await trio.sleep(5)
        clock.ahead_s += step_s
        await trio.sleep(5)
        if not restarts:
            await check(keys, put_s)
        await keys.put(b"noticed", b"")
    async with opened(tmp_path, clock) as keys:
        if restarts:
            await check(keys, put_s)
        # And one that is put after the step.
        await keys.put(b"lock", b"other", 30_000)
        await check(keys, trio.current_time())
        await keys.put(b"n", b"")


async def check(keys: Keys, put_s: float) -> None:
    """The lock of 30 s that was put then is there as long as that, and not much longer."""
    await trio.sleep_until(put_s + 30 - 0.3)
    assert await keys.get(b"lock") is not None
    await trio.sleep_until(put_s + 30 * SLOWER + LATE_S)
    assert await keys.get(b"lock") is None


@pytest.mark.parametrize("ahead_s", [HOUR_S, 365 * 24 * HOUR_S])
async def test_a_log_of_a_clock_that_was_ahead_does_not_stop_time(
    tmp_path: Path, autojump_clock: MockClock, ahead_s: float
) -> None:
    async with opened(tmp_path, Clock(ahead_s)) as keys:
        await keys.put(b"old", b"", 60_000)
        await keys.put(b"lock", b"dead", 30_000)
        put_s = trio.current_time()
    async with opened(tmp_path, Clock()) as keys:  # the machine came up with its clock set right
        await check(keys, put_s)
        await trio.sleep(60)
        assert await keys.get(b"old") is None
        before = (await keys.status()).clock_ms - Clock()()
        await trio.sleep(HOUR_S)
        await keys.put(b"n", b"")
        after = (await keys.status()).clock_ms - Clock()()
        assert after <= before - 300_000  # it comes nearer, by six minutes an hour


async def test_what_has_ended_while_a_broker_was_away_is_gone_at_once(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    async with opened(tmp_path, clock) as keys:
        await keys.put(b"lock", b"dead", 30_000)
        await keys.put(b"stays", b"", 300_000)
    await trio.sleep(60)
    monkeypatch.setattr(_register, "TICK_S", 3600.0)  # there is one look, at once
    async with opened(tmp_path, clock) as keys:
        await trio.sleep(1)
        assert await keys.get(b"lock") is None
        assert await keys.get(b"stays") is not None


async def test_a_log_that_is_behind_leaps_once_nothing_can_expire(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    clock = Clock()
    async with opened(tmp_path, clock) as keys:
        await keys.put(b"lock", b"", 30_000)
        clock.ahead_s += HOUR_S
        await trio.sleep(1)
        await keys.put(b"n", b"")
        assert (await keys.status()).clock_ms < clock() - HOUR_S * 900
        await trio.sleep(31)
        await keys.put(b"n", b"")
        assert abs((await keys.status()).clock_ms - clock()) < 1000


@pytest.mark.parametrize("seed", range(6))
async def test_any_steps_and_restarts_leave_ttls_and_a_redo_makes_the_same(
    tmp_path: Path, autojump_clock: MockClock, seed: int
) -> None:
    rng = random.Random(seed)
    clock = Clock()
    until: dict[bytes, tuple[float, float]] = {}

    for run in range(4):
        async with opened(tmp_path, clock) as keys:
            for number in range(12):
                action = rng.randrange(4)
                if action == 0:
                    clock.ahead_s += rng.choice([-1, 1]) * rng.choice([0.05, 1, 60, HOUR_S])
                    await trio.sleep(0.3)
                elif action == 1:
                    await trio.sleep(rng.choice([0.5, 3, 20]))
                key, ttl_s = b"%d.%d" % (run, number), rng.choice([2, 10, 45])
                before_s = trio.current_time()
                step = Step(key, Action.PUT, b"v", ttl_s * 1000)
                assert result(await keys.write(OpType.BATCH, step)).done
                until[key] = before_s + ttl_s, trio.current_time() + ttl_s * SLOWER
                await look(keys, until)
            await trio.sleep(100)  # everything expires
            await keys.put(b"last", b"")
            found = (await keys.status()).state_hash
    assert verify_kv(tmp_path).is_sound
    shutil.rmtree(tmp_path / "kv")
    async with opened(tmp_path, clock) as keys:
        assert (await keys.status()).state_hash == found


async def look(keys: Keys, until: dict[bytes, tuple[float, float]]) -> None:
    """Every entry is there in its time, and gone after it."""
    for key, (early_s, late_s) in list(until.items()):
        now_s = trio.current_time()
        entry = await keys.get(key)
        # A clock that is set by less than a step's 0.2 s is followed.
        if now_s < early_s - 0.5:
            assert entry is not None, key
        if now_s > late_s + LATE_S:
            assert entry is None, key
            del until[key]
