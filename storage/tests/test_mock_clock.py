"""The mock clock of these tests waits for threads of its own run, and serves fixtures too."""

import time
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock

from lanemq.storage.disk._threads import in_thread


@pytest.fixture
async def opened(autojump_clock: MockClock) -> MockClock:
    return autojump_clock


async def test_a_test_runs_by_the_clock_that_a_fixture_of_it_asks_for(opened: MockClock) -> None:
    assert trio.lowlevel.current_clock() is opened


@pytest.mark.parametrize("run", [trio.to_thread.run_sync, in_thread])
async def test_the_clock_does_not_jump_over_what_a_thread_is_working_on(
    autojump_clock: MockClock, run: Callable[..., Awaitable[None]]
) -> None:
    began_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 1)
        await run(time.sleep, 0.05)
        assert trio.current_time() == began_s
        nursery.cancel_scope.cancel()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, time.sleep, 0.05)
        await trio.testing.wait_all_tasks_blocked()
        assert trio.current_time() == began_s
        with trio.move_on_after(3600):
            await trio.sleep_forever()
    assert trio.current_time() == began_s + 3600


def test_a_thread_that_a_broken_run_left_behind_holds_up_no_other() -> None:
    kept: list[object] = []

    async def broken() -> None:
        counted = trio.to_thread.run_sync(time.sleep, 0.0)
        counted.__await__().send(None)  # never gone on with, as by a run that is broken off
        kept.append(counted)

    async def whole() -> float:
        await trio.sleep(3600)
        return trio.current_time()

    try:
        trio.run(broken)
    except BaseException as error:  # whatever a run says of that
        kept.append(error)
    assert trio.run(whole, clock=MockClock(autojump_threshold=0)) >= 3600
