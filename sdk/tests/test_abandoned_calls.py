"""Values that calls of asyncio and of threads take, whose callers are cancelled or interrupted."""

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from typing import NoReturn

import pytest
import trio

from lanemq.sdk import ClientClosed
from lanemq.sdk.aio._bridge import Bridge as AioBridge
from lanemq.sdk.aio._loop import running_loop
from lanemq.sdk.blocking._bridge import Bridge
from lanemq.sdk.blocking._waiter import Waiter
from lanemq.sdk.faces._portal import Portal, find_portal
from lanemq.sdk.faces._portal_calls import Call
from lanemq.testkit.reading_time import slowness

PATIENCE_S = 30.0


class Core:
    """A function of the core that takes something, though it is cancelled."""

    def __init__(self) -> None:
        self.given_back: list[str] = []
        self.has_begun = threading.Event()
        self.was_returned = threading.Event()
        self.may_end = trio.Event()

    async def take(self) -> str:
        self.has_begun.set()
        with trio.CancelScope(shield=True):
            await self.may_end.wait()
        return "taken"

    async def take_at_once(self) -> str:
        self.has_begun.set()
        return "taken"

    def give_back(self, value: str) -> None:
        self.given_back.append(value)
        self.was_returned.set()


@pytest.fixture
def portal() -> Iterator[Portal]:
    portal = find_portal()
    portal.post(portal.admit)
    yield portal
    ended = threading.Event()
    portal.at_end(ended.set)
    portal.post(portal.release)
    assert ended.wait(PATIENCE_S * slowness())


async def closed() -> None:
    raise AssertionError("nobody closes it")


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def aio_bridge(portal: Portal) -> AioBridge:
    return AioBridge(portal, running_loop(), trio.Event, closed)


@pytest.mark.parametrize("cancellations", [1, 2, 5])
def test_what_a_cancelled_task_took_is_given_back_however_often_it_is_cancelled(
    portal: Portal, cancellations: int
) -> None:
    core = Core()

    async def main() -> None:
        task = asyncio.create_task(aio_bridge(portal).take(core.give_back, core.take))
        await turns()
        assert core.has_begun.wait(PATIENCE_S * slowness())
        for _ in range(cancellations):
            task.cancel()
            await turns()
        assert task.done() is (cancellations > 1)
        portal.post(core.may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert core.was_returned.wait(PATIENCE_S * slowness())
    assert core.given_back == ["taken"]


@pytest.mark.parametrize("cancellations", [1, 2])
def test_a_value_that_arrives_together_with_a_cancellation_is_given_back(
    portal: Portal, cancellations: int
) -> None:
    core = Core()

    async def main() -> None:
        waits = threading.Event()
        portal.post(waits.wait)  # else the value may be there before the task waits for it
        task = asyncio.create_task(aio_bridge(portal).take(core.give_back, core.take_at_once))
        await turns(1)
        waits.set()
        assert core.has_begun.wait(PATIENCE_S * slowness())
        answered = threading.Event()
        portal.post(answered.set)
        assert answered.wait(PATIENCE_S * slowness())  # while this waits, the task takes no step
        for _ in range(cancellations):
            task.cancel()
            await turns(1)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert core.was_returned.wait(PATIENCE_S * slowness())
    assert core.given_back == ["taken"]


def test_what_a_thread_took_is_given_back_though_it_is_interrupted_twice(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = Core()

    def interrupt(waiter: object) -> NoReturn:
        assert core.has_begun.wait(PATIENCE_S * slowness())
        raise KeyboardInterrupt

    monkeypatch.setattr(Waiter, "wait", interrupt)
    monkeypatch.setattr(Waiter, "wait_idly", interrupt)
    bridge = Bridge(portal, trio.Event, lambda: None)
    with pytest.raises(KeyboardInterrupt):
        bridge.take(core.give_back, core.take)
    assert core.given_back == []
    portal.post(core.may_end.set)
    assert core.was_returned.wait(PATIENCE_S * slowness())
    assert core.given_back == ["taken"]


def test_a_call_that_is_abandoned_before_it_has_begun_takes_nothing(portal: Portal) -> None:
    core = Core()
    outcome: Waiter[str] = Waiter()
    returned: Waiter[None] = Waiter()
    call: Call[str] = Call(portal, core.take_at_once, outcome)
    portal.post(partial(call.abandon, core.give_back, returned))
    returned.wait()
    with pytest.raises(ClientClosed):
        outcome.result()
    assert core.given_back == []
