"""The threads in which a blocking client runs an application's functions. They cannot be stopped.

Each has a number, which tells it apart in logs.
"""

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, final

import trio

from .._errors import ClientClosed
from ..consumer.pool._outside_calls import OutsideCall
from ..faces._listener_calls import LOGGER, ListenerCalls
from ..faces._portal import Portal
from ..faces._portal_calls import Callback, try_again

THREAD_NAME = "lanemq worker"
NUMBERS = itertools.count(1)
IDLE_S: Final = 10.0
"""A thread of a listener that has had nothing to do for so long ends."""


class _Outcome(Protocol):
    """The outcome of a function in one of trio's worker threads."""

    def unwrap(self) -> object: ...


class _Name(threading.local):
    """The name of a worker thread while it runs a function of an application."""

    def __init__(self) -> None:
        self.name = f"{THREAD_NAME} {next(NUMBERS)}"


_OWN = _Name()


@final
class Threads:
    """A place for single functions, such as hooks: trio's worker threads.

    Each is used again for whatever comes next.
    """

    cancel_grace_s = 0.0
    is_closed = False

    def start(self, callback: Callback[Any]) -> None:
        def finish(outcome: _Outcome) -> None:
            try:
                value = outcome.unwrap()
            except BaseException as error:  # it goes to whoever waits
                callback.finish(None, error)
            else:
                callback.finish(value, None)

        def run() -> object:
            threading.current_thread().name = _OWN.name  # trio takes it back afterwards
            return callback.context.run(callback.function)

        trio.lowlevel.start_thread_soon(run, finish, THREAD_NAME)


@final
class _Worker:
    """A thread of a listener, and the call that it is at."""

    def __init__(self) -> None:
        self.call: OutsideCall | None = None
        self.wake = threading.Lock()
        """Held while the worker is awake; it sleeps by taking the lock once more."""
        self.wake.acquire()


@final
class ListenerThreads(ListenerCalls):
    """The threads of one listener: as many as it needs at once, up to ``limit``.

    They take calls from one queue. Of those that sleep one is woken at a time: a worker that
    takes a call while more wait wakes the next. While one is on its way, others are left alone: a
    listener that never waits is through with everything before a second thread runs.

    Calls are handed on without a lock, by single operations of deques.
    """

    cancel_grace_s = 0.0
    is_closed = False

    def __init__(
        self,
        portal: Portal,
        function: Callable[..., object],
        leaving: trio.Event,
        *,
        ordered: bool,
        concurrency: int,
    ) -> None:
        super().__init__(portal, function, leaving, ordered=ordered, concurrency=concurrency)
        self._workers: list[_Worker] = []
        self._idle: deque[_Worker] = deque()
        self._staff = threading.Lock()  # of the list of workers
        self._woken = False  # a worker was woken that has yet to look at the calls
        self._tries_later = False

    # The core's thread

    def begin(self, calls: Sequence[OutsideCall]) -> None:
        self._calls.extend(calls)
        self.nudge()

    def running(self) -> list[OutsideCall]:
        with self._staff:
            calls = [worker.call for worker in self._workers]
        return [call for call in calls if call is not None]

    def cancel(self, call: OutsideCall) -> None:
        """Do nothing: a thread cannot be stopped."""

    def close(self) -> None:
        self._closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop().wake.release()

    # Any thread

    def nudge(self) -> None:
        """Have one more worker look at the calls, if one sleeps or may be added."""
        if self._woken or not self._calls:
            return
        self._woken = True
        try:
            worker = self._idle.pop()  # the one that has slept least
        except IndexError:
            self._add_worker()
        else:
            worker.wake.release()

    def _add_worker(self) -> None:
        worker = _Worker()
        with self._staff:
            if self._closed or len(self._workers) >= self.limit:
                self._woken = False
                return
            self._workers.append(worker)
        name = f"{THREAD_NAME} {next(NUMBERS)}"
        try:
            threading.Thread(target=self._work, args=(worker,), name=name, daemon=True).start()
        except RuntimeError:  # no thread can be started at the moment
            self._woken = False
            with self._staff:
                self._workers.remove(worker)
                is_alone = not self._workers
            LOGGER.exception("a listener runs in fewer threads than it may")
            if is_alone and not self._tries_later:
                self._tries_later = True
                with suppress(ClientClosed):
                    self._portal.post(partial(try_again, self._nudge_again))

    def _nudge_again(self) -> None:
        self._tries_later = False
        self.nudge()

    # Workers

    def _work(self, worker: _Worker) -> None:
        calls, fresh, function = self._calls, self._context.copy, self._function
        clock, ended = time.perf_counter, self.ended
        self._woken = False
        begun_s = clock()
        while len(self._workers) <= self.limit or not self._leave(worker):
            try:
                call = calls.popleft()
            except IndexError:
                if not self._sleep(worker):
                    return
                begun_s = clock()
                continue
            if calls and not self._woken:
                self.nudge()
            if call.consumer.held.messages.dropped:
                call.was_skipped = call.is_special = True
            else:
                call.begun_s = begun_s
                worker.call = call
                try:
                    if call.context is None:
                        call.value = fresh().run(function, call.messages)
                    else:
                        call.value = fresh().run(function, call.messages, call.context)
                except BaseException as error:  # it goes to the core
                    call.error, call.is_special = error, True
                begun_s, was_s = clock(), begun_s
                call.spent_s = begun_s - was_s
                worker.call = None
            ended.append(call)
            del call  # its messages are needed no longer, however long this sleeps
            if not self._told:
                self._tell()

    def _sleep(self, worker: _Worker) -> bool:
        """Sleep until there may be calls; return False if the worker is to end."""
        if self._closed and self._leave(worker):
            return False
        self._idle.append(worker)
        if self._calls or self._closed:
            if self._stays_awake(worker):
                return True
        elif not worker.wake.acquire(timeout=IDLE_S):
            if self._stays_awake(worker):
                return not self._leave(worker, is_idle=True)
        else:
            self._woken = False
            return True
        worker.wake.acquire()
        self._woken = False
        return True

    def _leave(self, worker: _Worker, *, is_idle: bool = False) -> bool:
        """End ``worker`` if there are too many, or it is of no use; return whether it ends."""
        with self._staff:
            if not (is_idle or self._closed or len(self._workers) > self.limit):
                return False
            self._workers.remove(worker)
        self.nudge()  # a call may have come at which this worker did not look
        return True

    def _stays_awake(self, worker: _Worker) -> bool:
        """Take ``worker`` back from those that sleep; return False if it has just been woken."""
        try:
            self._idle.remove(worker)
        except ValueError:
            return False
        return True
