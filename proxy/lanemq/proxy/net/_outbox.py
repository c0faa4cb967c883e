"""The answers on their way to one peer: sent at once as far as it takes them, the rest by a task.

Bytes that are only in the log count as unsent, but not as kept in memory.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from time import perf_counter
from typing import Final, final

import trio
from attrs import define, field

from lanemq.local import get_logger
from lanemq.wire import HostAddress

from ._answers import Encoded
from ._exchange import Exchange
from ._stored_reply import RecordGone, StoredReply
from .limits._budget import Account
from .transport._transport import GONE, Transport

LOGGER = get_logger("lanemq.proxy.connection", by_peers=True)

LATER_OF_A_TURN: Final = 64
"""Answers that waited for room and are made in one turn of the loop, at some 0.1 ms each."""


@final
@define(eq=False, repr=False)
class Outbox:
    """The unsent answers of one connection; nothing is sent but between ``open`` and ``close``."""

    _server: Exchange
    transport: Transport
    """The sender of the answers; it is replaced before there are any."""
    _peer: HostAddress
    _account: Account
    _give_up: Callable[[], None]
    _nursery: trio.Nursery | None = None
    _pieces: list[Encoded | memoryview] = field(factory=list)
    _later: OrderedDict[int, Callable[[], None]] = field(factory=OrderedDict)
    _numbers: Iterator[int] = field(factory=count)
    _stored_bytes: int = 0  # of the unsent, what is in the log only
    _charged_bytes: int = 0
    _dirty: bool = False
    _drained: trio.Event | None = None
    unsent_bytes: int = 0
    is_writing: bool = False
    """True while a task sends what the peer did not take at once."""
    wrote_s: float = field(factory=trio.current_time)
    """Time of the peer's last read of bytes that it did not take at once."""

    def open(self, nursery: trio.Nursery) -> None:
        """Begin to send; tasks that do run in ``nursery``."""
        self._nursery = nursery

    def close(self) -> None:
        """Throw away unsent data, now and from now on."""
        self._nursery = None
        self._pieces.clear()
        self._later.clear()

    @property
    def is_open(self) -> bool:
        """True while anything can still be sent."""
        return self._nursery is not None

    @property
    def has_room(self) -> bool:
        """True where the peer has taken most of its answers, and no other one waits for that."""
        return not self._later and self.unsent_bytes <= self._server.limits.unsent_pause_bytes

    def when_room(self, answer: Callable[[], None]) -> Callable[[], object]:
        """Call ``answer``, which sends something, once the peer has taken most of its answers.

        That is at once where nothing much is unsent; they are called in turn, and not at all
        when the connection ends before, or what is returned is called.
        """
        if self._nursery is None:
            return _nothing
        if self.has_room:
            answer()
            return _nothing
        number = next(self._numbers)
        self._later[number] = answer
        return partial(self._later.pop, number, None)

    def queue(self, pieces: list[Encoded], *, has_stored: bool = False) -> None:
        """Put pieces behind the unsent data; the server's next ``flush`` sends them."""
        if self._nursery is None:
            return
        self._pieces += pieces
        self.unsent_bytes += sum(map(len, pieces))
        if has_stored:
            self._stored_bytes += sum(
                piece.stored_bytes for piece in pieces if isinstance(piece, StoredReply)
            )
        if not self._dirty:
            self._dirty = True
            self._server.dirty.append(self)

    def flush(self) -> None:
        """Send as much unsent data as the peer takes at once; a task sends the rest."""
        self._dirty = False
        nursery = self._nursery
        if nursery is None:
            return
        if self.is_writing:
            self._check()
            return
        if self._stored_bytes:
            self._begin_writing(nursery)
            return
        # Without stored bytes, which would be written in another way, all of them are data.
        pieces: list[bytes | memoryview] = self._pieces  # type: ignore[assignment]
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._pieces = []
        try:
            sent = self.transport.try_send(data)
        except GONE as error:
            LOGGER.debug("%s: %s", self._peer, error)
            self._give_up()
            return
        self.unsent_bytes -= sent
        if sent < len(data):
            self._pieces.append(memoryview(data)[sent:])
        elif not self._later:
            return
        self._begin_writing(nursery)

    async def drained(self) -> None:
        """Wait until the peer has taken everything (or is gone)."""
        while self.is_writing:
            self._drained = trio.Event()
            await self._drained.wait()

    def _begin_writing(self, nursery: trio.Nursery) -> None:
        self.wrote_s = trio.current_time()
        self.is_writing = True
        nursery.start_soon(self._write)
        self._check()

    def _check(self) -> None:
        """Charge the kept bytes, and give up a peer that asks and does not listen."""
        kept_bytes = self.unsent_bytes - self._stored_bytes
        if kept_bytes > self._server.limits.unsent_max_bytes:
            LOGGER.warning("%s does not read its answers; connection closed", self._peer)
            self._give_up()
        elif kept_bytes != self._charged_bytes:
            charge, self._charged_bytes = kept_bytes - self._charged_bytes, kept_bytes
            self._account.add(charge)

    async def _write(self) -> None:
        """Send the rest of what ``flush`` could not send, and what waited for room behind it."""
        pause_bytes = self._server.limits.unsent_pause_bytes
        try:
            while self._pieces or self._later:
                pieces, self._pieces = self._pieces, []
                for view in self._views(pieces):
                    while view:
                        sent = await self.transport.send(view)
                        self.unsent_bytes -= sent
                        self.wrote_s = trio.current_time()
                        view = view[sent:]
                        self._check()
                while self._later and self.unsent_bytes <= pause_bytes:
                    await self._send_later(pause_bytes)
                self._check()
        except GONE as error:
            LOGGER.debug("%s: %s", self._peer, error)
            self._give_up()
        except RecordGone as error:  # half of the answer has left, so nothing else can follow
            LOGGER.warning("%s: %s; connection closed", self._peer, error)
            self._give_up()
        finally:
            self.is_writing = False
            if self._drained is not None:
                self._drained.set()

    async def _send_later(self, pause_bytes: int) -> None:
        """Call some of what waited for room, in a turn of the loop that has time for it: each may
        read messages, and send next to nothing."""
        watch = self._server.watch
        await watch.turn.begin(self)
        watch.mark_s = begun_s = perf_counter()
        until_s = watch.slice_until_s()
        for _ in range(LATER_OF_A_TURN):
            if not self._later or self.unsent_bytes > pause_bytes or perf_counter() > until_s:
                break
            self._later.popitem(last=False)[1]()
        watch.turn.spend(perf_counter() - begun_s)
        await trio.lowlevel.checkpoint()

    def _views(self, pieces: list[Encoded | memoryview]) -> Iterator[memoryview]:
        """Return the unsent bytes for as few sends as possible; stored ones are read in pieces."""
        plain: list[bytes | memoryview] = []
        for piece in pieces:
            if not isinstance(piece, StoredReply):
                plain.append(piece)
                continue
            chunks = piece.chunks()
            plain.append(next(chunks))
            yield memoryview(b"".join(plain))
            plain = []
            for chunk in chunks:
                self._stored_bytes -= len(chunk)
                yield memoryview(chunk)
        yield memoryview(b"".join(plain))


def _nothing() -> None:
    """Take back what waits no more."""
