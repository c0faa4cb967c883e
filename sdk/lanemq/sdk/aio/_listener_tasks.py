"""The tasks of an event loop in which a listener runs."""

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from types import CoroutineType, TracebackType
from typing import Final, final

import trio

from .._errors import ClientClosed
from .._messages import ReceivedMessage
from .._unpacking import unpack_now, unpack_quickly
from ..consumer.pool._outside_calls import OutsideCall
from ..faces._listener_calls import ListenerCalls
from ..faces._portal import Portal
from ._loop import CANCEL_GRACE_S, Loop

# A listener that never waits would keep the loop; after this many calls a task lets others run.
CALLS_PER_TURN: Final = 64


@final
class _Worker:
    """A task of a listener, and the call that it is at."""

    def __init__(self) -> None:
        self.call: OutsideCall | None = None
        self.task: asyncio.Task[None] | None = None


@final
class _Lazy(Coroutine[object, None, None]):
    """A coroutine that is made at its first step.

    A loop may be stopped for good before that. A coroutine that was made then would be missed, and
    Python would warn of it.
    """

    def __init__(self, make: Callable[[], Coroutine[object, None, None]]) -> None:
        self._make = make
        self._made: Coroutine[object, None, None] | None = None

    def send(self, value: None) -> object:
        if self._made is None:
            self._made = self._make()
        return self._made.send(value)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        error: BaseException | object = None,
        traceback: TracebackType | None = None,
        /,
    ) -> object:
        if self._made is None:
            self._made = self._make()
        if isinstance(kind, BaseException):
            return self._made.throw(kind)
        return self._made.throw(kind, error, traceback)

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    def __await__(self) -> Generator[object, None, None]:
        return self._make().__await__()


@final
class ListenerTasks(ListenerCalls):
    """The tasks of one listener: as many as it needs at once, up to ``limit``.

    A task takes one call after the other; what each finds is as if it had a task of its own. A
    call that left a context variable changed, or its task told to stop, is the last of its task.
    Another task is woken or added when one waits in a call while there are more.
    """

    cancel_grace_s = CANCEL_GRACE_S

    def __init__(
        self,
        portal: Portal,
        loop: Loop,
        function: Callable[..., object],
        leaving: trio.Event,
        *,
        ordered: bool,
        concurrency: int,
    ) -> None:
        super().__init__(portal, function, leaving, ordered=ordered, concurrency=concurrency)
        self._loop = loop
        self._workers: dict[_Worker, None] = {}
        self._idle: list[asyncio.Future[None]] = []
        self._look_due = False

    # The core's thread

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed

    def begin(self, calls: Sequence[OutsideCall]) -> None:
        if self._loop.is_closed:
            raise ClientClosed("client's event loop")
        self._calls.extend(calls)
        if not self._look_due:
            self._look_due = True
            self._portal.after_turn(self.nudge)

    def nudge(self) -> None:
        with suppress(ClientClosed):
            self._loop.post(self._look)

    def running(self) -> list[OutsideCall]:
        calls = [worker.call for worker in self._workers.copy()]
        return [call for call in calls if call is not None]

    def cancel(self, call: OutsideCall) -> None:
        with suppress(ClientClosed):
            self._loop.post(partial(self._cancel, call))

    def close(self) -> None:
        self._closed = True
        with suppress(ClientClosed):
            self._loop.post(self._send_home)

    # The loop

    def _look(self) -> None:
        """Have one more task look at the calls, if there are any."""
        self._look_due = False
        if not self._calls or self._closed:
            return
        while self._idle:
            sleeper = self._idle.pop()
            if not sleeper.done():  # as it is when its task was cancelled
                sleeper.set_result(None)
                return
        if len(self._workers) < self.limit:
            worker = _Worker()
            self._workers[worker] = None
            work = _Lazy(partial(self._work, worker))
            task = asyncio.get_running_loop().create_task(work, context=self._context.copy())
            task.add_done_callback(partial(self._gone, worker))

    def _gone(self, worker: _Worker, _: asyncio.Task[None]) -> None:
        del self._workers[worker]
        self._look()

    def _send_home(self) -> None:
        for sleeper in self._idle:
            if not sleeper.done():
                sleeper.set_result(None)
        self._idle.clear()

    def _cancel(self, call: OutsideCall) -> None:
        for worker in self._workers:
            if worker.call is call and worker.task is not None:
                worker.task.cancel()

    async def _work(self, worker: _Worker) -> None:
        task = worker.task = asyncio.current_task()
        assert task is not None
        clean = copy_context()
        calls, function = self._calls, self._function
        ended, clock = self.ended, time.perf_counter
        turn = 0
        begun_s = clock()
        while len(self._workers) <= self.limit:
            try:
                call = calls.popleft()
            except IndexError:
                if self._closed:
                    return
                await self._sleep()
                begun_s = clock()
                continue
            if calls and not self._look_due:
                self._look_later()
            if call.consumer.held.messages.dropped:
                call.was_skipped = call.is_special = True
                ended.append(call)
                self._tell()
            else:
                call.begun_s = begun_s
                worker.call = call
                try:
                    if call.is_packed:
                        await unpack_in_tasks(call.messages)
                    if call.context is None:
                        value = function(call.messages)
                    else:
                        value = function(call.messages, call.context)
                    if type(value) is CoroutineType or inspect.isawaitable(value):
                        value = await value
                    call.value = value
                except BaseException as error:
                    self._note(call, error)
                    if not isinstance(error, Exception):
                        raise
                finally:
                    worker.call = None
                    begun_s, was_s = clock(), begun_s
                    call.spent_s = begun_s - was_s
                    ended.append(call)
                    if not self._told:
                        self._tell()
                del call  # its messages are needed no longer, however long this sleeps
                if task.cancelling() or _differs(copy_context(), clean):
                    return
            turn += 1
            if turn % CALLS_PER_TURN == 0:
                await asyncio.sleep(0)
                begun_s = clock()

    def _look_later(self) -> None:
        """Look once this task waits, or has nothing more to do."""
        asyncio.get_running_loop().call_soon(self._look)
        self._look_due = True  # and not before: an interruption would leave it so

    async def _sleep(self) -> None:
        """Sleep until there may be calls."""
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle.append(sleeper)
        if not self._calls:
            await sleeper
        elif sleeper in self._idle:
            self._idle.remove(sleeper)

    @staticmethod
    def _note(call: OutsideCall, error: BaseException) -> None:
        call.error, call.is_special = error, True
        call.was_cancelled = isinstance(error, asyncio.CancelledError)


async def unpack_in_tasks(messages: Sequence[ReceivedMessage]) -> None:
    """Unpack bodies beside this event loop, as ``unpack`` does beside trio's."""
    left = unpack_quickly(messages)
    if left:
        await asyncio.to_thread(unpack_now, left)


def _differs(context: Context, other: Context) -> bool:
    try:
        return context != other
    except Exception:  # of a variable's value, which cannot be compared
        return True
