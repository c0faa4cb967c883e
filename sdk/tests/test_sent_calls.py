"""Calls of on_sent outside of the core: how long others wait for them, and that they are made."""

from collections import deque
from collections.abc import Callable
from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from lanemq.sdk import Message, SendResult
from lanemq.sdk.faces._portal import Portal
from lanemq.sdk.faces._portal_calls import AGAIN_S, Callback
from lanemq.sdk.faces._sent_calls import SentCalls
from lanemq.testkit.sdk.clients import producer_of
from lanemq.testkit.sdk.cluster import FakeCluster

MESSAGE = Message(topic="T", body=b"x")
OUTCOME = cast("SendResult", None)


class Here:
    """A portal and an executor in one; a callback runs when the test says so."""

    over = is_closed = False
    cancel_grace_s = 0.0

    def __init__(self) -> None:
        self.begun: deque[Callback[Any]] = deque()
        self.failures = 0  # of starts that come next
        self.calls = SentCalls(cast("Portal", self), self)

    def post(self, job: Callable[[], object]) -> None:
        job()

    def start(self, callback: Callback[Any]) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("can't start new thread")
        self.begun.append(callback)

    def run_one(self) -> None:
        callback = self.begun.popleft()
        callback.context.run(callback.function)
        callback.finish(None, None)


async def test_whoever_waits_waits_for_no_call_that_comes_later(nursery: trio.Nursery) -> None:
    here, called, waited = Here(), list[int](), trio.Event()

    def on_sent(*_: object) -> None:
        called.append(len(called))
        if len(called) < 100:  # somebody posts steadily
            forwarded(MESSAGE, OUTCOME)

    forwarded = here.calls.forward(on_sent)
    forwarded(MESSAGE, OUTCOME)

    async def wait() -> None:
        await forwarded.wait()
        waited.set()

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    assert not waited.is_set()
    here.run_one()
    await wait_all_tasks_blocked()
    assert called == [0]
    assert waited.is_set()
    while here.begun:
        here.run_one()
    assert called == list(range(100))


async def test_what_on_sent_has_yet_to_be_called_for_takes_room(
    cluster: FakeCluster, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    here, called, posted = Here(), list[Message](), list[int]()
    on_sent = here.calls.forward(lambda message, _: called.append(message))
    async with (
        producer_of(cluster) as producer,
        producer.batching(linger_s=0, pending_messages=3) as sender,
    ):

        async def post() -> None:
            for number in range(5):
                await sender.post(MESSAGE, on_sent=on_sent)
                posted.append(number)

        nursery.start_soon(post)
        await trio.sleep(60)
        assert sender.pending == 0
        assert len(posted) == 3
        while len(called) < 5:
            here.run_one()
            await trio.sleep(1)
        assert len(posted) == 5


async def test_where_no_thread_can_be_started_on_sent_is_called_later(
    autojump_clock: MockClock, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    here, called, waited = Here(), list[int](), trio.Event()
    forwarded = here.calls.forward(lambda *_: called.append(len(called)))

    async def wait() -> None:
        await forwarded.wait()
        waited.set()

    async def is_called_later() -> bool:
        await trio.sleep(2.5 * AGAIN_S)
        assert not waited.is_set()
        here.run_one()
        await trio.sleep(0.1 * AGAIN_S)
        return waited.is_set()

    here.failures = 2
    forwarded(MESSAGE, OUTCOME)
    forwarded(MESSAGE, OUTCOME)
    nursery.start_soon(wait)
    assert await is_called_later()
    assert called == [0, 1]
    assert caplog.text.count("on_sent is called later") == 2

    forwarded(MESSAGE, OUTCOME)
    (callback,) = here.begun
    callback.context.run(callback.function)
    forwarded(MESSAGE, OUTCOME)  # it came late
    waited = trio.Event()
    nursery.start_soon(wait)
    here.failures = 1
    here.begun.clear()
    callback.finish(None, None)
    assert await is_called_later()
    assert called == [0, 1, 2, 3]
