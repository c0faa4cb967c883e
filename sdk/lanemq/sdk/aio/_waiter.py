"""The wait of a task for the core."""

import asyncio
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, final

from .._errors import ClientClosed
from ..faces._portal_calls import Answer, Callback
from ._loop import Loop

T = TypeVar("T")


@final
class Waiter(Answer[T]):
    """A task that waits for the outcome of one call, and does what the call asks of it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._callbacks: deque[Callback[Any]] = deque()
        self._sleepers: list[asyncio.Future[None]] = []

    # The core's thread

    def deliver(self, value: T | None, error: BaseException | None) -> None:
        with suppress(ClientClosed):  # nobody is left on that loop
            self._loop.post(partial(self._take, value, error))

    def hand_over(self, callback: Callback[Any]) -> None:
        with suppress(ClientClosed):
            self._loop.post(partial(self._take_callback, callback))

    # The loop

    def _take(self, value: T | None, error: BaseException | None) -> None:
        self._value, self._error, self._over = value, error, True
        self._rouse()

    def _take_callback(self, callback: Callback[Any]) -> None:
        self._callbacks.append(callback)
        self._rouse()

    def _rouse(self) -> None:
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if not sleeper.done():  # as it is when its task was cancelled
                sleeper.set_result(None)

    async def wait(self) -> None:
        """Return when there is an outcome. What leaves it meanwhile was raised in this task."""
        while not self._over:
            while self._callbacks:
                await self._run(self._callbacks.popleft())
            if not self._over:
                await self._sleep()

    async def wait_idly(self) -> None:
        """Wait without doing anything for the call; what it asks for meanwhile is left."""
        while not self._over:
            await self._sleep()

    async def _sleep(self) -> None:
        """Wait until something has come."""
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        await sleeper

    @staticmethod
    async def _run(callback: Callback[Any]) -> None:
        try:
            value = await callback.function()
        except Exception as error:  # the application's own, and it gets it back
            callback.finish(None, error)
        else:
            callback.finish(value, None)
