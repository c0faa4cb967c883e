"""The calls of a listener outside of the core: what threads and tasks have in common."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context

import trio

from lanemq.local import get_logger

from .._errors import ClientClosed
from ..consumer.pool._outside_calls import OutsideCall
from ._portal import Portal

LOGGER = get_logger("lanemq.sdk.listener")


class ListenerCalls:
    """The calls that wait for a listener, and those that have ended: a ``ListenerExecutor`` but
    for what runs them.

    What is written before a flag is looked at is seen by whoever clears the flag before looking.
    """

    def __init__(
        self,
        portal: Portal,
        function: Callable[..., object],
        leaving: trio.Event,
        *,
        ordered: bool,
        concurrency: int,
    ) -> None:
        self._portal = portal
        self._function = function
        self._leaving = leaving
        self.is_waiting_ordered = ordered
        self.limit = concurrency
        self.ended: deque[OutsideCall] = deque()
        self._calls: deque[OutsideCall] = deque()
        self._context = copy_context()
        self._told = False  # the core was told of ended calls, and has yet to look at them
        self._closed = False
        self._on_ended: Callable[[], object] = lambda: None

    # The core's thread

    def open(self, on_ended: Callable[[], object]) -> None:
        def look() -> None:
            self._told = False
            on_ended()

        self._on_ended = look

    def now_s(self) -> float:
        return time.perf_counter()

    def recall(self) -> list[OutsideCall]:
        found = []
        with suppress(IndexError):
            while True:
                found.append(self._calls.popleft())
        return found

    async def wait_for_leave(self) -> None:
        await self._leaving.wait()

    # Whatever runs calls

    def _tell(self) -> None:
        """Have the core look at the calls that have ended."""
        self._told = True
        try:
            self._portal.post(self._on_ended)
        except ClientClosed:
            LOGGER.info("%s ended after its client was closed", self._function)
        except BaseException:  # an interruption: the core may not know
            self._told = False
            raise
