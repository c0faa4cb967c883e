"""Connections of the simulated network for programs that use sockets bare, as clients and proxies
do: what is written leaves at once, as far as it is taken."""

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, final
from unittest.mock import patch

import trio

from ._network import Descriptor, End

_write: Final = os.write
_read: Final = os.read
_wait_readable: Final = trio.lowlevel.wait_readable
_SOCKET_STREAM: Final = trio.SocketStream


@final
class EndTransport:
    """A server's transport over one end of a connection."""

    def __init__(self, end: End) -> None:
        self._end = end
        self.try_send = end.try_send

    async def receive(self) -> bytes:
        return await self._end.receive_some()

    def try_receive(self) -> bytes | None:
        return self._end.try_receive()

    async def send(self, data: memoryview) -> int:
        await self._end.send_all(data)
        return len(data)

    async def close(self) -> None:
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(self._end)


def _written(fd: int, data: bytes) -> int:
    if not isinstance(fd, Descriptor):
        return _write(fd, data)
    try:
        sent = fd.end.try_send(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None
    if not sent:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return sent


def _received(fd: int, size: int) -> bytes:
    if not isinstance(fd, Descriptor):
        return _read(fd, size)
    data = fd.end.try_receive(size)
    if data is None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return data


async def _readable(fd: int) -> None:
    if isinstance(fd, Descriptor):
        await fd.end.readable()
    else:
        await _wait_readable(fd)


@contextmanager
def bare_sockets() -> Iterator[None]:
    """Let programs use ends of connections as the sockets of the machine within the block."""
    with ExitStack() as patches:
        patches.enter_context(patch.object(trio, "SocketStream", (_SOCKET_STREAM, End)))
        patches.enter_context(patch.object(trio.lowlevel, "wait_readable", _readable))
        patches.enter_context(patch.object(os, "write", _written))
        patches.enter_context(patch.object(os, "read", _received))
        yield
