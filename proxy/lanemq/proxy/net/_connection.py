"""One connection of a server: reads, dispatches a whole read at once, answers it with one send.

The cost of a request is decided here, so the loop is flat: no task, no lock, no cancel scope
and no timer per frame. Times are checked by the server's sweep.
"""

from collections.abc import Callable
from itertools import chain
from time import perf_counter
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.wire import HostAddress, RemoteProtocolError
from lanemq.wire.frame import FLAG_ONEWAY, FLAG_RESPONSE, Connection, Frame, encode_frame

from ._answers import Encoded
from ._batch import Batch
from ._dispatch import failure
from ._exchange import Exchange
from ._greeting import greet
from ._in_flight import InFlight
from ._outbox import Outbox
from ._session import Session
from ._stored_reply import StoredReply
from ._unchecked import Unchecked
from .transport._tls import HANDSHAKE
from .transport._tls_transport import TlsBroken
from .transport._transport import GONE, Transport

LOGGER = get_logger("lanemq.proxy.connection", by_peers=True)

# A peer that is served alone gets its next request looked for before the task sleeps (ADR 004).
_ALONE_READS = 16
"""Number of reads in a row that must have been this connection's."""
_LOOKS = 25
"""Number of looks for further requests; each takes about a microsecond and a half."""
_READS_UNSHARED = 8
"""Number of reads after which everything else of the process has its turn, in any case."""
_MISS_COSTS = 4
"""Number of reads without a look after a look that found nothing."""

_MIB: Final = 1 << 20


