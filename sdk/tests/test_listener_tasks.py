"""The tasks of an event loop in which the asyncio face runs a listener."""

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from lanemq.sdk.aio._listener_tasks import ListenerTasks
from lanemq.sdk.aio._loop import running_loop
from lanemq.sdk.consumer.pool._outside_calls import OutsideCall

PATIENCE_S = 60.0


class Stand:
    """The tasks of one listener, without a core."""

    def __init__(self, function: Callable[..., object], limit: int) -> None:
        self.posts: list[Callable[[], object]] = []
        self.tasks = ListenerTasks(
            SimpleNamespace(post=self.posts.append, after_turn=lambda job: job()),  # type: ignore[arg-type]
            running_loop(),
            function,
            None,  # type: ignore[arg-type]
            ordered=False,
            concurrency=limit,
        )
        self.tasks.open(lambda: None)
        self.ended: asyncio.Queue[OutsideCall] = asyncio.Queue()
        self.tasks.ended = Ended(self.ended)

    def begin(self, *arguments: object) -> list[OutsideCall]:
        """Hand over a call for each argument."""
        consumer: Any = SimpleNamespace(
            held=SimpleNamespace(messages=SimpleNamespace(dropped=False))
        )
        batch: Any = None
        listed: list[Any] = list(arguments)
        calls = [OutsideCall(consumer, batch, argument) for argument in listed]
        self.tasks.begin(calls)
        return calls

    async def end(self, count: int) -> list[OutsideCall]:
        """Wait until so many calls have ended."""
        async with asyncio.timeout(PATIENCE_S):
            return [await self.ended.get() for _ in range(count)]


class Ended(deque[OutsideCall]):
    """The calls that have ended, handed on."""

    def __init__(self, calls: asyncio.Queue[OutsideCall]) -> None:
        super().__init__()
        self._calls = calls

    def append(self, call: OutsideCall) -> None:
        self._calls.put_nowait(call)


@asynccontextmanager
async def tasks_of(function: Callable[..., object], limit: int = 4) -> AsyncIterator[Stand]:
    stand = Stand(function, limit)
    yield stand
    stand.tasks.close()
    await asyncio.sleep(0)  # what is posted to the loop is done
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, left = await asyncio.wait(others, timeout=PATIENCE_S)
        assert not left


def test_a_listener_that_waits_runs_in_as_many_tasks_as_it_may() -> None:
    async def main() -> None:
        now = most = 0

        async def handle(number: int) -> int:
            nonlocal now, most
            now += 1
            most = max(most, now)
            for _ in range(20):
                await asyncio.sleep(0)
            now -= 1
            return number

        async with tasks_of(handle) as stand:
            stand.begin(*range(40))
            assert {call.value for call in await stand.end(40)} == set(range(40))
        assert most == 4

    asyncio.run(main())


def test_a_listener_that_never_waits_needs_one_task_and_one_wake_up_of_the_core() -> None:
    async def main() -> None:
        tasks = set()

        async def handle(number: int) -> None:
            tasks.add(asyncio.current_task())

        async with tasks_of(handle) as stand:
            for _ in range(3):
                stand.begin(*range(30))
                await stand.end(30)
            assert len(tasks) == 1
            assert len(stand.posts) == 1

    asyncio.run(main())


def test_a_listener_that_never_waits_lets_others_run() -> None:
    async def main() -> None:
        turns, seen = 0, []

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async def handle(number: int) -> None:
            seen.append(turns)

        other = asyncio.create_task(count())
        async with tasks_of(handle, 1) as stand:
            stand.begin(*range(1000))
            await stand.end(1000)
            other.cancel()
        assert len(set(seen)) > 10

    asyncio.run(main())


def test_a_call_does_not_see_what_another_left_in_its_context() -> None:
    tenant: contextvars.ContextVar[int] = contextvars.ContextVar("tenant", default=-1)

    async def main() -> None:
        seen = []

        async def handle(number: int) -> None:
            seen.append(tenant.get())
            token = tenant.set(number)
            if number < 3:
                tenant.reset(token)

        tenant.set(7)
        async with tasks_of(handle, 1) as stand:
            stand.begin(*range(6))
            await stand.end(6)
        assert seen == [7] * 6

    asyncio.run(main())


def test_a_call_that_is_cancelled_is_the_only_one() -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def handle(number: int) -> int:
            if number == 1:
                begun.set()
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            return number

        async with tasks_of(handle, 1) as stand:
            calls = stand.begin(0, 1, 2)
            stand.tasks.cancel(calls[2])  # has not begun: whoever wants it not takes it back
            await asyncio.wait_for(begun.wait(), PATIENCE_S)
            stand.tasks.cancel(calls[0])  # has ended
            stand.tasks.cancel(calls[1])
            ended = await stand.end(3)
        assert ended == calls
        assert [call.was_cancelled for call in ended] == [False, True, False]
        assert [call.value for call in ended] == [0, None, 2]

    asyncio.run(main())


def test_a_listener_that_cancels_its_own_task_cancels_no_other_call() -> None:
    async def main() -> None:
        async def handle(number: int) -> int:
            if number == 0:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()  # and returns before it takes effect
            else:
                await asyncio.sleep(0)
            return number

        async with tasks_of(handle, 1) as stand:
            stand.begin(0, 1)
            ended = await stand.end(2)
        assert [call.value for call in ended] == [0, 1]

    asyncio.run(main())


def test_a_timeout_within_a_listener_is_its_own() -> None:
    async def main() -> None:
        async def handle(number: int) -> str:
            try:
                async with asyncio.timeout(0.001):
                    await asyncio.Event().wait()
            except TimeoutError:
                return "late"
            return "never"

        async with tasks_of(handle, 1) as stand:
            stand.begin(0, 1)
            assert [call.value for call in await stand.end(2)] == ["late", "late"]

    asyncio.run(main())


def test_tasks_that_are_cancelled_as_they_idle_are_replaced() -> None:
    async def main() -> None:
        async def handle(number: int) -> int:
            return number

        async with tasks_of(handle, 1) as stand:
            for number in range(3):
                stand.begin(number)
                (call,) = await stand.end(1)
                assert call.value == number
                for task in asyncio.all_tasks() - {asyncio.current_task()}:
                    task.cancel()

    asyncio.run(main())


def test_a_plain_function_that_returns_no_awaitable_is_a_listener_too() -> None:
    async def main() -> None:
        async with tasks_of(lambda number: number, 1) as stand:
            stand.begin(1)
            assert [call.value for call in await stand.end(1)] == [1]

    asyncio.run(main())
