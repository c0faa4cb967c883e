"""How a task waits for the core."""

import asyncio
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar, final

from .._errors import ClientClosed
from .._portal_calls import Errand
from ._loop import Loop

T = TypeVar("T")


@final
class Waiter(Generic[T]):
    """A task that waits for the outcome of one call, and does what the call asks of it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._errands: deque[Errand[Any]] = deque()
        self._over = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._wake: asyncio.Future[None] | None = None

    # The core's thread

    def deliver(self, value: T | None, error: BaseException | None) -> None:
        with suppress(ClientClosed):  # nobody is left on that loop
            self._loop.post(partial(self._take, value, error))

    def hand_over(self, errand: Errand[Any]) -> None:
        with suppress(ClientClosed):
            self._loop.post(partial(self._take_errand, errand))

    # The loop

    def _take(self, value: T | None, error: BaseException | None) -> None:
        self._value, self._error, self._over = value, error, True
        self._rouse()

    def _take_errand(self, errand: Errand[Any]) -> None:
        self._errands.append(errand)
        self._rouse()

    def _rouse(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def wait(self) -> None:
        """Return when there is an outcome. What leaves it meanwhile was raised in this task."""
        while not self._over:
            while self._errands:
                await self._run(self._errands.popleft())
            await self._sleep()

    async def wait_idly(self) -> None:
        """The same, without doing anything for the call."""
        while not self._over:
            await self._sleep()

    async def _sleep(self) -> None:
        if not self._over and not self._errands:
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    @staticmethod
    async def _run(errand: Errand[Any]) -> None:
        try:
            value = await errand.function()
        except Exception as error:  # the application's own, and it gets it back
            errand.finish(None, error)
        else:
            errand.finish(value, None)

    @property
    def has_value(self) -> bool:
        return self._over and self._error is None

    def result(self) -> T:
        if self._error is not None:
            error, self._error = self._error, None  # or error, frame and waiter form a ring
            try:
                raise error
            finally:
                del error
        return self._value  # type: ignore[return-value]  # without an error there is a value
