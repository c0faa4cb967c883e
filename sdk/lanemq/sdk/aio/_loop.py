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

from .._errors import ClientClosed
from .._portal_calls import Errand

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
        self._tasks: dict[Errand[Any], asyncio.Task[None]] = {}

    @property
    def is_closed(self) -> bool:
        loop = self._loop()
        return loop is None or loop.is_closed()

    def post(self, job: Callable[[], object]) -> None:
        """Have ``job`` called on the loop; in any thread. Raises ``ClientClosed`` if it is gone."""
        self._inbox.append(job)
        if not self._drain_due:
            self._drain_due = True  # one wake-up brings everything that gathers meanwhile
            loop = self._loop()
            try:
                if loop is None:
                    raise RuntimeError("it was given up")
                loop.call_soon_threadsafe(self._drain)
            except RuntimeError as error:
                self._drain_due = False
                raise ClientClosed("client's event loop") from error

    def _drain(self) -> None:
        self._drain_due = False
        for _ in range(len(self._inbox)):
            self._inbox.popleft()()

    def start(self, errand: Errand[Any]) -> None:
        """Run ``errand`` in a task. Called in the core's thread."""
        errand.cancel = partial(self._cancel, errand)
        self.post(partial(self._start, errand))

    def _start(self, errand: Errand[Any]) -> None:
        loop = asyncio.get_running_loop()
        task = self._tasks[errand] = loop.create_task(_run(errand), context=errand.context)
        task.add_done_callback(lambda _: self._tasks.pop(errand))

    def _cancel(self, errand: Errand[Any]) -> None:
        def cancel() -> None:
            if errand in self._tasks:
                self._tasks[errand].cancel()

        with suppress(ClientClosed):
            self.post(cancel)


async def _run(errand: Errand[Any]) -> None:
    try:
        value = errand.function()
        if inspect.isawaitable(value):  # hooks may be plain functions
            value = await value
    except BaseException as error:
        errand.finish(None, error, cancelled=isinstance(error, asyncio.CancelledError))
        if not isinstance(error, Exception):
            raise
    else:
        errand.finish(value, None)


_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Loop] = WeakKeyDictionary()


def running_loop() -> Loop:
    """The loop that the caller runs on."""
    loop = asyncio.get_running_loop()
    found = _loops.get(loop)
    if found is None:
        found = _loops[loop] = Loop(loop)
    return found
