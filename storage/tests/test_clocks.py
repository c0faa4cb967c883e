"""The tests' count of threads at work belongs to one run, whatever its clock is equal to."""

import gc
from collections.abc import Callable

import trio
from trio._core._run import SystemClock


def test_runs_with_equal_clocks_count_their_threads_apart() -> None:
    """Hypothesis repeats trio's random numbers, so the clocks of its examples are equal."""

    async def in_thread(work: Callable[[], bool]) -> bool:
        return await trio.to_thread.run_sync(work)

    former: list[SystemClock] = [SystemClock(offset=1.0)]

    def forget_the_former_run() -> bool:
        former.clear()
        gc.collect()
        return True

    trio.run(in_thread, bool, clock=former[0])
    assert trio.run(in_thread, forget_the_former_run, clock=SystemClock(offset=1.0))
