"""The bridge from threads to the core: a call waits until the core is done with it.

A KeyboardInterrupt, or whatever else a signal handler raises, cancels the call in the core, waits
for that, and goes on its way; a second one does not wait.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar, final

import trio

from .._errors import ClientClosed, NotOpened, WrongUse
from .._messages import Message, SendResult
from .._options import LitePullOptions, ProducerOptions, PushOptions
from .._producer import Producer
from ..faces._executor import forward_hooks, in_caller, watches
from ..faces._portal import Portal, PortalEnded, find_portal
from ..faces._portal_calls import Call, Host
from ..faces._quick_send import QuickSend
from ..faces._sent_calls import SentCalls
from ..producer._on_sent import OnSent
from ..producer._selectors import Target
from ._callables import check_plain
from ._threads import Threads
from ._waiter import Waiter

P = ParamSpec("P")
T = TypeVar("T")
CoreT = TypeVar("CoreT")
FaceT = TypeVar("FaceT")
OptionsT = TypeVar("OptionsT", ProducerOptions, PushOptions, LitePullOptions)

INSIDE = (
    "a blocking call inside the core, which would wait for itself: selectors, allocations and"
    " resets of stages must not use clients"
)


@final
class Bridge:
    """The way from the threads of an application to one client of the core."""

    def __init__(
        self, portal: Portal, leaving: Callable[[], trio.Event], close: Callable[[], None]
    ) -> None:
        self.portal = portal
        self.serves_others = False
        """True if clients opened later may need this one, and what it opens."""
        self.close = close
        """Closes the client, once."""
        self._leaving = leaving
        self.closed = False
        self.failure: BaseException | None = None
        """The error that closed the client."""
        self._sent = SentCalls(portal, self.executor)

    @property
    def leaving(self) -> trio.Event:
        """Set when the client is about to be closed."""
        return self._leaving()

    @property
    def executor(self) -> Threads:
        """The executor of the application's functions."""
        return Threads()

    def call(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Await ``function(...)`` in the core; raise what it raises."""
        return self._call(partial(function, *args, **kwargs), None)

    def send(
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
        if portal.is_this_thread:
            raise WrongUse(INSIDE)
        attempt = None
        if not portal.is_elsewhere:
            attempt = core._first_attempt(
                message, queue=queue, queue_key=queue_key, timeout_s=timeout_s
            )
        if attempt is not None:
            waiter: Waiter[SendResult] = Waiter()
            send = QuickSend(portal, attempt, waiter)
            try:
                if is_sent := send.submit():
                    waiter.wait()
            except ClientClosed:
                raise
            except BaseException:
                with suppress(ClientClosed):
                    self._cancel(send.cancel, waiter)
                raise
            if is_sent:
                return waiter.result()
        return self.call(core.send, message, queue=queue, queue_key=queue_key, timeout_s=timeout_s)

    def take(
        self,
        give_back: Callable[[T], object],
        function: Callable[P, Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Do ``call`` where the result must not be lost: an interrupted caller gives it back."""
        return self._call(partial(function, *args, **kwargs), give_back)

    def _call(
        self, function: Callable[[], Awaitable[T]], give_back: Callable[[T], object] | None
    ) -> T:
        self._check()
        portal = self.portal
        if portal.is_this_thread:
            raise WrongUse(INSIDE)
        waiter: Waiter[T] = Waiter()
        call: Call[T] = Call(portal, function, waiter)
        try:
            portal.post(call.start)
            waiter.wait()
        except ClientClosed:
            raise
        except BaseException:
            with suppress(ClientClosed):
                if give_back is None:
                    self._cancel(call.cancel, waiter)
                else:  # the core gives it back, whether or not this waits: attributes tell of it
                    returned: Waiter[None] = Waiter()
                    self._cancel(partial(call.abandon, give_back, returned), returned)
            raise
        return waiter.result()

    def _cancel(self, cancel: Callable[[], object], waiter: Waiter[Any]) -> None:
        self.portal.post(cancel)
        waiter.wait_idly()

    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function of the core, which returns at once, in its thread."""
        self._check()
        if self.portal.is_this_thread:
            return function(*args, **kwargs)
        waiter: Waiter[T] = Waiter()

        def job() -> None:
            try:
                value = function(*args, **kwargs)
            except BaseException as error:  # it goes to the caller
                waiter.deliver(None, error)
            else:
                waiter.deliver(value, None)

        self.portal.post(job)
        waiter.wait()
        return waiter.result()

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

    def callback(self, function: Callable[P, T]) -> Callable[P, Awaitable[T]]:
        """Wrap ``function`` for the core, to be run in the thread that waits for the call."""
        check_plain(function, f"{function!r}")
        return in_caller(self.portal, function)

    def on_sent(self, function: OnSent | None) -> OnSent | None:
        """Wrap ``function`` for the core, to be called in threads, in one at a time."""
        if function is not None:
            check_plain(function, "on_sent")
        return None if function is None else self._sent.forward(function)

    def with_hooks(self, options: OptionsT) -> OptionsT:
        """Return ``options`` for the core, with hooks that run in threads."""
        for watch in watches(options):
            check_plain(watch, "the hook")
        return forward_hooks(self.portal, self.executor, options)


@final
class Opening(AbstractContextManager[FaceT]):
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
        raise NotOpened(name, "`with open_…(…) as client:`, or `client = open_…(…).start()`")

    def start(self) -> FaceT:
        """Open the client, which must be closed by its own ``close`` or the one here."""
        return self.__enter__()

    def close(self) -> None:
        """Close the client, if it is open, as the end of a block does; before it is, do nothing."""
        if self._bridge is not None:
            self.__exit__(None, None, None)

    def __enter__(self) -> FaceT:
        if self._bridge is not None:
            raise WrongUse("a client opens once; call the `open_…` function again")
        if self._parent is not None:
            self._parent._check()
            return self._open(self._parent.portal)
        while True:
            try:
                return self._open(find_portal())
            except PortalEnded:
                continue  # its last client closed at this very moment; there is another now

    def _open(self, portal: Portal) -> FaceT:
        if portal.is_this_thread:
            raise WrongUse(INSIDE)
        bridge = self._bridge = Bridge(portal, lambda: host.leaving, self.close)
        bridge.serves_others = self._serves_others
        opened: Waiter[Any] = Waiter()
        ended: Waiter[None] = Waiter()

        def end(error: BaseException | None) -> None:
            bridge.closed, bridge.failure = True, host.failure
            opened.deliver(None, error or ClientClosed("client"))
            ended.deliver(None, error)

        host: Host[Any] = Host(
            portal,
            lambda: self._opener(bridge),
            opened=lambda client: opened.deliver(client, None),
            ended=end,
            counts=self._parent is None,
            serves_others=self._serves_others,
        )
        self._host, self._ended = host, ended
        try:
            portal.post(host.start)
            opened.wait()
            return self._face(opened.result(), bridge)
        except BaseException:
            self._finish(host.cancel)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._bridge is not None
        if self._bridge.portal.is_elsewhere:
            return  # this process was forked off inside the block; the client is not here
        try:
            self._finish(self._host.leave if error is None else self._host.cancel)
        except BaseException:
            self._finish(self._host.cancel)
            raise
        self._ended.result()

    def _finish(self, how: Callable[[], object]) -> None:
        """Have the client closed ``how``, and wait for it."""
        assert self._bridge is not None
        self._bridge.closed = True
        portal = self._bridge.portal
        if portal.is_this_thread:
            raise WrongUse(INSIDE)
        try:
            portal.post(how)
        except ClientClosed:  # the core ended before, and the client with it
            portal.join()
            return
        self._ended.wait()
        if self._parent is None:
            portal.join()
