"""The seam between a connection and what carries its bytes.

Real peers come over non-blocking sockets, used bare: the read loop is the hottest code of the
server, and a stream object between it and the socket costs as much as a whole request.
Simulations and tests bring any ``trio.abc.Stream`` instead.
"""

import socket
from typing import Protocol, final

import trio
from trio.lowlevel import wait_readable, wait_writable

READ_BYTES = 256 << 10


class Transport(Protocol):
    """The interface of a transport. Any method may raise ``OSError`` or a trio resource error: the
    peer is gone."""

    async def receive(self) -> bytes:
        """Wait for bytes; none mean that the peer has finished."""

    def try_receive(self) -> bytes | None:
        """Return the bytes that are there now; none if the peer has finished, None if it may still
        send."""

    def try_send(self, data: bytes | memoryview) -> int:
        """Send as much as possible at once; return how many bytes that was."""

    async def send(self, data: memoryview) -> int:
        """Wait until something can be sent, and return how many bytes went."""

    async def close(self) -> None:
        """Drop the connection, without failing or waiting for the peer."""


@final
class SocketTransport:
    """A connected non-blocking socket of the standard library."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    async def receive(self) -> bytes:
        sock = self._socket
        while True:
            await wait_readable(sock)
            try:
                return sock.recv(READ_BYTES)
            except BlockingIOError:
                continue

    def try_receive(self) -> bytes | None:
        try:
            return self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return None

    def try_send(self, data: bytes | memoryview) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    async def send(self, data: memoryview) -> int:
        await wait_writable(self._socket)
        return self.try_send(data)

    async def close(self) -> None:
        trio.lowlevel.notify_closing(self._socket)
        self._socket.close()


@final
class StreamTransport:
    """A transport over any trio stream. Nothing can be sent at once, so all answers take the
    waiting path."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def receive(self) -> bytes:
        return bytes(await self._stream.receive_some(READ_BYTES))

    def try_receive(self) -> bytes | None:
        return None

    def try_send(self, data: bytes | memoryview) -> int:
        return 0

    async def send(self, data: memoryview) -> int:
        await self._stream.send_all(data)
        return len(data)

    async def close(self) -> None:
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self._stream)


GONE = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)
"""The exceptions of a transport whose peer has gone."""
