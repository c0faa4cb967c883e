"""The bridge from asyncio tasks to the core: a call suspends its task until it is done.

A task that is cancelled has the call cancelled in the core and waits for that; when it is cancelled
once more it does not wait.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar, final

import trio

from .._errors import ClientClosed, NotOpened, WrongUse
from .._messages import Message, SendResult
from .._options import LitePullOptions, ProducerOptions, PushOptions
from .._producer import Producer
from ..faces._executor import forward_hooks, in_caller
from ..faces._portal import Portal, PortalEnded, find_portal
from ..faces._portal_calls import Call, Host
from ..faces._quick_send import QuickSend
from ..faces._sent_calls import SentCalls
from ..producer._on_sent import OnSent
from ..producer._selectors import Target
from ._loop import Loop, running_loop
from ._send_waiter import SendWaiter
from ._waiter import Waiter

P = ParamSpec("P")
T = TypeVar("T")
CoreT = TypeVar("CoreT")
FaceT = TypeVar("FaceT")
OptionsT = TypeVar("OptionsT", ProducerOptions, PushOptions, LitePullOptions)


@final
class Bridge:
    """The way from the tasks of an application to one client of the core."""

    def __init__(
        self,
        portal: Portal,
        loop: Loop,
        leaving: Callable[[], trio.Event],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self.portal = portal
        self.serves_others = False  # True: clients opened later may need it, and what it opens
        self.close = close
        """Closes the client, once."""
        self.executor = loop
        """The event loop that opened the client, on which the application's functions run."""
        self._leaving = leaving
        self.closed = False
        self.failure: BaseException | None = None
        """The error that closed the client."""
        self._sent = SentCalls(portal, self.executor)

    @property
    def leaving(self) -> trio.Event:
        """Set when the client is about to be closed."""
        return self._leaving()

    async def call(
        self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Await ``function(...)`` in the core; raise what it raises."""
        return await self._call(partial(function, *args, **kwargs), None)

    async def send(
        self,
        core: Producer,
        message: Message,
        *,
        queue: Target | None,
        queue_key: str | int | None,
        timeout_s: float | None,
    ) -> SendResult:
        """Do ``call`` of ``core.send``, without a task of the core where none is needed."""
        self._check()
        portal = self.portal
        loop = running_loop()  # raises where there is none, before anything has begun
        attempt = None
        if not portal.is_elsewhere:
            attempt = core._first_attempt(
                message, queue=queue, queue_key=queue_key, timeout_s=timeout_s
            )
        if attempt is not None:
            waiter = SendWaiter(portal, loop)
            send = QuickSend(portal, attempt, waiter)
            try:
                if is_sent := send.submit():
                    await waiter.wait()
            except ClientClosed:
                raise
            except BaseException:
                with suppress(ClientClosed):
                    await self._cancel(send.cancel, waiter)
                raise
            if is_sent:
                return waiter.result()
        return await self.call(
            core.send, message, queue=queue, queue_key=queue_key, timeout_s=timeout_s
        )

    async def take(
        self,
        give_back: Callable[[T], object],
        function: Callable[P, Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Do ``call`` where the result must not be lost: a cancelled task gives it back."""
        return await self._call(partial(function, *args, **kwargs), give_back)

    async def _call(
        self, function: Callable[[], Awaitable[T]], give_back: Callable[[T], object] | None
    ) -> T:
        self._check()
        running_loop()  # raises where there is none, before anything has begun
        portal = self.portal
        waiter: Waiter[T] = Waiter()
        call: Call[T] = Call(portal, function, waiter)
        portal.post(call.start)
        try:
            await waiter.wait()
        except BaseException:
            with suppress(ClientClosed):
                if give_back is None:
                    await self._cancel(call.cancel, waiter)
                else:  # the core gives it back, whether or not this waits: attributes tell of it
                    returned = Waiter[None]()
                    await self._cancel(partial(call.abandon, give_back, returned), returned)
            raise
        return waiter.result()

    async def _cancel(self, cancel: Callable[[], object], waiter: Waiter[Any] | SendWaiter) -> None:
        self.portal.post(cancel)
        await waiter.wait_idly()

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
            raise ClientClosed("client") from self.failure

    def open(
        self,
        face: "Callable[[CoreT, Bridge], FaceT]",
        opener: Callable[P, AbstractAsyncContextManager[CoreT]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> "Opening[FaceT]":
        """Open a client that another client of the core offers, such as a lock of a store."""
        return Opening(face, lambda _: opener(*args, **kwargs), parent=self)

    def callback(self, function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """Wrap ``function`` for the core, to be run in the task that waits for the call."""
        return in_caller(self.portal, function)

    def on_sent(self, function: OnSent | None) -> OnSent | None:
        """Wrap ``function`` for the core, to be called on the loop."""
        return None if function is None else self._sent.forward(function)

    def with_hooks(self, options: OptionsT) -> OptionsT:
        """Return ``options`` for the core, with hooks that run on the loop."""
        return forward_hooks(self.portal, self.executor, options)


@final
class Opening(AbstractAsyncContextManager[FaceT]):
    """The result of an ``open_…`` function: the client opens and closes with the block.

    Where no block is at hand, as in the start-up hooks of a web framework, ``start`` opens it,
    and ``close``, here or of the client where that has one, does what the end of the block would
    do.
    """

    def __init__(
        self,
        face: Callable[[Any, Bridge], FaceT],
        opener: Callable[[Bridge], AbstractAsyncContextManager[Any]],
        *,
        parent: Bridge | None = None,
        serves_others: bool = False,
    ) -> None:
        self._face = face
        self._opener = opener
        self._parent = parent
        self._serves_others = serves_others if parent is None else parent.serves_others
        self._bridge: Bridge | None = None

    def __getattr__(self, name: str) -> NoReturn:
        raise NotOpened(
            name, "`async with open_…(…) as client:`, or `client = await open_…(…).start()`"
        )

    async def start(self) -> FaceT:
        """Open the client, which must be closed by its own ``close`` or the one here."""
        return await self.__aenter__()

    async def close(self) -> None:
        """Close the client, if it is open, as the end of a block does; before it is, do nothing."""
        if self._bridge is not None:
            await self.__aexit__(None, None, None)

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
        bridge = self._bridge = Bridge(portal, loop, lambda: host.leaving, self.close)
        bridge.serves_others = self._serves_others
        opened, ended = Waiter[Any](), Waiter[None]()

        def end(error: BaseException | None) -> None:
            bridge.closed, bridge.failure = True, host.failure
            opened.deliver(None, error or ClientClosed("client"))
            ended.deliver(None, error)

        host: Host[Any] = Host(
            portal,
            lambda: self._opener(bridge),
            opened=lambda client: opened.deliver(client, None),
            ended=end,
            is_abandoned=lambda: loop.is_closed,
            counts=self._parent is None,
            serves_others=self._serves_others,
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
        except ClientClosed:  # the core ended before, and the client with it
            portal.join()
            return
        await self._ended.wait()
        if self._parent is None and portal.ending:
            await _end_of(portal)


async def _end_of(portal: Portal) -> None:
    over: Waiter[None] = Waiter()
    portal.at_end(lambda: over.deliver(None, None))
    await over.wait()
    portal.join()  # its thread is at its last line
