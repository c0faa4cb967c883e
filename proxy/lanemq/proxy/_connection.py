"""One connection of a server: reads, dispatches a whole read at once, answers it with one send.

The cost of a request is decided here, so the loop is flat: no task, no lock, no cancel scope
and no timer per frame. Times are checked by the server's sweep.
"""

import inspect
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, final

import trio

from lanemq.wire import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    Frame,
    HostAddress,
    Refused,
    RemoteProtocolError,
    ResponseCode,
    decode_split,
    encode_frame,
    split_frames,
)

from ._dispatch import Reply, encoded, failure, overloaded, unsupported
from ._session import Session
from ._transport import GONE, Transport

if TYPE_CHECKING:
    from ._server import Server

LOGGER = logging.getLogger("lanemq.proxy.connection")

_TLS_HANDSHAKE = 0x16

# A peer that is served alone gets its next request looked for before the task sleeps (ADR 004).
_ALONE_READS = 16
"""So many reads in a row must have been this connection's."""
_LOOKS = 25
"""Each takes about a microsecond and a half."""
_READS_UNSHARED = 8
"""Then everything else of the process has its turn, whether anything waits or not."""
_MISS_COSTS = 4
"""Reads without a look after one that found nothing."""


@final
class ServerConnection:
    """Owned by the task that runs ``run``; ``write`` and ``abort`` may be called by any."""

    def __init__(
        self,
        server: "Server",
        transport: Transport,
        *,
        session_id: int,
        peer: HostAddress,
        local_port: int,
    ) -> None:
        self._server = server
        self._transport = transport
        self._buffer = bytearray()
        self._nursery: trio.Nursery | None = None
        self._greeted = False
        self._unshared_reads = 0
        self._unsent: list[bytes | memoryview] = []
        self._writing = False
        self._drained: trio.Event | None = None
        self.dirty = False
        self.in_flight = 0
        self.unsent_bytes = 0
        now_s = trio.current_time()
        self.active_s = now_s
        self.wrote_s = now_s
        self.frame_since_s: float | None = None
        self.session = Session(self, session_id=session_id, peer=peer, local_port=local_port)

    async def run(self) -> None:
        """Serve the peer until either side ends the connection."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                try:
                    await self._read()
                except GONE as error:
                    LOGGER.debug("%s: %s", self.session.peer, error)
                nursery.cancel_scope.cancel()
        finally:
            self._nursery = None
            await self._transport.close()
            self._unsent.clear()
            self.session.ended()

    async def _read(self) -> None:
        pause_bytes = self._server.limits.unsent_pause_bytes
        while data := await self._receive():
            if not self._greeted:
                self._greeted = True
                if data[0] == _TLS_HANDSHAKE:
                    LOGGER.warning(
                        "%s speaks TLS, which this port does not; connection closed",
                        self.session.peer,
                    )
                    return
            self.active_s = trio.current_time()
            if not self._process(data):
                await self.drained()
                return
            if self.unsent_bytes > pause_bytes:
                await self.drained()

    async def _receive(self) -> bytes:
        """The next bytes of the peer; none at its end."""
        server = self._server
        if server.served is not self:
            server.served, server.served_reads = self, 0
        elif server.served_reads < _ALONE_READS:
            server.served_reads += 1
        elif self._unshared_reads < _READS_UNSHARED:
            try_receive = self._transport.try_receive
            for _ in range(_LOOKS):
                data = try_receive()
                if data is not None:
                    self._unshared_reads += 1
                    return data
            server.served_reads -= _MISS_COSTS
        self._unshared_reads = 0
        return await self._transport.receive()

    def _process(self, data: bytes) -> bool:
        """Answer every request that is complete now; False when framing is lost."""
        server, session, buffer = self._server, self.session, self._buffer
        table, max_bytes = server.handlers.table, server.limits.frame_max_bytes
        replies: list[bytes] = []
        answered: list[Frame] = []
        waiting: list[tuple[Awaitable[Reply], Frame]] = []
        whole, progressed = True, False
        buffer += data
        server.in_batch = True
        try:
            while buffer and (splits := split_frames(buffer, max_frame_bytes=max_bytes)):
                progressed = True
                for split in splits:
                    frame = decode_split(split)
                    flag = frame.flag
                    if flag & FLAG_RESPONSE:
                        session.resolve(frame)
                        continue
                    session.version = frame.version
                    session.language = frame.language
                    handler = table.get(frame.code)
                    try:
                        reply = unsupported(frame) if handler is None else handler(frame, session)
                        if isinstance(reply, Frame):
                            reply = encode_frame(reply)
                    except Exception as error:  # costs one request, not the connection
                        reply = encode_frame(failure(frame, session, error))
                    if reply is None:
                        continue
                    if not isinstance(reply, bytes):
                        waiting.append((reply, frame))
                    elif not flag & FLAG_ONEWAY:
                        replies.append(reply)
                        answered.append(frame)
        except RemoteProtocolError as error:
            LOGGER.warning("%s: %s; connection closed", session.peer, error)
            whole = False
        finally:
            server.in_batch = False
        if not buffer:
            self.frame_since_s = None
        elif progressed or self.frame_since_s is None:
            self.frame_since_s = self.active_s
        try:
            for hook in server.after_batch:
                hook()
        except Exception as error:  # nothing this batch did may count as done
            replies = self._refuse_batch(error, answered, waiting)
        else:
            for awaitable, request in waiting:
                self._start(awaitable, request, replies)
        if replies:
            self.queue(replies)
        if server.dirty:
            server.flush()
        server.settle()
        return whole

    def _refuse_batch(
        self,
        error: Exception,
        answered: list[Frame],
        waiting: list[tuple[Awaitable[Reply], Frame]],
    ) -> list[bytes]:
        """The replies to a batch whose hook failed: the same refusal to each request."""
        if not isinstance(error, Refused):
            LOGGER.error("a batch of %s could not be completed", self.session.peer, exc_info=error)
            error = Refused(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        for awaitable, request in waiting:
            if inspect.iscoroutine(awaitable):
                awaitable.close()
            if not request.is_oneway:
                answered.append(request)
        return [encode_frame(failure(request, self.session, error)) for request in answered]

    def _start(self, awaitable: Awaitable[Reply], request: Frame, replies: list[bytes]) -> None:
        """Let a handler that waits go on beside the connection, if the budget allows it."""
        server = self._server
        limits = server.limits
        if (
            self.in_flight >= limits.in_flight_per_connection
            or server.in_flight >= limits.in_flight_total
            or self._nursery is None
        ):
            if inspect.iscoroutine(awaitable):
                awaitable.close()
            if not request.is_oneway:
                replies.append(encode_frame(overloaded(request)))
            return
        self.in_flight += 1
        server.in_flight += 1
        self._nursery.start_soon(self._finish, awaitable, request)

    async def _finish(self, awaitable: Awaitable[Reply], request: Frame) -> None:
        try:
            reply = await awaitable
            data = None if reply is None else encoded(reply)
        except Exception as error:  # costs one request, not the connection
            data = encode_frame(failure(request, self.session, error))
        finally:
            self.in_flight -= 1
            self._server.in_flight -= 1
        if data is not None and not request.is_oneway and self._nursery is not None:
            self.queue([data])
            self.active_s = trio.current_time()
            await self._server.flush_soon()

    def write(self, data: bytes) -> None:
        """Send ``data`` now, or, while a batch is being handled, with the batch's replies."""
        if self._nursery is None:
            return  # not there any more; whoever waits for an answer has seen it close
        self.queue([data])
        if not self._server.in_batch:
            self.active_s = trio.current_time()
            self._server.flush()

    def queue(self, pieces: list[bytes]) -> None:
        """Put pieces behind what is unsent; the server's next ``flush`` sends them."""
        self._unsent += pieces
        self.unsent_bytes += sum(map(len, pieces))
        if not self.dirty:
            self.dirty = True
            self._server.dirty.append(self)

    def flush(self) -> None:
        """Send what is unsent as far as the peer takes it at once; a task sends the rest."""
        self.dirty = False
        if self._nursery is None:
            return
        if self._writing:
            self._check_unsent()
            return
        pieces = self._unsent
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._unsent = []
        try:
            sent = self._transport.try_send(data)
        except GONE as error:
            LOGGER.debug("%s: %s", self.session.peer, error)
            self.abort()
            return
        self.unsent_bytes -= sent
        if sent == len(data):
            return
        self._unsent.append(memoryview(data)[sent:])
        self.wrote_s = trio.current_time()
        self._writing = True
        self._nursery.start_soon(self._write)
        self._check_unsent()

    def _check_unsent(self) -> None:
        if self.unsent_bytes > self._server.limits.unsent_max_bytes:
            LOGGER.warning("%s does not read its answers; connection closed", self.session.peer)
            self.abort()

    async def _write(self) -> None:
        """Send the rest of what ``flush`` could not; ends when nothing is left."""
        try:
            while self._unsent:
                pieces, self._unsent = self._unsent, []
                view = memoryview(b"".join(pieces))
                while view:
                    sent = await self._transport.send(view)
                    self.unsent_bytes -= sent
                    self.wrote_s = self.active_s = trio.current_time()
                    view = view[sent:]
        except GONE as error:
            LOGGER.debug("%s: %s", self.session.peer, error)
            self.abort()
        finally:
            self._writing = False
            if self._drained is not None:
                self._drained.set()

    async def drained(self) -> None:
        """Wait until the peer has taken everything (or is gone)."""
        while self._writing:
            self._drained = trio.Event()
            await self._drained.wait()

    def check_times(self, now_s: float) -> None:
        """Close the connection if one of the times of ``Limits`` has passed."""
        limits, peer = self._server.limits, self.session.peer
        if self._writing and now_s - self.wrote_s > limits.write_stall_s:
            LOGGER.warning("%s does not read its answers; connection closed", peer)
        elif self.frame_since_s is not None and now_s - self.frame_since_s > limits.frame_s:
            LOGGER.warning(
                "%s did not finish a frame in %g s; connection closed", peer, limits.frame_s
            )
        elif now_s - self.active_s > limits.idle_s:
            LOGGER.info("%s was idle for %g s; connection closed", peer, limits.idle_s)
        else:
            return
        self.abort()

    def abort(self) -> None:
        """End the connection from our side. What is not sent yet is lost."""
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()
