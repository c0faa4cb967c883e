"""A task that runs due work, and waits for the next due time or until an earlier one is set.

Due times are times of day: the clock may be set forward or back while the task waits.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, final

import trio
from attrs import define, field

from lanemq.storage import wait_towards
from lanemq.wire import Refused

RETRY_S: Final = 1.0
"""Seconds of pause after the store refused a due message."""


@final
@define(eq=False, kw_only=True, repr=False)
class DueTask:
    """A task over ``work``, which does all that is due and returns when the next thing is.

    ``work`` returns None where nothing waits, and raises ``Refused`` while the store takes nothing.
    """

    _work: Callable[[], Awaitable[int | None]]
    _logger: logging.Logger
    _now_ms: Callable[[], int]
    _wake: trio.Event = field(init=False, factory=trio.Event)
    _rested: trio.Event = field(init=False, factory=trio.Event)
    _sleeps_until_ms: int | None = field(init=False, default=None)

    async def run(self) -> None:
        """Deliver everything when it is due, until cancelled."""
        while True:
            # Before the look: messages that come meanwhile may be due before those it found.
            self._wake, self._sleeps_until_ms = trio.Event(), None
            try:
                due_ms = await self._work()
            except Refused as error:
                self._logger.warning("due messages have to wait: %s", error.remark)
                await trio.sleep(RETRY_S)  # there is no notice when the store takes messages again
                continue
            if self._wake.is_set():
                continue
            self._sleeps_until_ms = due_ms
            self._rested.set()
            await wait_towards(due_ms, self._now_ms, self._wake)

    def wake(self) -> None:
        """Make the task look at new messages."""
        self._wake.set()

    def wake_before(self, due_ms: int) -> None:
        """Make the task look at new messages, if it would sleep beyond ``due_ms``."""
        if self._sleeps_until_ms is None or due_ms < self._sleeps_until_ms:
            self._wake.set()

    async def look_again(self) -> None:
        """Do everything that a moved clock makes due; returns once that is done."""
        if self._rested.is_set():  # otherwise another caller waits for the same
            self._rested = trio.Event()
        self._wake.set()
        await self._rested.wait()
