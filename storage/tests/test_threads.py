"""A call in a thread: its result, its error, and a cancellation that waits for it."""

import threading

import pytest
import trio

from lanemq.storage.disk._threads import in_thread


async def test_what_a_call_returns_or_raises_comes_back() -> None:
    seen = []

    def divide(over: int, by: int) -> float:
        seen.append(threading.current_thread())
        return over / by

    assert await in_thread(divide, 6, 4) == 1.5
    with pytest.raises(ZeroDivisionError):
        await in_thread(divide, 1, 0)
    assert threading.main_thread() not in seen


async def test_a_cancellation_waits_for_the_call() -> None:
    goes_on, done = threading.Event(), []

    def work() -> str:
        goes_on.wait(10)
        done.append(True)
        return "done"

    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def cancel() -> None:
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
                goes_on.set()

            assert await in_thread(work) == "done"
    assert done == [True]


async def test_one_that_is_cancelled_already_is_not_made() -> None:
    done: list[bool] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        await in_thread(done.append, True)
    assert not done
