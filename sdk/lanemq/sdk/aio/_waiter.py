"""The wait of a task for the core."""

import asyncio
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, final

from .._errors import ClientClosed
from ..faces._portal_calls import Answer, Callback
from ._loop import Loop, running_loop

T = TypeVar("T")


@final
class Waiter(Answer[T]):
    """A task that waits for the outcome of one call, and does what the call asks of it.

    Whoever waits is woken on the loop it waits on, which need not be the one that began: a client
    may be closed on another.
    """

    def __init__(self) -> None:
        self._callbacks: deque[Callback[Any]] = deque()
        self._sleepers: deque[tuple[Loop, asyncio.Future[None]]] = deque()

    # The core's thread

    def deliver(self, value: T | None, error: BaseException | None) -> None:
        if not self._over:  # the first outcome counts: its reader may be in the middle of it
            self._value, self._error = value, error
            self._over = True
            self._rouse()

    def hand_over(self, callback: Callback[Any]) -> None:
        self._callbacks.append(callback)
        self._rouse()

    def _rouse(self) -> None:
        while self._sleepers:
            loop, sleeper = self._sleepers.popleft()
            with suppress(ClientClosed):  # nobody is left on that loop
                loop.post(partial(_wake, sleeper))

    # The loop

    async def wait(self) -> None:
        """Return when there is an outcome. What leaves it meanwhile was raised in this task."""
        while not self._over:
            while self._callbacks:
                await self._run(self._callbacks.popleft())
            sleeper = self._sleeper()
            if not (self._over or self._callbacks):
                await sleeper

    async def wait_idly(self) -> None:
        """Wait without doing anything for the call; what it asks for meanwhile is left."""
        while not self._over:
            sleeper = self._sleeper()
            if not self._over:
                await sleeper

    def _sleeper(self) -> asyncio.Future[None]:
        """Return what is woken by whatever comes next; look once more before waiting for it."""
        loop = running_loop()
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((loop, sleeper))
        return sleeper

    @staticmethod
    async def _run(callback: Callback[Any]) -> None:
        try:
            value = await callback.function()
        except Exception as error:  # the application's own, and it gets it back
            callback.finish(None, error)
        else:
            callback.finish(value, None)


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():  # as it is when its task was cancelled
        sleeper.set_result(None)
