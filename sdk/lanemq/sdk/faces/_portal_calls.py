"""Tasks of the core for callers outside of it: calls, and clients while they are open."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, Generic, Protocol, TypeVar, final

import trio

from lanemq.local import get_logger

from .._errors import ClientClosed
from ._portal import Portal, PortalEnded

LOGGER = get_logger("lanemq.sdk.portal")

T = TypeVar("T")
ClientT = TypeVar("ClientT")
ResultT_contra = TypeVar("ResultT_contra", contravariant=True)

# How often an open client looks whether the event loop it was opened in is still there.
LOOK_S = 5.0


AGAIN_S: Final = 1.0
"""After so long it is tried again to start a thread, where none could be."""


def try_again(job: Callable[[], object]) -> None:
    """Call ``job`` in a while, unless the core ends before. Called in the core's thread, as it."""

    async def later() -> None:
        await trio.sleep(AGAIN_S)
        job()

    with suppress(RuntimeError):  # so late that no task may begin any more
        trio.lowlevel.spawn_system_task(later)


class Caller(Protocol[ResultT_contra]):
    """The receiver of a call's outcome. Its methods are called in the core's thread."""

    def deliver(self, value: ResultT_contra | None, error: BaseException | None) -> None:
        """Deliver the outcome of the call. Must not block, and not raise."""

    def hand_over(self, callback: "Callback[Any]") -> None:
        """Run ``callback`` in the thread that waits for the call."""


class Answer(Generic[T]):
    """The outcome of a call, as its caller has it."""

    _over = False
    _value: T | None = None
    _error: BaseException | None = None

    def result(self) -> T:
        """Return the value, or raise the error."""
        if self._error is not None:
            error, self._error = self._error, None  # or error, frame and waiter form a ring
            try:
                raise error
            finally:
                del error
        return self._value  # type: ignore[return-value]  # without an error there is a value


calling: ContextVar[Caller[Any]] = ContextVar("calling")
"""The waiter for the call that the current task of the core is."""


@final
class Call(Generic[T]):
    """A coroutine function of the core at work for a caller outside of it."""

    def __init__(
        self,
        portal: Portal,
        function: Callable[[], Awaitable[T]],
        caller: Caller[T],
        context: Context | None = None,
    ) -> None:
        self._portal = portal
        self._function = function
        self._caller = caller
        self._scope = trio.CancelScope()
        self._context = context or copy_context()  # a span that is open there is open here
        self._begun = self._over = False
        self._value: tuple[T] | None = None
        self._abandoned: tuple[Callable[[T], object], Caller[None]] | None = None

    def start(self) -> None:
        """Start the call. Called in the core's thread, as everything below."""
        self._begun = True
        try:
            if self._portal.over:
                raise RuntimeError
            trio.lowlevel.spawn_system_task(self._run, context=self._context)
        except RuntimeError:  # so late that no task may begin any more
            self._end(None, ClientClosed("client"))

    def cancel(self) -> None:
        """Cancel the call: the caller no longer wants the outcome; it is delivered all the
        same.

        Before ``start``, where the caller was interrupted in between, there will be none.
        """
        if not self._begun:
            self._end(None, ClientClosed("client"))
        elif not self._portal.over:
            self._scope.cancel()

    def abandon(self, give_back: Callable[[T], object], returned: Caller[None]) -> None:
        """Cancel the call, and have the value that it took all the same given back.

        The caller may be gone by then; if not, ``returned`` tells it. Both happen in one job, so
        no later call comes in between.
        """
        self._abandoned = give_back, returned
        if self._over:  # its caller was cancelled between the outcome and its next step
            self._return_value()
        else:
            self.cancel()

    async def _run(self) -> None:
        value: T | None = None
        error: BaseException | None = ClientClosed("client")
        calling.set(self._caller)
        try:
            with self._scope:
                value = await self._function()
                error = None
        except trio.Cancelled:
            pass  # the core ends
        except BaseException as failure:  # it goes to the caller
            error = failure
        self._end(value, error)

    def _end(self, value: T | None, error: BaseException | None) -> None:
        self._over = True
        if error is None:
            self._value = (value,)  # type: ignore[assignment]  # without an error there is one
        self._return_value()
        self._caller.deliver(value, error)

    def _return_value(self) -> None:
        if self._abandoned is None:
            return
        give_back, returned = self._abandoned
        if self._value is not None:
            with suppress(ClientClosed):  # nobody will ask for it again
                give_back(*self._value)
        returned.deliver(None, None)


