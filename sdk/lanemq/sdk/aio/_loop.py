"""An event loop, seen from the core's thread: a place for an application's functions.

A loop that is slow, or gone, holds up nobody in the core.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, final
from weakref import WeakKeyDictionary, ref

from .._errors import ClientClosed, WrongUse
from ..faces._portal import Portal
from ..faces._portal_calls import Callback

# What a task that was cancelled gets to end, while the core waits with what it was doing.
CANCEL_GRACE_S = 1.0


@final
class Loop:
    """An event loop, from outside: a place for an application's functions."""

    cancel_grace_s = CANCEL_GRACE_S

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)  # nobody but its owner keeps it
        self._inbox: deque[Callable[[], object]] = deque()
        self._drain_due = False
        self._tasks: dict[Callback[Any], asyncio.Task[None]] = {}

    @property
    def is_closed(self) -> bool:
        loop = self._loop()
        return loop is None or loop.is_closed()

    def post(self, job: Callable[[], object]) -> None:
        """Have ``job`` called on the loop; in any thread. Raises ``ClientClosed`` if it is gone."""
        self._inbox.append(job)
        if not self._drain_due:
            self._drain_due = True  # one wake-up brings everything that gathers meanwhile
            self._rouse()

    def post_after_turn(self, portal: Portal, job: Callable[[], object]) -> None:
        """Have ``job`` called on the loop, if it is still there, once the core has nothing left to
        do; in the core's thread."""
        self._inbox.append(job)
        if not self._drain_due:
            self._drain_due = True
            portal.after_turn(self._rouse_quietly)

    def _rouse(self) -> None:
        loop = self._loop()
        try:
            if loop is None:
                raise RuntimeError("it was given up")
            loop.call_soon_threadsafe(self._drain)
        except RuntimeError as error:
            self._drain_due = False
            raise ClientClosed("client's event loop") from error

    def _rouse_quietly(self) -> None:
        with suppress(ClientClosed):  # nobody is left on that loop
            self._rouse()

    def _drain(self) -> None:
        self._drain_due = False
        for _ in range(len(self._inbox)):
            self._inbox.popleft()()

    def start(self, callback: Callback[Any]) -> None:
        """Run ``callback`` in a task. Called in the core's thread."""
        callback.cancel = partial(self._cancel, callback)
        self.post(partial(self._start, callback))

    def _start(self, callback: Callback[Any]) -> None:
        loop = asyncio.get_running_loop()
        task = self._tasks[callback] = loop.create_task(_run(callback), context=callback.context)
        task.add_done_callback(partial(self._ended, callback))

    def _ended(self, callback: Callback[Any], _: asyncio.Task[None]) -> None:
        del self._tasks[callback]
        if not callback.begun:  # it was cancelled before its first step, in which it would say so
            callback.finish(None, asyncio.CancelledError(), cancelled=True)

    def _cancel(self, callback: Callback[Any]) -> None:
        def cancel() -> None:
            if callback in self._tasks:
                self._tasks[callback].cancel()

        with suppress(ClientClosed):
            self.post(cancel)


async def _run(callback: Callback[Any]) -> None:
    callback.begun = True
    try:
        value = callback.function()
        if inspect.isawaitable(value):  # hooks may be plain functions
            value = await value
    except BaseException as error:
        callback.finish(None, error, cancelled=isinstance(error, asyncio.CancelledError))
        if not isinstance(error, Exception):
            raise
    else:
        callback.finish(value, None)


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Loop] = WeakKeyDictionary()


def running_loop() -> Loop:
    """Return the loop that the caller runs on."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise WrongUse(
            "lanemq.sdk.aio runs on asyncio, and no event loop of it runs here: import lanemq.sdk"
            " for trio, or lanemq.sdk.blocking for threads"
        ) from None
    found = _loops.get(loop)
    if found is None:
        found = _loops[loop] = Loop(loop)
    return found
