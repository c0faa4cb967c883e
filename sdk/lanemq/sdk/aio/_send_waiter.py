"""The wait of a task for a send."""

import asyncio
from typing import final

from .._messages import SendResult
from ..faces._portal import Portal
from ..faces._portal_calls import Answer, Callback
from ._loop import Loop


@final
class SendWaiter(Answer[SendResult]):
    """A task that waits for the outcome of one send, and is woken together with others."""

    def __init__(self, portal: Portal, loop: Loop) -> None:
        self._portal = portal
        self._loop = loop
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def deliver(self, value: SendResult | None, error: BaseException | None) -> None:
        self._value, self._error, self._over = value, error, True
        self._loop.post_after_turn(self._portal, self._wake)

    def hand_over(self, callback: Callback[object]) -> None:
        raise AssertionError("no send calls a function where it is waited for")

    def _wake(self) -> None:
        if not self._future.done():  # as it is when its task was cancelled
            self._future.set_result(None)

    async def wait(self) -> None:
        """Return when there is an outcome. What leaves it meanwhile was raised in this task."""
        await self._future

    async def wait_idly(self) -> None:
        """Wait once more, after a cancellation."""
        while not self._over:
            self._future = asyncio.get_running_loop().create_future()
            if not self._over:
                await self._future
