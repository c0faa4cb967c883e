"""A peer that speaks frames over any stream."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, final

import trio

from lanemq.wire.frame import Connection, Frame, decode_frame, encode_frame


@final
class Peer:
    """A client of a server, for tests: it sends what it is told and checks nothing."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._protocol = Connection()

    async def send(self, *frames: Frame) -> None:
        """Write frames with one send."""
        await self.stream.send_all(b"".join(map(encode_frame, frames)))

    async def receive(self) -> Frame:
        """Return the next frame of the server; ``EOFError`` when it closes instead."""
        while not isinstance(event := self._protocol.next_event(), Frame):
            data = await self.stream.receive_some()
            if not data:
                raise EOFError("the server closed the connection")
            self._protocol.receive_data(data)
        return event

    async def call(self, frame: Frame) -> Frame:
        """Send one request and return the next frame."""
        await self.send(frame)
        return await self.receive()

    async def is_closed(self) -> bool:
        """Wait for the end of the connection; false if bytes come first."""
        try:
            return not await self.stream.receive_some()
        except trio.BrokenResourceError:
            return True


Connect = Callable[..., Peer]
"""``connect(server, host=..., port=...)``: a new peer; the tests' conftest makes it."""

Dial = Callable[[int], Awaitable[Peer]]
"""``await dial(port)``: a peer over a real socket; the tests' conftest makes and closes it."""


class Recorded(NamedTuple):
    """One frame of a capture of real software."""

    connection: int
    from_client: bool
    peer: str
    """``namesrv`` or ``broker``."""
    data: bytes
    """The whole frame, with its length word."""

    @property
    def frame(self) -> Frame:
        return decode_frame(self.data[4:])
