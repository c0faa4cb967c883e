"""Calls outside of the core that take too long: they are told to stop, and not waited for."""

from collections.abc import Callable
from math import inf
from typing import final

import trio

from ..._tasks import first_of
from ...observe._log import get_logger
from ._outside_calls import ListenerExecutor, OutsideCall

LOGGER = get_logger("lanemq.sdk.listener")


@final
class LateCalls:
    """Stops calls of one listener.

    ``take_back`` settles the calls that have ended; ``abandon`` settles one that goes on.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        executor: ListenerExecutor,
        *,
        timeout_s: float,
        take_back: Callable[[], None],
        abandon: Callable[[OutsideCall], None],
    ) -> None:
        self._nursery = nursery
        self._executor = executor
        self._timeout_s = timeout_s
        self._take_back = take_back
        self._settle_abandoned = abandon

    def stop(self, call: OutsideCall) -> None:
        """Tell ``call`` to stop, and wait for it no longer than the executor allows."""
        call.is_late = call.is_special = True
        self._executor.cancel(call)
        if self._executor.is_waiting_ordered or self._executor.cancel_grace_s:
            self._nursery.start_soon(self._wait_out, call)
        else:
            self._abandon(call)

    async def _wait_out(self, call: OutsideCall) -> None:
        over = trio.Event()
        call.on_end = over.set
        if self._executor.is_waiting_ordered:
            await first_of(over.wait, self._executor.wait_for_leave)
        with trio.move_on_after(self._executor.cancel_grace_s):
            await over.wait()
        if not over.is_set():
            self._abandon(call)

    def _abandon(self, call: OutsideCall) -> None:
        call.is_abandoned = True
        self._settle_abandoned(call)

    async def watch(self) -> None:
        """Stop listeners that take too long; runs until cancelled."""
        executor = self._executor
        while True:
            # One that was stopped is not looked at again: it may take its time to end.
            begun_s = [call.begun_s for call in executor.running() if not call.is_late]
            oldest_s = min((begun for begun in begun_s if begun is not None), default=inf)
            now_s = executor.now_s()
            # A listener that starts after this look cannot be late before the next.
            await trio.sleep(max(min(oldest_s, now_s) + self._timeout_s - now_s, 0))
            self._take_back()
            now_s = executor.now_s()
            for call in executor.running():
                if call.begun_s is None or call.is_late or now_s - call.begun_s < self._timeout_s:
                    continue
                LOGGER.warning("the listener took too long on %s", call.batch)
                self.stop(call)
