"""The one trio run that all blocking and asyncio clients of a process share.

It runs in a thread of its own from the first client that opens to the last that has closed. Any
thread posts to it what it is to do; answers come back as each face likes them. It is ended before
the interpreter is; a process forked off has none, and starts its own when it opens a client.
"""

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import final

import trio

from ._errors import ClientClosed

LOGGER = logging.getLogger("lanemq.sdk.portal")

# What open clients get to report their progress when the program ends without closing them.
EXIT_GRACE_S = 5.0


@final
class Portal:
    """The thread, and the way into it. Made by `acquire`."""

    def __init__(self) -> None:
        self.users = 0
        self.ending = False
        """The last client has closed; whoever opens one gets another portal."""
        self.at_leave: set[trio.Event] = set()
        """What to set before everything that runs is cancelled."""
        self._leaving = trio.Event()
        self.over = False
        """Nothing runs any more."""
        self._pid = os.getpid()
        self._inbox: deque[Callable[[], object]] = deque()
        self._token: trio.lowlevel.TrioToken | None = None
        self._started = threading.Event()
        self._at_end: list[Callable[[], object]] = []
        # A daemon: what is not closed ends at exit, and does not keep the program from it.
        self._thread = threading.Thread(target=self._run, name="lanemq", daemon=True)
        self._thread.start()
        self._started.wait()

    # Any thread

    @property
    def is_this_thread(self) -> bool:
        """Whether the caller is the core itself; it must not wait for itself."""
        return threading.get_ident() == self._thread.ident

    def post(self, job: Callable[[], object]) -> None:
        """Have ``job`` called in the core's thread soon; jobs of one thread keep their order.

        It must not raise. Raises ``ClientClosed`` when the core is over or another process's.
        """
        if self._pid != os.getpid():
            raise ClientClosed("client, opened before this process was forked,")
        self._inbox.append(job)
        if self.over:  # looked at after the append: the last drain takes what was before
            raise ClientClosed("client")
        assert self._token is not None
        # Always, and not only if no drain is due: a signal could strike between a mark that says
        # so and the call, and then nothing would ever wake the core again.
        with suppress(trio.RunFinishedError):  # then the last drain is still to come
            self._token.run_sync_soon(self._drain, idempotent=True)

    def at_end(self, callback: Callable[[], object]) -> None:
        """Have ``callback`` called, in any thread, when nothing runs any more."""
        self._at_end.append(callback)
        if self.over:
            callback()

    def join(self) -> None:
        """Wait for the end, if nobody uses it any more."""
        if self.ending and self._pid == os.getpid() and not self.is_this_thread:
            self._thread.join()

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is the portal of the process that this one was forked from."""
        return self._pid != os.getpid()

    def release(self) -> None:
        """One client fewer. Called in the core's thread."""
        global _current
        with _lock:
            self.users -= 1
            if self.users > 0:
                return
            self.ending = True
            if _current is self:
                _current = None
        self._leaving.set()

    def end_now(self) -> None:
        """End whatever runs; wait for it a moment. Called when the interpreter exits."""
        if self.is_elsewhere:
            return
        with suppress(ClientClosed):
            self.post(self._leaving.set)
        self._thread.join(EXIT_GRACE_S)

    # The core's thread

    def _drain(self) -> None:
        for _ in range(len(self._inbox)):
            self._inbox.popleft()()

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException:  # nobody is above to see it
            LOGGER.exception("the core ended by an error")
        finally:
            self.over = True
            self._started.set()
            self._drain()
            for callback in self._at_end:
                callback()

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._started.set()
        await self._leaving.wait()
        for event in tuple(self.at_leave):
            event.set()
        # What still runs is cancelled by trio: system tasks end with this one.


_lock = threading.Lock()
_current: Portal | None = None


def acquire() -> Portal:
    """The portal, with one client more; started if there is none."""
    global _current
    with _lock:
        if _current is None:
            _current = Portal()
        _current.users += 1
        return _current


def _at_exit() -> None:
    if _current is not None:
        _current.end_now()


def _after_fork() -> None:
    global _lock, _current
    _lock = threading.Lock()  # a thread that is not here may have held it
    _current = None


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
