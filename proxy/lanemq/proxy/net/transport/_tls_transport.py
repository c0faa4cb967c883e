"""TLS between a connection and what carries its bytes: a transport over a transport.

OpenSSL works on two buffers in memory, which this module fills from the transport below and
empties into it; so a stream of a simulation will do as well as a socket.
"""

import ssl
from contextlib import suppress
from time import perf_counter
from typing import Final, final

import trio

from ..limits._budget import Account
from ._transport import GONE, Transport
from ._turn import Turn

RECORD_BYTES: Final = 16 << 10
"""The most that one record of TLS carries. The buffers are filled by so much at a time: they keep
the size that they once had."""
SEND_BYTES: Final = 64 << 10
"""Bytes that are encrypted before the peer has taken them."""
UNSENT_BYTES: Final = SEND_BYTES + RECORD_BYTES
"""Bytes of records that the peer has not taken, above which nothing more of it is read: OpenSSL
answers a KeyUpdate of 27 bytes by as many."""
DATALESS_BYTES: Final = 2 * RECORD_BYTES
"""Bytes that a peer may send without one that is data: twice the longest record, or the 1,200
KeyUpdates that take as many. At some 16 microseconds each they are the dearest bytes of TLS."""
LITTLE_BYTES: Final = 1 << 10
"""Bytes that are decrypted without waiting for a turn, as most requests have fewer."""
HANDSHAKE_BYTES: Final = 48 << 10
"""The memory of a handshake under way, as measured with OpenSSL 3.0."""
SESSION_BYTES: Final = 20 << 10
"""The memory of TLS for a connection that is idle, as measured with OpenSSL 3.0."""

_NOTHING: Final = memoryview(b"")  # a view of no bytes of something would keep all of it

ALERT_S: Final = 1.0
"""Seconds for which a peer that was sent an alert has time to read it."""


class TlsBroken(OSError):  # noqa: N818 - says what happened
    """The peer sent something that is not TLS, in the middle of TLS, or nothing but what is only
    work: records without data, or such as it does not read the answers to."""


