"""Calls of an application's ``on_sent`` outside of the core, one after the other."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import final

import trio

from lanemq.local import get_logger

from .._errors import ClientClosed, LanemqError
from .._messages import Message, SendResult
from ..producer._on_sent import ForwardedOnSent, OnSent, in_on_sent
from ._executor import Executor
from ._portal import Portal
from ._portal_calls import Callback, try_again

LOGGER = get_logger("lanemq.sdk.producer")


@final
class SentCalls:
    """The calls that are due, in the order of the outcomes. All of them cost one hop together."""

    def __init__(self, portal: Portal, executor: Executor) -> None:
        self._portal = portal
        self._executor = executor
        self._due: deque[tuple[Callable[[], object], Callable[[], object]]] = deque()
        """The calls, each with what is to be called in the core when it has returned."""
        self._returned: list[Callable[[], object]] = []
        self._added = self._done = 0
        self._running = False  # or is to be tried again
        self._round = trio.Event()  # calls have returned

    def forward(self, on_sent: OnSent) -> ForwardedOnSent:
        """Wrap ``on_sent`` for the core."""

        def call(
            message: Message, outcome: SendResult | LanemqError, returned: Callable[[], object]
        ) -> None:
            self._due.append((partial(on_sent, message, outcome), returned))
            self._added += 1
            if not self._running:
                self._start()

        return ForwardedOnSent(call, self._wait)

    def _start(self) -> None:
        self._running = True
        callback = Callback[None](self._portal, self._call_all)
        callback.at_end(self._ended)
        try:
            self._executor.start(callback)
        except ClientClosed:  # its loop is gone
            self._returned += [returned for _, returned in self._due]
            self._due.clear()
            self._ended()
        except RuntimeError:  # no thread can be started at the moment
            LOGGER.exception("on_sent is called later")
            try_again(self._start)

    def _ended(self) -> None:
        self._running = False
        done, self._returned = self._returned, []
        self._done += len(done)
        for returned in done:
            returned()
        self._round.set()
        self._round = trio.Event()
        if self._due:
            self._start()

    async def _wait(self) -> None:
        so_far = self._added
        while self._done < so_far:
            await self._round.wait()

    def _call_all(self) -> None:
        in_on_sent.set(True)
        for _ in range(len(self._due)):  # whoever waits for them waits for none that come later
            call, returned = self._due.popleft()
            try:
                call()
            except Exception:  # the application's own
                LOGGER.exception("on_sent failed")
            finally:
                self._returned.append(returned)
