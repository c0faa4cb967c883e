"""A client's own connection to a broker: what it asks goes there, what comes back goes to it.

Numbers of requests stay as they are in both directions, since the connection has one client. The
end of one side is the end of the other: a client that is to be known to a broker again does what it
does when that broker has restarted. At an added broker's port a client may have several links, and
the end of one refuses what it waits for there, no more.
"""

import os
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, final

import trio

from lanemq.local import get_logger
from lanemq.wire import ProtocolError
from lanemq.wire.frame import (
    FLAG_ONEWAY,
    Connection,
    Frame,
    NeedData,
    PeerClosed,
    SerializeType,
    encode_frame,
)

from ..net._loop_watch import loop_watch
from ..net._session import Session
from ._answers import SeenAnswers
from ._asked import REFUSED_MAX, Asked, waits_for_answers
from ._connecting import Connecting, Unreachable
from ._counts import Counts
from ._long_frame import LongFrame

LOGGER = get_logger("lanemq.proxy.gateway.links", by_peers=True)

RECEIVE_BYTES: Final = 65_536
TURN_FRAMES: Final = 128  # a read has thousands of small ones, each to be looked into
HIGH_BYTES: Final = 1 << 20
"""Unsent bytes from which on no more of the client is read."""
NO_LEASE: Final = "the proxy's lease has ended since"
ENDING_S: Final = 0.001
"""Seconds that the end of a link counts for in a turn of the loop, twice: the tasks of both sides
have their ends to run, too, and all links of a broker may end at once."""


