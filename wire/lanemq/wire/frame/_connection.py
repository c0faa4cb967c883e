"""One side of a remoting connection, without the socket.

Bytes go in with ``receive_data``, frames come out with ``next_event``; ``send`` gives the bytes
to write. Both sides are alike: either may send requests, so the class knows no role.

    OPEN --receive_data(b"")--> EOF       the peer will say no more
    OPEN, EOF --bad bytes-----> FAILED    nobody knows where the next frame begins
"""

import itertools
from collections import deque
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final, final

from .._codes import SENDABLE_LANGUAGES
from .._errors import LocalProtocolError, RemoteProtocolError
from ._command import Frame
from ._frame import DECODERS, MAX_FRAME_BYTES, Split, encode_frame, split_frames

_OPAQUE_MAX: Final = (1 << 31) - 1


@final
class NeedData(Enum):
    """The type of ``NEED_DATA``."""

    NEED_DATA = auto()


NEED_DATA: Final = NeedData.NEED_DATA
"""Returned while no whole frame is there: receive more, then ask again."""


@final
class PeerClosed:
    """The event after the last frame of a peer that closed its side between two frames."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PeerClosed)

    def __hash__(self) -> int:
        return hash(PeerClosed)

    def __repr__(self) -> str:
        return "PeerClosed()"


@final
class Connection:
    """The bytes and the frames of one connection.

    It holds at most one unfinished frame beyond the frames not yet asked for; ask for events
    until ``NEED_DATA`` after each ``receive_data``, and no peer can make it grow beyond
    ``max_frame_bytes`` and one read.
    """

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        """Limit frames in both directions to ``max_frame_bytes``, the length word included."""
        self._max_frame_bytes = max_frame_bytes
        self._buffer: bytes | bytearray = b""
        self._splits: deque[Split] = deque()
        self._split_bytes = 0
        self._ended = False
        self._failure: RemoteProtocolError | None = None
        self._opaques = itertools.count()
        self.cuts = 0
        """Number of times that whole frames were found: it does not grow for a peer that has not
        finished any."""

    @property
    def is_mid_frame(self) -> bool:
        """True while bytes are left behind the frames that were cut: the peer has begun a frame
        that it has not finished, unless ``frames`` was left before its end."""
        return bool(self._buffer)

    @property
    def kept_bytes(self) -> int:
        """The bytes kept of the peer: its unfinished frame, and what came with the frames that
        were not asked for yet."""
        return len(self._buffer) + (self._split_bytes if self._splits else 0)

    def receive_data(self, data: bytes | bytearray | memoryview) -> None:
        """Take what the peer sent; no bytes at all means that it closed its side.

        After a failure it is thrown away. Raises ``LocalProtocolError`` for data after the end.
        """
        if self._ended and data:
            raise LocalProtocolError("data received after the end of the connection")
        if self._failure is not None:
            return
        if not data:
            self._ended = True
        elif not self._buffer and isinstance(data, bytes):
            self._buffer = data  # most often whole frames: they are cut off it as it is
        else:
            if isinstance(self._buffer, bytes):
                self._buffer = bytearray(self._buffer)
            self._buffer += data

    def next_event(self) -> Frame | NeedData | PeerClosed:
        """Return the next frame, or why there is none.

        Raises ``RemoteProtocolError`` where the bytes are not a frame, with the same error again
        at every later call: the connection is to be closed. Any other exception is a bug here.
        """
        for frame in self.frames():
            return frame
        if not self._ended:
            return NEED_DATA
        if not self._buffer:
            return PeerClosed()
        raise self._failed(
            RemoteProtocolError(f"closed inside a frame, after {len(self._buffer)} bytes of it")
        )

    def frames(self) -> Iterator[Frame]:
        """Iterate over the whole frames that are there; ``next_event`` says what is behind them.

        It may be left at any frame: the next call goes on behind that. Raises as ``next_event``.
        """
        if self._failure is not None:
            raise self._failure
        splits = self._splits
        try:
            while True:
                while splits:
                    serialize, header, body = splits.popleft()
                    yield DECODERS[serialize](header, body)
                buffer = self._buffer
                if not buffer:
                    return
                found, size_bytes = split_frames(buffer, max_frame_bytes=self._max_frame_bytes)
                if not found:
                    return
                splits.extend(found)
                self.cuts += 1
                self._split_bytes = size_bytes
                if size_bytes == len(buffer):
                    self._buffer = b""
                elif isinstance(buffer, bytes):
                    self._buffer = bytearray(buffer[size_bytes:])
                else:
                    del buffer[:size_bytes]
        except RemoteProtocolError as error:
            self._failed(error)
            raise

    def clear(self) -> None:
        """Discard all input that was not read yet: no more of it will be read."""
        self._splits.clear()
        self._buffer = b""

    def _failed(self, error: RemoteProtocolError) -> RemoteProtocolError:
        self._failure = error
        self.clear()
        return error

    def send(self, frame: Frame) -> bytes:
        """Return the bytes of ``frame``.

        Raises ``LocalProtocolError`` for a frame that is too long or does not fit its header,
        and for a language name that old clients cannot parse.
        """
        if frame.language not in SENDABLE_LANGUAGES:
            raise LocalProtocolError(f"language {frame.language!r}: old clients fail at the name")
        return encode_frame(frame, max_frame_bytes=self._max_frame_bytes)

    def next_opaque(self) -> int:
        """Return a number for a request of ours: 1, 2, ... and, past 2**31 - 1, from 1 again.

        Never 0: ali-ons takes that for "no number". Any number of threads may ask.
        """
        return next(self._opaques) % _OPAQUE_MAX + 1
