"""How asyncio tasks reach the core: a call suspends its task until the core is done with it.

A task that is cancelled has the call cancelled in the core and waits for that; when it is cancelled
once more it does not wait. An event loop that is slow, or gone, holds up nobody in the core.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar, final
from weakref import WeakKeyDictionary, ref

import trio

from .._elsewhere import forward_hooks, in_caller
from .._errors import ClientClosed, WrongUse
from .._options import ProducerOptions, PushOptions
from .._portal import Portal, PortalEnded, find_portal
from .._portal_calls import Call, Errand, Host

P = ParamSpec("P")
T = TypeVar("T")
CoreT = TypeVar("CoreT")
FaceT = TypeVar("FaceT")
OptionsT = TypeVar("OptionsT", ProducerOptions, PushOptions)

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


@final
class _Waiter(Generic[T]):
    """A task that waits for the outcome of one call, and does what the call asks of it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._errands: deque[Errand[Any]] = deque()
        self._over = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._wake: asyncio.Future[None] | None = None

    # The core's thread

    def deliver(self, value: T | None, error: BaseException | None) -> None:
        with suppress(ClientClosed):  # nobody is left on that loop
            self._loop.post(partial(self._take, value, error))

    def hand_over(self, errand: Errand[Any]) -> None:
        with suppress(ClientClosed):
            self._loop.post(partial(self._take_errand, errand))

    # The loop

    def _take(self, value: T | None, error: BaseException | None) -> None:
        self._value, self._error, self._over = value, error, True
        self._rouse()

    def _take_errand(self, errand: Errand[Any]) -> None:
        self._errands.append(errand)
        self._rouse()

    def _rouse(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def wait(self) -> None:
        """Return when there is an outcome. What leaves it meanwhile was raised in this task."""
        while not self._over:
            while self._errands:
                await self._run(self._errands.popleft())
            await self._sleep()

    async def wait_idly(self) -> None:
        """The same, without doing anything for the call."""
        while not self._over:
            await self._sleep()

    async def _sleep(self) -> None:
        if not self._over and not self._errands:
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    @staticmethod
    async def _run(errand: Errand[Any]) -> None:
        try:
            value = await errand.function()
        except Exception as error:  # the application's own, and it gets it back
            errand.finish(None, error)
        else:
            errand.finish(value, None)

    @property
    def has_value(self) -> bool:
        return self._over and self._error is None

    def result(self) -> T:
        if self._error is not None:
            error, self._error = self._error, None  # or error, frame and waiter form a ring
            try:
                raise error
            finally:
                del error
        return self._value  # type: ignore[return-value]  # without an error there is a value


@final
class Bridge:
    """The way from the tasks of an application to one client of the core."""

    def __init__(self, portal: Portal, loop: Loop, leaving: Callable[[], trio.Event]) -> None:
        self.portal = portal
        self.place = loop
        """Where the application's functions run: the loop that opened the client."""
        self._leaving = leaving
        self.closed = False

    @property
    def leaving(self) -> trio.Event:
        """Set when the client is about to be closed."""
        return self._leaving()

    async def call(
        self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Await ``function(...)`` in the core; raise what it raises."""
        return await self._call(partial(function, *args, **kwargs), None)

    async def take(
        self,
        give_back: Callable[[T], object],
        function: Callable[P, Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """``call`` where the result must not be lost: a cancelled task gives it back."""
        return await self._call(partial(function, *args, **kwargs), give_back)

    async def _call(
        self, function: Callable[[], Awaitable[T]], give_back: Callable[[T], object] | None
    ) -> T:
        self._check()
        portal = self.portal
        waiter: _Waiter[T] = _Waiter(running_loop())
        call = Call(portal, function, waiter)
        portal.post(call.start)
        try:
            await waiter.wait()
        except BaseException:
            with suppress(ClientClosed):
                portal.post(call.cancel)
                await waiter.wait_idly()
                if give_back is not None and waiter.has_value:
                    portal.post(partial(give_back, waiter.result()))
            raise
        return waiter.result()

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function of the core, which returns at once, in its thread.

        The loop waits for it: the core never waits for the loop.
        """
        self._check()
        if self.portal.is_this_thread:
            return function(*args, **kwargs)
        answers: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

        def job() -> None:
            try:
                answers.put((function(*args, **kwargs), None))
            except BaseException as error:  # it goes to the caller
                answers.put((None, error))

        self.portal.post(job)
        value, error = answers.get()
        if error is not None:
            try:
                raise error
            finally:
                del error
        return value  # type: ignore[return-value]  # without an error there is a value

    def _check(self) -> None:
        if self.closed:
            raise ClientClosed("client")

    def open(
        self,
        face: "Callable[[CoreT, Bridge], FaceT]",
        opener: Callable[P, AbstractAsyncContextManager[CoreT]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> AbstractAsyncContextManager[FaceT]:
        """What a client of the core opens while it is open itself."""
        return Opening(face, lambda _: opener(*args, **kwargs), parent=self)

    def callback(self, function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """``function`` for the core, to be run in the task that waits for the call."""
        return in_caller(self.portal, function)

    def with_hooks(self, options: OptionsT | None) -> OptionsT | None:
        """``options`` for the core, their hooks to be run on the loop."""
        return forward_hooks(self.portal, self.place, options)


@final
class Opening(AbstractAsyncContextManager[FaceT], Generic[CoreT, FaceT]):
    """What an ``open_…`` function returns: the client opens and closes with the block."""

    def __init__(
        self,
        face: Callable[[CoreT, Bridge], FaceT],
        opener: Callable[[Bridge], AbstractAsyncContextManager[CoreT]],
        *,
        parent: Bridge | None = None,
    ) -> None:
        self._face = face
        self._opener = opener
        self._parent = parent
        self._bridge: Bridge | None = None

    async def __aenter__(self) -> FaceT:
        if self._bridge is not None:
            raise WrongUse("a client opens once; call the `open_…` function again")
        if self._parent is not None:
            self._parent._check()
            return await self._open(self._parent.portal)
        while True:
            try:
                return await self._open(find_portal())
            except PortalEnded:
                continue  # its last client closed at this very moment; there is another now

    async def _open(self, portal: Portal) -> FaceT:
        loop = running_loop()
        bridge = self._bridge = Bridge(portal, loop, lambda: host.leaving)
        opened: _Waiter[CoreT] = _Waiter(loop)
        ended: _Waiter[None] = _Waiter(loop)

        def end(error: BaseException | None) -> None:
            bridge.closed = True
            opened.deliver(None, error or ClientClosed("client"))
            ended.deliver(None, error)

        host: Host[CoreT] = Host(
            portal,
            lambda: self._opener(bridge),
            opened=lambda client: opened.deliver(client, None),
            ended=end,
            is_abandoned=lambda: loop.is_closed,
            counts=self._parent is None,
        )
        self._host, self._ended = host, ended
        portal.post(host.start)
        try:
            await opened.wait()
            return self._face(opened.result(), bridge)
        except BaseException:
            await self._finish(host.cancel)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._bridge is not None
        if self._bridge.portal.is_elsewhere:
            return  # this process was forked off inside the block; the client is not here
        try:
            await self._finish(self._host.leave if error is None else self._host.cancel)
        except BaseException:
            await self._finish(self._host.cancel)
            raise
        self._ended.result()

    async def _finish(self, how: Callable[[], object]) -> None:
        """Have the client closed ``how``, and wait for it."""
        assert self._bridge is not None
        self._bridge.closed = True
        portal = self._bridge.portal
        try:
            portal.post(how)
        except ClientClosed:
            return  # the core ended before, and the client with it
        await self._ended.wait()
        if self._parent is None and portal.ending:
            await _end_of(portal)


async def _end_of(portal: Portal) -> None:
    loop = running_loop()
    over: _Waiter[None] = _Waiter(loop)
    portal.at_end(lambda: over.deliver(None, None))
    await over.wait()
    portal.join()  # its thread is at its last line
