"""Listeners outside of the core that a task of the core waits for, as those with a codec do."""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import ClientClosed
from lanemq.sdk.faces._executor import ListenerGate
from lanemq.sdk.faces._portal import Portal
from lanemq.sdk.faces._portal_calls import AGAIN_S, Callback

CONCURRENCY = 2


class Here:
    """A portal and an executor in one; a callback runs when the test says so."""

    over = is_closed = False
    cancel_grace_s = 0.0

    def __init__(self) -> None:
        self.begun: deque[Callback[Any]] = deque()
        self.failures: list[BaseException] = []  # of starts that come next
        self.gate = ListenerGate(
            cast("Portal", self), self, trio.Event(), ordered=False, concurrency=CONCURRENCY
        )

    def post(self, job: Callable[[], object]) -> None:
        job()

    def start(self, callback: Callback[Any]) -> None:
        if self.failures:
            raise self.failures.pop()
        self.begun.append(callback)

    def run_one(self) -> None:
        callback = self.begun.popleft()
        callback.finish(callback.function(), None)


async def test_where_no_thread_can_be_started_a_listener_is_called_later(
    autojump_clock: MockClock, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    here, ended = Here(), list[int]()

    async def call(number: int) -> None:
        await here.gate._run(lambda: None)
        ended.append(number)

    here.failures = [RuntimeError("can't start new thread") for _ in range(2 * CONCURRENCY)]
    for number in range(3 * CONCURRENCY):
        nursery.start_soon(call, number)
    await trio.sleep(0.5 * AGAIN_S)
    assert not here.begun
    await trio.sleep(2 * AGAIN_S)
    for _ in range(3 * CONCURRENCY):
        assert len(here.begun) <= CONCURRENCY
        here.run_one()
        await wait_all_tasks_blocked()
    assert sorted(ended) == list(range(3 * CONCURRENCY))
    assert caplog.text.count("a listener is called later") == CONCURRENCY


@pytest.mark.parametrize(
    "failure", [RuntimeError("no thread"), MemoryError(), ClientClosed("loop")]
)
async def test_a_call_that_never_begins_keeps_nobody_s_place(
    autojump_clock: MockClock, nursery: trio.Nursery, failure: BaseException
) -> None:
    here, ended = Here(), list[int]()
    for _ in range(3 * CONCURRENCY):  # each stopped as by the end of its queue
        here.failures = [failure]
        with trio.move_on_after(0.5 * AGAIN_S), suppress(MemoryError):
            await here.gate._run(lambda: None)

    async def call(number: int) -> None:
        await here.gate._run(lambda: None)
        ended.append(number)

    for number in range(CONCURRENCY):
        nursery.start_soon(call, number)
    await wait_all_tasks_blocked()
    assert len(here.begun) == CONCURRENCY
    for _ in range(CONCURRENCY):
        here.run_one()
    await wait_all_tasks_blocked()
    assert sorted(ended) == list(range(CONCURRENCY))
