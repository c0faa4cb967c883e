"""The one trio run that all blocking and asyncio clients of a process share.

It runs in a thread of its own from the first client that opens to the last that has closed. Any
thread posts to it what it is to do; answers come back as each face likes them. It is ended before
the interpreter is; a process forked off has none, and starts its own when it opens a client.
"""

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, final

import trio

from lanemq.local import get_logger

from .._errors import ClientClosed

LOGGER = get_logger("lanemq.sdk.portal")

# What open clients get to report their progress when the program ends without closing them.
EXIT_GRACE_S = 5.0
# Of these, what is left at the end for clients that cannot end in their turn.
LAST_S = 1.0
# A core that was started and then not used, its opener having been interrupted, ends after this.
UNUSED_S = 1.0


class PortalEnded(ClientClosed):
    """The core has ended, or is about to. The next client to be opened takes the next portal."""

    def __init__(self) -> None:
        super().__init__("client")


class Hosted(Protocol):
    """A client that is open in the core."""

    serves_others: bool
    """True if clients that were opened after it may need it: they end before it."""
    ended: trio.Event

    def is_abandoned(self) -> bool:
        """Return whether nobody can close it: its event loop is gone."""

    def cancel(self) -> object:
        """Have it end as by a cancellation."""


@final
class _Turn(trio.abc.Instrument):
    """The end of a turn of the core's loop, and what is left for it."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], object]] = []

    def before_io_wait(self, timeout: float) -> None:
        if self.jobs:
            jobs, self.jobs = self.jobs, []
            for job in jobs:
                try:
                    job()
                except Exception:  # trio would call this no more
                    LOGGER.exception("%s failed at the end of a turn", job)


@final
class Portal:
    """The thread, and the way into it. Made by `find_portal`."""

    def __init__(self) -> None:
        self.ending = False
        """True once the last client has closed; the next one to be opened gets another portal."""
        self._users = 0
        self._used = trio.Event()
        self.hosted: dict[Hosted, None] = {}
        """The clients that are open, in the order of their opening."""
        self._leaving = trio.Event()
        self.over = False
        """Set when nothing runs any more."""
        self._pid = os.getpid()
        self._inbox: deque[Callable[[], object]] = deque()
        self._drains = 0  # that have begun
        self._woken_for = -1  # the number of drains when the core was woken for the next one
        self._token: trio.lowlevel.TrioToken | None = None
        self._started = threading.Event()
        self._at_end: list[Callable[[], object]] = []
        self._turn = _Turn()
        # A daemon: what is not closed ends at exit, and does not keep the program from it.
        self._thread = threading.Thread(target=self._run, name="lanemq", daemon=True)

    def start(self) -> None:
        """Start the thread, and wait until it takes jobs."""
        self._thread.start()
        self._started.wait()

    # Any thread

    @property
    def is_this_thread(self) -> bool:
        """True if the caller is the core itself; it must not wait for itself."""
        return threading.current_thread() is self._thread  # a thread's number may be used again

    def post(self, job: Callable[[], object]) -> None:
        """Call ``job`` in the core's thread soon; jobs of one thread keep their order.

        It must not raise. Raises ``ClientClosed`` in a process forked from the core's, and
        ``PortalEnded``, which is one too, when nothing runs any more.
        """
        if self._pid != os.getpid():
            raise ClientClosed("client, opened before this process was forked,")
        self._inbox.append(job)
        if self.over:  # looked at after the append: the last drain takes what was before
            raise PortalEnded
        assert self._token is not None
        drains = self._drains
        if self._woken_for == drains:
            return  # a drain is due that has not begun, and will find the job
        with suppress(trio.RunFinishedError):  # then the last drain is still to come
            self._token.run_sync_soon(self._drain, idempotent=True)
        # After the call: a signal may come between any two lines, and a mark without a call would
        # let nothing ever wake the core again. If the drain was quicker, the mark is none.
        self._woken_for = drains

    def at_end(self, callback: Callable[[], object]) -> None:
        """Call ``callback``, in any thread, when nothing runs any more."""
        self._at_end.append(callback)
        if self.over:
            callback()

    def join(self) -> None:
        """Wait for the end of the thread, if the last client is closed."""
        if self.ending and self._pid == os.getpid() and not self.is_this_thread:
            self._thread.join()

    @property
    def is_elsewhere(self) -> bool:
        """True if it is the portal of the process that this one was forked from."""
        return self._pid != os.getpid()

    def end_now(self) -> None:
        """End whatever runs; wait for it a moment. Called when the interpreter exits."""
        if self.is_elsewhere:
            return
        with suppress(ClientClosed):
            self.post(self._leaving.set)
        self._thread.join(EXIT_GRACE_S)

    # The core's thread

    def after_turn(self, job: Callable[[], object]) -> None:
        """Call ``job`` when the tasks that can run now have run, before the core waits.

        For waking other threads: it takes the interpreter from this one, and what the core has
        yet to do in the same turn would wait. ``job`` must not wake tasks of the core.
        """
        self._turn.jobs.append(job)

    def admit(self) -> None:
        """Count one client more. Raises ``PortalEnded``."""
        if self.ending or self.over:
            raise PortalEnded
        self._users += 1
        self._used.set()

    def release(self) -> None:
        """Count one client fewer."""
        self._users -= 1
        if not self._users:
            self._end()

    def _end(self) -> None:
        self._make_way()
        self._leaving.set()

    def _make_way(self) -> None:
        global _current
        with _lock:
            self.ending = True
            if _current is self:
                _current = None

    def _drain(self) -> None:
        self._drains += 1
        for _ in range(len(self._inbox)):
            self._inbox.popleft()()

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException:  # no caller would see it
            LOGGER.exception("the core ended by an error")
        finally:
            self._make_way()
            self.over = True
            self._started.set()
            self._drain()
            self._turn.before_io_wait(0)
            for callback in self._at_end:
                callback()

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        trio.lowlevel.add_instrument(self._turn)
        self._started.set()
        with trio.move_on_after(UNUSED_S):
            await self._used.wait()
        if not self._used.is_set():
            self._end()
        await self._leaving.wait()
        with trio.move_on_after(EXIT_GRACE_S - LAST_S):
            await self._end_all()
        # What still runs is cancelled by trio: system tasks end with this one.

    async def outstay_users(self, abandoned: Hosted) -> None:
        """Wait for the end of those that were opened after a client and are abandoned as it is."""
        hosted = tuple(self.hosted)
        for one in hosted[hosted.index(abandoned) + 1 :]:
            if one.is_abandoned():
                await one.ended.wait()

    async def _end_all(self) -> None:
        """End all clients as nested blocks would: those that others need after these."""
        hosted = tuple(self.hosted)
        for one in hosted:
            if not one.serves_others:
                one.cancel()
        for one in reversed(hosted):
            one.cancel()
            await one.ended.wait()


_lock = threading.Lock()
_current: Portal | None = None


def find_portal() -> Portal:
    """Return the portal; started if there is none. It may end before it is used."""
    global _current
    with _lock:
        if _current is None:
            portal = Portal()
            portal.start()
            _current = portal
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
