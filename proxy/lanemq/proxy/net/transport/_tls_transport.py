"""TLS between a connection and what carries its bytes: a transport over a transport.

OpenSSL works on two buffers in memory, which this module fills from the transport below and
empties into it; so a stream of a simulation will do as well as a socket.
"""

import ssl
from contextlib import suppress
from typing import Final, final

import trio

from ..limits._budget import Account
from ._transport import GONE, Transport

RECORD_BYTES: Final = 16 << 10
"""The most that one record of TLS carries. The buffers are filled by so much at a time: they keep
the size that they once had."""
SEND_BYTES: Final = 64 << 10
"""Bytes that are encrypted before the peer has taken them."""
HANDSHAKE_BYTES: Final = 48 << 10
"""The memory of a handshake under way, as measured with OpenSSL 3.0."""
SESSION_BYTES: Final = 20 << 10
"""The memory of TLS for a connection that is idle, as measured with OpenSSL 3.0."""

ALERT_S: Final = 1.0
"""Seconds for which a peer that was sent an alert has time to read it."""


class TlsBroken(OSError):  # noqa: N818 - says what happened
    """The peer sent something that is not TLS, in the middle of TLS."""


@final
class TlsTransport:
    """A ``Transport`` to a peer that speaks TLS, over another transport.

    ``account`` is charged for what OpenSSL keeps, and for records that the peer has not taken.
    """

    def __init__(self, inner: Transport, context: ssl.SSLContext, *, account: Account) -> None:
        self._inner = inner
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_side=True)
        self._account = account
        self._charged_bytes = 0
        self._fixed_bytes = HANDSHAKE_BYTES
        self._records = memoryview(b"")  # encrypted, and not taken by the peer yet
        self._ahead_bytes = 0  # of the caller's unsent bytes, those in ``_records``
        self._is_sending = False
        self._is_ended = False

    async def shake_hands(self, data: bytes) -> bytes:
        """Complete the handshake that begins with ``data``; return what came behind it, decrypted.

        Raises ``ssl.SSLError`` where the sides do not agree (see ``alert``), ``EOFError`` where the
        peer leaves, and what a transport raises.
        """
        self._charge()
        while True:
            for start in range(0, len(data), RECORD_BYTES):
                self._arrived.write(data[start : start + RECORD_BYTES])
                if self._step():
                    rest = data[start + RECORD_BYTES :]
                    await self._send_records()
                    self._fixed_bytes = SESSION_BYTES
                    self._charge()
                    return self._decrypt(b"") + self._decrypt(rest)
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
            data = await self._inner.receive()
            if not data:
                break
            if data := self._decrypt(data):
                return data
        return b""

    def try_receive(self) -> bytes | None:
        if self._is_ended:
            return b""
        data = self._inner.try_receive()
        if not data:
            return data
        return self._decrypt(data) or (b"" if self._is_ended else None)

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
        if not self._records and not self._ahead_bytes:
            self._encrypt(data[:SEND_BYTES])
        self._next_records()
        if self._records:
            self._is_sending = True
            try:
                taken = await self._inner.send(self._records)
            finally:
                self._is_sending = False
            self._records = self._records[taken:]
            self._charge()
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

    def _encrypt(self, data: memoryview) -> None:
        """Make records of ``data``, the next bytes that the caller has to send."""
        assert not self._ahead_bytes
        records = [bytes(self._records), self._leaving.read()]
        for start in range(0, len(data), RECORD_BYTES):
            self._tls.write(data[start : start + RECORD_BYTES])
            records.append(self._leaving.read())
        self._records = memoryview(b"".join(records))
        self._ahead_bytes = len(data)

    def _decrypt(self, data: bytes) -> bytes:
        """Return the content of complete records in ``data`` and the bytes before it."""
        parts: list[bytes] = []
        for start in range(0, len(data) or 1, RECORD_BYTES):
            self._arrived.write(data[start : start + RECORD_BYTES])
            self._read_records(parts)
        if self._leaving.pending:
            self._flush()
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
        while self._next_records():
            self._records = self._records[await self._inner.send(self._records) :]

    def _flush(self) -> bool:
        """Send records as far as the peer takes them at once; return whether none is left."""
        if self._is_sending:  # added bytes follow those under way
            self._charge()
            return False
        if self._next_records():
            self._records = self._records[self._inner.try_send(self._records) :]
        self._charge()
        return not self._records

    def _next_records(self) -> bool:
        """Put records that OpenSSL has ready behind the unsent ones; return whether there are
        any."""
        if self._leaving.pending:
            self._records = memoryview(bytes(self._records) + self._leaving.read())
        return bool(self._records)

    def _charge(self) -> None:
        kept_bytes = self._fixed_bytes + len(self._records) + self._leaving.pending
        if kept_bytes != self._charged_bytes:
            charge, self._charged_bytes = kept_bytes - self._charged_bytes, kept_bytes
            self._account.add(charge)