@final
class ServerConnection:
    """A connection, owned by the task in ``run``; any task may call ``write`` and ``abort``."""

    def __init__(
        self,
        server: Exchange,
        transport: Transport,
        *,
        session_id: int,
        peer: HostAddress,
        local_port: int,
    ) -> None:
        self._server = server
        self._transport: Transport = transport
        self._protocol = Connection(max_frame_bytes=server.limits.frame_max_bytes)
        self._nursery: trio.Nursery | None = None
        self._reading = trio.CancelScope()
        self._greeted = self._has_rest = False
        self._unshared_reads = self._charged_bytes = 0
        self._unanswered: Batch | None = None
        self._unchecked: Unchecked | None = None
        self._last: Frame | None = None
        self.encoded = server.encoded
        self.next_opaque = self._protocol.next_opaque
        self.account = server.budget.open(self._relieve)
        self.session = Session(self, session_id, peer, local_port)
        self.outbox = Outbox(server, transport, peer=peer, account=self.account, give_up=self.abort)
        self.in_flight = InFlight(
            server, session=self.session, account=self.account, outbox=self.outbox
        )
        self._active_s = trio.current_time()
        self._frame_since_s: float | None = None

    async def run(self) -> None:
        """Serve the peer until either side ends the connection."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                self.outbox.open(nursery)
                try:
                    with self._reading:
                        await self._read()
                except TlsBroken as why:
                    LOGGER.warning("%s: broken TLS: %s; connection closed", self.session.peer, why)
                except GONE as error:
                    LOGGER.debug("%s: %s", self.session.peer, error)
                finally:
                    self.outbox.close()  # the nursery takes no more tasks before its block ends
                await self.in_flight.end()
                nursery.cancel_scope.cancel()
        finally:
            self._nursery = None
            await self._transport.close()
            self._forget()
            await self._server.watch.ended(self.session)

    async def _read(self) -> None:
        server, outbox, in_flight = self._server, self.outbox, self.in_flight
        limits, session, turn = server.limits, self.session, server.watch.turn
        while data := await self._receive():
            if not self._greeted:
                self._greeted = True
                if data[0] == HANDSHAKE or server.tls.is_enforced:
                    peer, account = session.peer, self.account
                    greeted = await greet(server, self._transport, data, peer=peer, account=account)
                    if greeted is None or not greeted[1]:
                        return
                    self._transport, data = greeted
                    outbox.transport = self._transport
            self._active_s = trio.current_time()
            if not turn.is_free:
                await turn.begin(session)
            whole = self._process(data)
            if self._unanswered is not None:
                await self._answer_later(self._unanswered)
            while self._has_rest and whole:
                await trio.lowlevel.checkpoint()
                await outbox.drained()
                if self._unchecked is not None:
                    await self._unchecked
                await turn.begin(session)
                whole = self._process(b"")
                if self._unanswered is not None:
                    await self._answer_later(self._unanswered)
            if not whole:
                await outbox.drained()
                return
            if outbox.unsent_bytes > limits.unsent_pause_bytes:
                await outbox.drained()
            if session.held_by is not None:
                held_by, session.held_by = session.held_by, None
                await held_by()
            if in_flight.kept_bytes > limits.in_flight_pause_bytes:
                await in_flight.fewer()

    async def _receive(self) -> bytes:
        """Receive the next bytes of the peer; none at its end."""
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
        """Answer the requests that are complete with ``data``; False when framing is lost.

        It stops when there are as many answers as may be unsent, or when it has taken its time,
        and goes on where it stopped (``_has_rest``) when it is called again.
        """
        server, protocol, watch = self._server, self._protocol, self._server.watch
        started_s = watch.begin(self.session)
        if data:
            protocol.receive_data(data)
        cuts, whole = protocol.cuts, True
        batch = Batch(self.session)
        server.in_batch = True
        try:
            self._has_rest = self._handle(batch, watch.slice_until_s())
        except RemoteProtocolError as error:
            LOGGER.warning("%s: %s; connection closed", self.session.peer, error)
            whole, self._has_rest = False, False
        finally:
            server.in_batch = False
        if self._has_rest or self._charged_bytes or protocol.is_mid_frame:
            self._note_rest(has_new=protocol.cuts != cuts)
        try:
            batch.steps = [step for hook in server.after_batch if (step := hook()) is not None]
        except Exception as error:
            batch.refuse(error)
        if batch.steps:
            self._unanswered = batch
        else:
            self._answer(batch)
        if server.dirty:
            server.flush()
        server.finish_batch()
        if watch.is_held_since(started_s):
            handled = [*batch.answered, *(request for _, request in batch.waiting), self._last]
            watch.requests_held(self.session.peer, [one.code for one in handled if one])
        return whole

    def _answer(self, batch: Batch) -> None:
        """Let the answers of a batch leave with the next ``flush``."""
        for awaitable, request in batch.waiting:
            self.in_flight.start(awaitable, request, self._nursery, batch.replies)
        if batch.replies:
            self.outbox.queue(batch.replies, has_stored=batch.has_stored)

    async def _answer_later(self, batch: Batch) -> None:
        self._unanswered = None
        await batch.steps_done()
        self._active_s = trio.current_time()
        self._answer(batch)
        self._server.flush()

    def _handle(self, batch: Batch, until_s: float) -> bool:
        """Handle requests and answers while one more like the last ends by ``until_s``; returns
        whether some may be left."""
        replies, answered, waiting = batch.replies, batch.answered, batch.waiting
        session, server, now_s = self.session, self._server, self._server.watch.mark_s
        table, encoders = server.table, server.handlers.encoders
        room_bytes = server.limits.unsent_pause_bytes - self.outbox.unsent_bytes
        frames, checked = self._protocol.frames(), self._unchecked
        if checked is not None:
            frames, self._unchecked = chain((checked.frame,), frames), None
        for frame in frames:
            flag = frame.flag
            if flag & FLAG_RESPONSE:
                session.resolve(frame)
                last_s, now_s = now_s, perf_counter()
                if now_s + now_s - last_s > until_s:
                    return True
                continue
            session.version = frame.version
            session.language = frame.language
            self._last, handler = frame, table.get(frame.code, server.unsupported)
            if checked is not None:
                handler, checked = checked.handle, None
            reply: Encoded | None = None
            try:
                answer = handler(frame, session)
                encode = encoders.get(type(answer))  # type: ignore[arg-type] # None for others
                if encode is not None:
                    if not flag & FLAG_ONEWAY:
                        reply = encode(frame, answer)
                elif type(answer) is Unchecked:
                    self._unchecked = answer
                    return True
                elif answer is not None:
                    waiting.append((answer, frame))  # type: ignore[arg-type] # a coroutine
            except Exception as error:  # costs one request, not the connection
                refusal = failure(frame, session, error)
                if not flag & FLAG_ONEWAY:
                    reply = encode_frame(refusal)
            if reply is not None:
                replies.append(reply)
                answered.append(frame)
                room_bytes -= len(reply)
                if type(reply) is StoredReply:
                    batch.has_stored = True
            last_s, now_s = now_s, perf_counter()
            if room_bytes < 0 or now_s + now_s - last_s > until_s:
                return True
        return False

    def _note_rest(self, *, has_new: bool) -> None:
        """Note the begin of the peer's unfinished frame, and charge the bytes kept of it."""
        protocol = self._protocol
        if self._has_rest or not protocol.is_mid_frame:  # a rest may be whole frames
            self._frame_since_s = None
        elif has_new or self._frame_since_s is None:
            self._frame_since_s = trio.current_time()
        kept_bytes = protocol.kept_bytes
        if kept_bytes != self._charged_bytes:
            charge, self._charged_bytes = kept_bytes - self._charged_bytes, kept_bytes
            self.account.add(charge)

    def write(self, *pieces: Encoded) -> None:
        """Send frames now, or, while a batch is being handled, with the batch's replies."""
        if not self.outbox.is_open:
            return  # gone; a peer that waits for an answer has seen it close
        self.outbox.queue(list(pieces), has_stored=StoredReply in map(type, pieces))
        if not self._server.in_batch:
            self._active_s = trio.current_time()
            self._server.flush()

    @property
    def has_room(self) -> bool:
        """True where the peer has taken most of its answers."""
        return self.outbox.has_room

    def when_room(self, answer: Callable[[], None]) -> Callable[[], object]:
        """Call ``answer``, which sends something, once the peer has taken most of its answers."""
        return self.outbox.when_room(answer)

    def check_times(self, now_s: float) -> None:
        """Close the connection if one of the times of ``Limits`` has passed."""
        limits, peer, outbox = self._server.limits, self.session.peer, self.outbox
        active_s = max(self._active_s, outbox.wrote_s, self.in_flight.answered_s)
        if outbox.is_writing and now_s - outbox.wrote_s > limits.write_stall_s:
            LOGGER.warning("%s does not read its answers; connection closed", peer)
        elif self._frame_since_s is not None and now_s - self._frame_since_s > limits.frame_s:
            LOGGER.warning(
                "%s did not finish a frame in %g s; connection closed", peer, limits.frame_s
            )
        elif now_s - active_s > limits.idle_s:
            LOGGER.info("%s was idle for %g s; connection closed", peer, limits.idle_s)
        else:
            return
        self.abort()

    def abort(self) -> None:
        """End the connection from our side. Unsent data is lost."""
        if self._nursery is not None:
            self._reading.cancel()
            self._forget()

    def _forget(self) -> None:
        """Free everything kept for the peer now, rather than when the garbage is collected.

        (A connection and its session know each other.)
        """
        self.account.close()
        self._protocol.clear()
        self.outbox.close()

    def _relieve(self) -> None:
        LOGGER.warning(
            "%s keeps %.1f MiB (unfinished requests, unread answers, clients), the most of all "
            "peers, which may keep %.1f MiB together; connection closed",
            self.session.peer,
            self.account.kept_bytes / _MIB,
            self._server.budget.limit_bytes / _MIB,
        )
        self.abort()
        self.account.close()