@final
class TlsTransport:
    """A ``Transport`` to a peer that speaks TLS, over another transport.

    ``account`` is charged for what OpenSSL keeps, for records that the peer has not taken, and for
    those that wait for a turn. What arrives is decrypted in the time that ``turn`` has. A peer
    that takes none of the answers of TLS for ``stall_s`` seconds, while they hold it up, is broken.
    """

    def __init__(
        self,
        inner: Transport,
        context: ssl.SSLContext,
        *,
        account: Account,
        turn: Turn,
        stall_s: float,
    ) -> None:
        self._inner = inner
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_side=True)
        self._account, self._turn, self._stall_s = account, turn, stall_s
        self._charged_bytes = 0
        self._fixed_bytes = HANDSHAKE_BYTES
        self._undecrypted = _NOTHING  # received, and not given to OpenSSL yet
        self._dataless_bytes = 0
        # Records that the peer has not taken. Those of ``_leaving`` follow once these are gone: to
        # put them together for each that comes would copy all of them each time.
        self._records = _NOTHING
        self._ahead_bytes = 0  # of the caller's unsent bytes, those in ``_records``
        self._sending: trio.Event | None = None  # set when the task that sends has sent some
        self._is_ended = False

    async def shake_hands(self, data: bytes) -> None:
        """Complete the handshake that begins with ``data``; what comes behind it is received.

        Raises ``ssl.SSLError`` where the sides do not agree (see ``alert``), ``EOFError`` where the
        peer leaves, and what a transport raises.
        """
        self._charge()
        while True:
            for start in range(0, len(data), RECORD_BYTES):
                self._arrived.write(data[start : start + RECORD_BYTES])
                if self._step():
                    self._undecrypted = memoryview(data)[start + RECORD_BYTES :]
                    await self._send_records()
                    self._fixed_bytes = SESSION_BYTES
                    self._charge()
                    return
            await self._send_records()
            data = await self._inner.receive()
            if not data:
                raise EOFError

    async def alert(self) -> None:
        """Tell the peer why the handshake failed; returns when it has left, or had time to.

        (A connection that is closed with bytes unread is reset, and what was sent last is lost.)
        """
        with suppress(*GONE), trio.move_on_after(ALERT_S):
            await self._send_records()
            while await self._inner.receive():
                pass

    def _step(self) -> bool:
        """Take the handshake as far as possible; return whether it is complete."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    async def receive(self) -> bytes:
        while not self._is_ended:
            if self._unsent_bytes > UNSENT_BYTES:
                await self._room()
                continue
            if not self._undecrypted_bytes:
                data = await self._inner.receive()
                if not data:
                    break
                self._undecrypted = memoryview(data)
            if not self._turn.is_free and self._undecrypted_bytes > LITTLE_BYTES:
                self._charge()
                await self._turn.begin(self._account)
            if data := self._decrypt():
                return data
        return b""

    def try_receive(self) -> bytes | None:
        if self._is_ended:
            return b""
        if not self._turn.is_free or self._unsent_bytes > UNSENT_BYTES:
            return None  # ``receive`` waits
        if not self._undecrypted_bytes:
            data = self._inner.try_receive()
            if not data:
                return data
            self._undecrypted = memoryview(data)
        return self._decrypt() or (b"" if self._is_ended else None)

    def try_send(self, data: bytes | memoryview) -> int:
        sent, view = 0, memoryview(data)
        while self._flush():
            sent += self._ahead_bytes
            self._ahead_bytes = 0
            if sent >= len(view):
                break
            self._encrypt(view[sent : sent + SEND_BYTES])
        return sent

    async def send(self, data: memoryview) -> int:
        if self._sending is None and not self._records and not self._ahead_bytes:
            self._encrypt(data[:SEND_BYTES])
        await self._send_some()
        if self._records:
            return 0
        sent, self._ahead_bytes = self._ahead_bytes, 0
        return sent

    async def close(self) -> None:
        with suppress(ssl.SSLError, *GONE):
            self._tls.unwrap()
        with suppress(*GONE):
            self._flush()  # the close notification, if there is room for it
        await self._inner.close()

    @property
    def _undecrypted_bytes(self) -> int:
        """The length of what was received, and not decrypted yet."""
        return len(self._undecrypted) + self._arrived.pending

    @property
    def _unsent_bytes(self) -> int:
        """The length of the records that the peer has not taken."""
        return len(self._records) + self._leaving.pending

    def _encrypt(self, data: memoryview) -> None:
        """Make records of ``data``, the next bytes that the caller has to send."""
        assert not self._ahead_bytes
        assert not self._records
        records = [self._leaving.read()]
        for start in range(0, len(data), RECORD_BYTES):
            self._tls.write(data[start : start + RECORD_BYTES])
            records.append(self._leaving.read())
        self._records = memoryview(b"".join(records))
        self._ahead_bytes = len(data)

    def _decrypt(self) -> bytes:
        """Return the content of complete records among what was received.

        It takes 16 KiB at least, and goes on as long as the turn has time and the peer takes what
        TLS answers; the rest is left for the next call.
        """
        parts: list[bytes] = []
        begun_s = perf_counter()
        until_s = begun_s + self._turn.slice_s()
        while self._undecrypted_bytes:
            piece = self._undecrypted[:RECORD_BYTES]
            self._undecrypted = self._undecrypted[RECORD_BYTES:] or _NOTHING
            self._arrived.write(piece)
            complete = len(parts)
            self._read_records(parts)
            self._dataless_bytes = 0 if len(parts) > complete else self._dataless_bytes + len(piece)
            if self._leaving.pending:
                self._flush()
            if self._is_ended or self._dataless_bytes > DATALESS_BYTES:
                self._undecrypted = _NOTHING
                break
            if self._unsent_bytes > UNSENT_BYTES or perf_counter() >= until_s:
                break
        self._turn.spend(perf_counter() - begun_s)
        if self._dataless_bytes > DATALESS_BYTES:
            raise TlsBroken(f"none of the last {self._dataless_bytes} bytes were data")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_records(self, parts: list[bytes]) -> None:
        """Add the content of the complete records in the buffer to ``parts``."""
        arrived, tls = self._arrived, self._tls
        try:
            while (arrived.pending or tls.pending()) and not self._is_ended:
                part = tls.read(RECORD_BYTES)
                if part:
                    parts.append(part)
                else:
                    self._is_ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._is_ended = True
        except ssl.SSLError as error:
            self._flush()
            raise TlsBroken(error.reason or str(error)) from error

    async def _send_records(self) -> None:
        """Wait until the peer has taken every record."""
        while self._unsent_bytes:
            await self._send_some()

    async def _room(self) -> None:
        """Wait until the peer has taken more of the records.

        Raises ``TlsBroken`` where it takes none for too long. (The times of the connection are
        those of its answers, of which there may be none.)
        """
        self._charge()
        with trio.move_on_after(self._stall_s) as waiting:
            await self._send_some()
        if waiting.cancelled_caught:
            raise TlsBroken(f"the peer does not read, and has {self._unsent_bytes} bytes unread")

    async def _send_some(self) -> None:
        """Wait until the peer has taken some of the records; one task sends them at a time."""
        if self._sending is not None:
            await self._sending.wait()
        elif self._next_records():
            self._sending = trio.Event()
            try:
                taken = await self._inner.send(self._records)
                self._records = self._records[taken:] or _NOTHING
            finally:
                self._sending.set()
                self._sending = None
            self._charge()

    def _flush(self) -> bool:
        """Send records as far as the peer takes them at once; return whether none is left."""
        if self._sending is None:  # others follow those under way
            while self._next_records():
                taken = self._inner.try_send(self._records)
                self._records = self._records[taken:] or _NOTHING
                if self._records:
                    break
        self._charge()
        return not self._unsent_bytes

    def _next_records(self) -> bool:
        """Take records that OpenSSL has ready once the last ones are gone; return whether there
        are any."""
        if not self._records and self._leaving.pending:
            self._records = memoryview(self._leaving.read())
        return bool(self._records)

    def _charge(self) -> None:
        kept_bytes = self._fixed_bytes + self._unsent_bytes + self._undecrypted_bytes
        if kept_bytes != self._charged_bytes:
            charge, self._charged_bytes = kept_bytes - self._charged_bytes, kept_bytes
            self._account.add(charge)
