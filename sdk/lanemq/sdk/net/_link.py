"""A connection to one server: many requests under way, answers matched by opaque.

The protocol is `lanemq.wire.Connection`, which does no I/O; this module gives it a stream.
Reproduces what NettyRemotingAbstract and NettyRemotingClient do for one channel.
"""

import itertools
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import final

import trio
from msgspec.structs import replace

from lanemq.wire import ProtocolError
from lanemq.wire.frame import Connection, Frame, PeerClosed, encode_frame

from .._errors import BrokerUnreachable, RequestTimedOut
from ..observe._log import get_logger
from ._outbox import Outbox, encoded
from ._served import ServedRequests
from ._timeouts import OnAnswer, Timeouts
from ._tls_errors import why_broken

LOGGER = get_logger("lanemq.sdk.remoting")

Dial = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""Opens a stream to (host, port); raises OSError."""

Serve = Callable[["Link", Frame], Awaitable[None] | None]
"""Handles a request that the server sent. An awaitable that it returns runs in a task."""

RECEIVE_BYTES = 65_536
# A call that times out on a connection on which nothing was heard for this long takes it for
# dead and breaks it, so that the next call dials again. (The Java client breaks it at once.)
SILENCE_MAX_S = 10.0

_NUMBERS = itertools.count(1)


@final
class Link:
    """A connection that is being opened, open, or broken for good.

    Writing never happens inside a caller: a frame is handed to the kernel in one call that
    does not block, or appended to a buffer that one task writes. So a cancelled caller leaves
    no half frame behind, and its late answer finds nobody waiting and is dropped.
    """

    def __init__(
        self, address: str, *, serve: Serve, on_broken: Callable[["Link"], None], max_bytes: int
    ) -> None:
        self.address = address
        self.number = next(_NUMBERS)
        self.broken: str | None = None
        self.last_heard_s = 0.0
        self._on_broken = on_broken
        self._protocol = Connection(max_frame_bytes=max_bytes)
        self._calls = Timeouts()
        self._opened = trio.Event()
        self._stream: trio.abc.Stream | None = None
        self._outbox = Outbox()
        self._requests = ServedRequests(address, partial(serve, self), self.post, self._outbox)
        self._tends = 0  # that have begun
        self._asked_for = -1  # the number of them when the core was asked for the next one
        self._scope = trio.CancelScope(shield=True)

    # The task that owns the connection

    async def run(self, dial: Dial, host: str, port: int, *, connect_timeout_s: float) -> None:
        """Connect, then read until the connection breaks. Never raises for the network's sake.

        Shielded: a client that is cancelled still has progress to report. Only ``break_off``
        ends it, which closing the client does.
        """
        with self._scope:
            await self._run(dial, host, port, connect_timeout_s)
        if self._stream is not None:
            await trio.aclose_forcefully(self._stream)

    async def _run(self, dial: Dial, host: str, port: int, connect_timeout_s: float) -> None:
        reason = "the client was closed"
        try:
            try:
                with trio.fail_after(connect_timeout_s):
                    self._stream = stream = await dial(host, port)
            except trio.TooSlowError:
                reason = f"cannot connect within {connect_timeout_s:g} s"
                return
            except (ValueError, UnicodeError) as error:  # no name that a host can have
                reason = f"cannot connect: {host!a} is not the name of a host: {error}"
                return
            except OSError as error:
                cause = error.__cause__  # trio's own text leaves out the reason
                reason = f"cannot connect: {cause if isinstance(cause, OSError) else error}"
                return
            self._outbox.open(stream)
            self.last_heard_s = trio.current_time()
            self._opened.set()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write_loop)
                nursery.start_soon(self._calls.watch)
                reason = await self._read_loop(nursery)
                self.break_off(reason)  # before the writer fails, which knows less
                nursery.cancel_scope.cancel()
        finally:
            self.break_off(reason)

    async def _read_loop(self, nursery: trio.Nursery) -> str:
        """Read until the end; say why it ended."""
        protocol, answer, stream = self._protocol, self._calls.answer, self._stream
        assert stream is not None
        fd = stream.socket.fileno() if isinstance(stream, trio.SocketStream) else -1
        try:
            while self.broken is None:
                if fd >= 0:
                    await trio.lowlevel.wait_readable(fd)
                    try:
                        data = os.read(fd, RECEIVE_BYTES)
                    except BlockingIOError:
                        continue
                else:
                    data = bytes(await stream.receive_some(RECEIVE_BYTES))
                self.last_heard_s = trio.current_time()
                protocol.receive_data(data)
                answers = 0
                for frame in protocol.frames():
                    if frame.is_response:
                        answers += 1
                        answer(frame.opaque, frame)
                    elif self._requests.take(frame, nursery):
                        await trio.lowlevel.checkpoint()
                if not data and isinstance(protocol.next_event(), PeerClosed):
                    return "the server closed the connection"
                # Callers woken together will write together: let the writer join their frames.
                self._outbox.bursts = answers > 1
        except ProtocolError as error:
            LOGGER.warning("%s: closing the connection: %s", self.address, error)
            return f"the server broke the protocol: {error}"
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            return f"the connection broke: {why_broken(error)}"
        return self.broken

    async def _write_loop(self) -> None:
        try:
            await self._outbox.write_all()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            # The reader may know the reason.
            await trio.lowlevel.cancel_shielded_checkpoint()
            self.break_off(f"the connection broke: {why_broken(error)}")

    # What callers use

    def post(self, frame: Frame) -> None:
        """Answer the server without waiting; on a broken link the answer is dropped."""
        self._post(encode_frame(frame), is_answer=True)

    def _post(self, data: bytes, *, is_answer: bool = False) -> None:
        if self.broken is None:
            error = self._outbox.post(data, is_answer=is_answer)
            if error is not None:
                self.break_off(f"the connection broke: {error}")

    async def ready(self) -> None:
        """Wait until the link is open and its buffer has room; raise ``BrokerUnreachable``."""
        while True:
            if self.broken is not None:
                raise BrokerUnreachable(self.address, self.broken)
            if not self._opened.is_set():
                await self._opened.wait()
            elif self._outbox.is_full:
                await self._outbox.room()
            else:
                return

    async def flushed(self) -> None:
        """Wait until everything posted so far is with the kernel, or the link is broken."""
        await self._outbox.flushed()

    async def deliver(self, frame: Frame, timeout_s: float) -> None:
        """Send a request that is not answered, and wait until the kernel has it.

        Raises ``BrokerUnreachable``, also when that takes longer than ``timeout_s`` seconds;
        then it may still be sent.
        """
        deadline_s = trio.current_time() + timeout_s
        if not self._opened.is_set() or self._outbox.is_full:
            with trio.move_on_at(deadline_s) as scope:
                await self.ready()
            if scope.cancelled_caught:
                raise self._took_nothing(timeout_s)
        self._post(encoded(frame))
        if not self._outbox.is_empty:
            with trio.move_on_at(deadline_s) as scope:
                await self.flushed()
            if scope.cancelled_caught:
                raise self._took_nothing(timeout_s)
        if self.broken is not None:
            raise BrokerUnreachable(self.address, self.broken)

    def _took_nothing(self, timeout_s: float) -> BrokerUnreachable:
        return BrokerUnreachable(self.address, f"its connection took nothing for {timeout_s:g} s")

    async def call(self, frame: Frame, timeout_s: float) -> Frame:
        """Send a request and wait for its answer, of any code.

        ``frame.opaque`` is replaced by a number of this connection's own. Raises
        ``BrokerUnreachable`` and ``RequestTimedOut``. Cancelling is clean: the connection goes
        on, and an answer that still comes is dropped.
        """
        deadline_s = trio.current_time() + timeout_s
        if not self._opened.is_set() or self._outbox.is_full:
            with trio.move_on_at(deadline_s) as scope:
                await self.ready()
            if scope.cancelled_caught:
                raise RequestTimedOut(self.address, frame.code, timeout_s)
        opaque = self._protocol.next_opaque()
        self._post(encoded(replace(frame, opaque=opaque)))
        if self.broken is not None:
            raise BrokerUnreachable(self.address, self.broken)
        # The answer cannot come before this task sleeps: the reader runs in between only.
        return self.answered(await self._calls.wait(opaque, deadline_s), frame.code, timeout_s)

    def answered(self, answer: object, code: int, timeout_s: float) -> Frame:
        """Return the answer to a request of ``code``, or raise what there is in place of one."""
        if isinstance(answer, Frame):
            return answer
        if isinstance(answer, Exception):
            raise answer
        if trio.current_time() - self.last_heard_s > SILENCE_MAX_S:
            self.break_off(f"nothing heard for more than {SILENCE_MAX_S:g} s")
        raise RequestTimedOut(self.address, code, timeout_s)

    def tend(self) -> None:
        """Do what requests of other threads need of the core."""
        self._tends += 1
        if self.broken is None and (error := self._outbox.tend()) is not None:
            self.break_off(f"the connection broke: {error}")
        self._calls.look()

    def break_off(self, reason: str) -> None:
        """Refuse further use and wake every caller that waits. Idempotent."""
        if self.broken is not None:
            return
        self.broken = reason
        self._outbox.close()
        self._on_broken(self)
        self._opened.set()
        self._scope.cancel()
        self._calls.fail_all(BrokerUnreachable, self.address, reason)

    # What other threads use

    def next_number(self) -> int:
        """Return a number of this connection's own for a request to ``submit``."""
        return self._protocol.next_opaque()

    def submit(
        self,
        data: bytes,
        number: int,
        deadline_s: float,
        on_answer: OnAnswer,
        post: Callable[[Callable[[], object]], object],
    ) -> bool:
        """Send a request; return False if a task of the core has to wait until it can be sent.

        ``on_answer`` is called once, in the core's thread, with what ``answered`` reads; ``post``
        has a function called there.
        """
        calls = self._calls
        if not self._opened.is_set() or self._outbox.is_full:
            return False
        is_alone = not calls
        has_to_look = calls.add(number, deadline_s, on_answer)
        if self.broken is not None:  # then the call was failed by that, or nothing will end it
            return not calls.forget(number)
        if self._outbox.add(data, directly=is_alone) or has_to_look:
            tends = self._tends
            if self._asked_for != tends:  # else it is about to tend, and finds this request
                post(self.tend)
                # After the call: an interruption must not leave a mark without a call.
                self._asked_for = tends
        return True

    def forget(self, number: int) -> None:
        """Drop a submitted request: its answer goes nowhere."""
        self._calls.forget(number)