@final
class Host(Generic[ClientT]):
    """Keeps a client of the core open: one task enters its block, stays, and leaves it."""

    def __init__(
        self,
        portal: Portal,
        opener: Callable[[], AbstractAsyncContextManager[ClientT]],
        *,
        opened: Callable[[ClientT], object],
        ended: Callable[[BaseException | None], object],
        is_abandoned: Callable[[], bool] = lambda: False,
        counts: bool = True,
        serves_others: bool = False,
    ) -> None:
        self._portal = portal
        self._opener = opener
        self._opened = opened
        self._ended = ended
        self.is_abandoned = is_abandoned
        self._counts = counts  # as a user of the portal
        self._scope = trio.CancelScope()
        self._stop = trio.Event()
        self._context = copy_context()
        self._begun = False
        self.serves_others = serves_others
        self.ended = trio.Event()
        self.leaving = trio.Event()
        """Set when the client is about to be closed: it waits for no listener any more."""
        self.failure: BaseException | None = None
        """The error that ended the client while it was open."""

    def start(self) -> None:
        """Begin to open it. Called in the core's thread, as everything below."""
        self._begun = True
        try:
            if self._counts:
                self._portal.admit()
            elif self._portal.over:
                raise PortalEnded
        except PortalEnded as error:
            self._ended(error)
            return
        self._portal.hosted[self] = None
        try:
            trio.lowlevel.spawn_system_task(self._run, context=self._context)
        except RuntimeError:  # so late that no task may begin any more
            self._end(PortalEnded())

    def leave(self) -> None:
        """Leave the block as after its last line."""
        self.leaving.set()
        self._stop.set()

    def cancel(self) -> None:
        """Leave the block as by a cancellation; before ``start``, never enter it."""
        self.leaving.set()
        if not self._begun:
            self._ended(ClientClosed("client"))
        elif not self._portal.over:
            self._scope.cancel()

    async def _run(self) -> None:
        error: BaseException | None = None
        is_open = False
        try:
            with self._scope:
                async with self._opener() as client:
                    self._opened(client)
                    is_open = True
                    await self._stay()
                    is_open = False
        except trio.Cancelled:  # the core ends
            error = ClientClosed("client")
        except BaseException as failure:  # it goes to the caller that closes the client
            error = failure
            if is_open:  # which may be long after
                self.failure = failure
                LOGGER.exception("a client is closed by an error")
        self.leaving.set()
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        del self._portal.hosted[self]
        self.ended.set()
        if self._counts:
            self._portal.release()
        self._ended(error)

    async def _stay(self) -> None:
        while not self._stop.is_set():
            with trio.move_on_after(LOOK_S):
                await self._stop.wait()
            if self.is_abandoned():
                LOGGER.warning("a client was not closed, and its event loop is gone")
                if self.serves_others:
                    await self._portal.outstay_users(self)
                self.cancel()


@final
class Callback(Generic[T]):
    """A function of the application, at work outside of the core; a task of the core waits."""

    def __init__(self, portal: Portal, function: Callable[[], Any]) -> None:
        self._portal = portal
        self.function = function
        """The function to call, or, for asyncio, to call and await."""
        self.context = copy_context()
        """The waiting task's: what is open there, a span perhaps, is open in ``function``."""
        self.over = trio.Event()
        self.cancel: Callable[[], object] = lambda: None
        """Asks the thread or task that runs it to stop; set by that one."""
        self.begun = False
        """True once ``function`` is called; set by a task that may be cancelled before."""
        self.was_cancelled = False
        """True if it was stopped before it had an outcome."""
        self._value: T | None = None
        self._error: BaseException | None = None
        self._at_end: Callable[[], object] | None = None

    def at_end(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` in the core's thread when the function has ended."""
        self._at_end = callback

    def finish(
        self, value: T | None, error: BaseException | None, *, cancelled: bool = False
    ) -> None:
        """Note the function's outcome. Called in any thread."""

        if error is not None and not isinstance(error, Exception):
            # No reason for the core to end: SystemExit in a thread, a task that was cancelled.
            failure = RuntimeError(f"the application's function ended by {error!r}")
            failure.__cause__, error = error, failure

        def complete() -> None:
            self._value, self._error, self.was_cancelled = value, error, cancelled
            if self._portal.over:
                return
            if self._at_end is not None:
                self._at_end()
            self.over.set()

        try:
            self._portal.post(complete)
        except ClientClosed:
            LOGGER.info("%s ended after its client was closed", self.function)

    def result(self) -> T:
        """Return the function's result, or raise its error."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # without an error there is a value