@final
class BrokerLink:
    """One connection to a broker, for one session."""

    def __init__(
        self,
        session: Session,
        address: str,
        answers: SeenAnswers,
        counts: Counts,
        name: str,
        receive: Callable[[Sequence[Frame]], None] | None = None,
        era: Callable[[], int] | None = None,
        is_outlived: Callable[[], bool] | None = None,
    ) -> None:
        """``receive`` takes what is for the client in place of the session; without it the end of
        the link is that of the client's connection, unless that outlives it. What was asked in one
        ``era`` gets no answer in another one: the link ends."""
        self.address = address
        """The broker's own address."""
        self.session = session
        self._receive = receive or session.send_all
        self._is_outlived = is_outlived or (lambda: receive is not None)
        self._now_era = era or (lambda: 0)
        self._era = self._now_era()
        self._answers, self._counts, self._name = answers, counts, name
        self._watch = loop_watch()
        self._asked = Asked(is_marked=era is not None)
        self.mark, self.waits_since = self._asked.mark, self._asked.waits_since
        self.sends_since = self._asked.sends_since
        self._long = LongFrame(answers, session, name)
        self._serialize = SerializeType.JSON
        self._protocol = Connection()
        self._stream: trio.abc.Stream | None = None
        self._fd = -1
        self._outgoing: list[bytes] = []
        self._unsent_bytes = self._charged_bytes = 0
        self._writing = False
        self.is_over = False
        """True once it has ended."""
        self._to_write, self._drained = trio.Event(), trio.Event()
        self._scope = trio.CancelScope()

    @property
    def waiting(self) -> int:
        """The number of requests that the broker is to answer at once, and has not yet."""
        return self._asked.waiting

    def renew(self) -> bool:
        """Begin the present era; returns False where requests of an earlier one have no answer."""
        if not self._asked:
            self._era = self._now_era()
        return self._now_era() == self._era

    def post(self, frame: Frame, start: int = 0) -> None:
        """Pass a request of the client on; ``flush`` sends it. ``start`` is as in ``Passed``."""
        if not frame.flag & FLAG_ONEWAY:
            self._asked.add(frame.opaque, frame.code, start)
            self._serialize = frame.serialize
        self._put(frame)

    def post_answer(self, frame: Frame) -> None:
        """Pass the client's answer to a request of the broker on; ``flush`` sends it."""
        self._put(frame)

    def _put(self, frame: Frame) -> None:
        if not self.is_over:
            self._outgoing.append(data := encode_frame(frame))
            self._unsent_bytes += len(data)

    @property
    def is_behind(self) -> bool:
        """True if the broker takes less than the client sends."""
        return self._unsent_bytes > HIGH_BYTES

    async def caught_up(self) -> None:
        """Wait until the broker has taken what is unsent, or the link has ended."""
        while self._unsent_bytes and not self.is_over:
            await self._drained.wait()

    def flush(self) -> None:
        """Send what is posted, as far as the broker takes it at once; a task sends the rest."""
        if not self._outgoing or self.is_over:
            return
        if self._writing:
            self._charge()
            return
        if self._fd >= 0:
            pieces, self._outgoing = self._outgoing, []
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            try:
                sent = os.write(self._fd, data)
            except BlockingIOError:
                sent = 0
            except OSError as error:
                self.end(f"the connection broke: {error}")
                return
            self._unsent_bytes -= sent
            if sent == len(data):
                self._charge()
                return
            self._outgoing = [data[sent:]]
        self._charge()
        self._to_write.set()

    def _charge(self) -> None:
        """Charge the client with what is kept for it here, in both directions."""
        kept_bytes = self._unsent_bytes + self._protocol.kept_bytes + self._asked.charged_bytes
        kept_bytes += self._long.kept_bytes
        charge, self._charged_bytes = kept_bytes - self._charged_bytes, kept_bytes
        if charge:
            self.session.account.add(charge)

    async def run(self, connecting: Connecting, ended: Callable[[], None]) -> None:
        """Connect, and pass on in both directions until one side ends; then end the other."""
        reason = "the client is gone"
        try:
            with self._scope:
                reason = await self._run(connecting)
            await self.end_in_turn(reason)
        except Exception:  # a bug of ours; the other clients go on
            reason = "the proxy failed; its log says why"
            LOGGER.exception("the link of %s to %s failed", self.session.peer, self.address)
        finally:
            self._end(reason)
            ended()
            if self._stream is not None:
                await trio.aclose_forcefully(self._stream)

    async def _run(self, connecting: Connecting) -> str:
        try:
            self._stream = stream = await connecting.connect(self.address)
        except Unreachable as error:
            return str(error)
        if isinstance(stream, trio.SocketStream):
            self._fd = stream.socket.fileno()
        self.flush()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write_loop, stream)
            reason = await self._read_loop(stream)
            nursery.cancel_scope.cancel()
        return reason

    async def _read_loop(self, stream: trio.abc.Stream) -> str:
        session, watch, turn = self.session, self._watch, self._watch.turn
        try:
            while True:
                if self._fd >= 0:
                    await trio.lowlevel.wait_readable(self._fd)
                    if not turn.is_free:
                        await turn.begin(session)  # what is not read yet, nobody has to keep
                    try:
                        data = os.read(self._fd, RECEIVE_BYTES)
                    except BlockingIOError:
                        continue
                else:
                    data = bytes(await stream.receive_some(RECEIVE_BYTES))
                    if not turn.is_free:
                        await turn.begin(session)
                    if self.is_over:
                        return "the client is gone"
                self._protocol.receive_data(data)
                while True:
                    if self._now_era() != self._era:
                        return NO_LEASE
                    watch.mark_s = begun_s = perf_counter()
                    event = self._pass_back()
                    if watch.is_held_since(begun_s):
                        watch.note(f"answers of {self._name} for {session.peer}")
                    if not isinstance(event, Frame):
                        break
                    await self._pass_long_back()
                if isinstance(event, PeerClosed):
                    turn.spend(ENDING_S)
                    return "the broker closed the connection"
                if not session.has_room:
                    await session.room()
        except ProtocolError as error:
            LOGGER.warning("%s (%s): %s", self._name, self.address, error)
            return f"the broker broke the protocol: {error}"
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            turn.spend(ENDING_S)
            return f"the connection broke: {error}"

    def _pass_back(self) -> Frame | NeedData | PeerClosed:
        """Pass on what the broker sent, as far as a turn goes; behind a frame may be more."""
        next_event, seen = self._protocol.next_event, list[Frame]()
        try:
            while isinstance(event := next_event(), Frame):
                self._take(event, seen)
                if self._long or len(seen) >= TURN_FRAMES:
                    break
        finally:  # also what came before bytes that break the protocol
            if seen:
                self._receive(seen)
        self._charge()
        return event

    async def _pass_long_back(self) -> None:
        """Pass on a frame that takes several turns, if there is one; what follows it waits."""
        for frame in await self._long.make():
            if frame.is_response:
                self._asked.take(frame.opaque)
                self._counts.answers += 1
            self._receive([frame])
            self._charge()

    def _take(self, frame: Frame, seen: list[Frame]) -> None:
        if not frame.is_response:
            if not self._long.takes(None, frame):
                seen.append(self._answers.request(frame))
            return
        code = self._asked.code(frame.opaque)
        if code is not None and not self._long.takes(code, frame):
            self._counts.answers += 1
            _, start = self._asked.take(frame.opaque)
            seen.append(self._answers.answer(code, frame, start))

    async def _write_loop(self, stream: trio.abc.Stream) -> None:
        try:
            while True:
                await self._to_write.wait()
                self._to_write = trio.Event()
                self._writing = True
                while self._outgoing:
                    pieces, self._outgoing = self._outgoing, []
                    for piece in pieces:
                        await stream.send_all(piece)
                        self._unsent_bytes -= len(piece)
                        self._charge()
                self._writing = False
                self._drained.set()
                self._drained = trio.Event()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            await trio.lowlevel.cancel_shielded_checkpoint()  # the reader may know the reason
            self.end(f"the connection broke: {error}")

    def end(self, reason: str) -> None:
        """End both sides. Idempotent."""
        self._end(reason)
        self._scope.cancel()

    async def end_in_turn(self, reason: str) -> None:
        """End both sides in a turn of the loop that has time for it: thousands may end at once."""
        if self.is_over:
            return
        turn = self._watch.turn
        await turn.begin(self.session)
        begun_s = perf_counter()
        self.end(reason)
        turn.spend(max(ENDING_S, perf_counter() - begun_s))

    def _end(self, reason: str) -> None:
        """Refuse what the broker has not answered; for sends the end of a connection does it."""
        if self.is_over:
            return
        self.is_over = True
        self._fd = -1
        self._drained.set()
        self._outgoing, self._unsent_bytes = [], 0
        self._protocol.clear()
        self._long.give_up()
        keeps = len(self._asked) <= REFUSED_MAX and self._is_outlived()
        sends = keeps or waits_for_answers(self.session)
        refusals = self._asked.refused(self._serialize, f"{self._name}: {reason}", sends=sends)
        self._charge()
        if (session := self.session).closed:
            return
        LOGGER.info("%s: %s (%s): %s", session.peer, self._name, self.address, reason)
        if refusals:
            self._receive(refusals)
        if not keeps:
            session.close()
