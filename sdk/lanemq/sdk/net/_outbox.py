"""The bytes of one connection that the kernel is yet to take. Any thread may add to them.

The core writes them, in one of its tasks or in between. A thread that has a request while none is
under way writes it itself, which spares it a wake-up of the core.
"""

import os
import threading
from collections import deque
from typing import Final, final

import trio

from lanemq.wire import LocalProtocolError
from lanemq.wire.frame import Frame, encode_frame

from .._errors import WrongValue

# A writer that is this far behind makes callers wait: a stalled server must not fill memory.
HIGH_BYTES: Final = 4 << 20


def encoded(frame: Frame) -> bytes:
    """Return the bytes of a request. Raises ``WrongValue`` for what has no encoding."""
    try:
        return encode_frame(frame)
    except LocalProtocolError as error:
        raise WrongValue(f"request {frame.code} cannot be sent: {error}") from error


@final
class Outbox:
    """The way of whole frames to a socket, in the order in which they were added.

    The lock is held while bytes are written without waiting. A signal handler may raise between
    any two steps of the main thread, so what a thread writes is counted by the call that writes
    it, and the core finds out what was left undone.
    """

    def __init__(self) -> None:
        self.bursts = False
        """True if callers were woken together: their frames are joined by the writing task."""
        self._stream: trio.abc.Stream | None = None
        self._fd = -1
        self._closed = False
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._writing = False
        # Of answers to the server, among what waits and what is being written.
        self._answer_bytes = self._written_answer_bytes = 0
        # What a thread is writing, and how much of it the kernel took, once that is known.
        self._direct = b""
        self._took: deque[int] = deque()
        self._writer = trio.lowlevel.ParkingLot()
        self._drained = trio.lowlevel.ParkingLot()

    @property
    def is_full(self) -> bool:
        """True if callers have to wait before they add more."""
        return len(self._waiting) > HIGH_BYTES

    @property
    def answer_bytes(self) -> int:
        """The bytes of answers that the kernel is yet to take, or a few more than these."""
        return self._answer_bytes + self._written_answer_bytes

    @property
    def is_empty(self) -> bool:
        """True if the kernel has everything."""
        return not (self._waiting or self._writing or self._direct)

    # Any thread

    def add(self, data: bytes, *, directly: bool) -> bool:
        """Add a frame, ``directly`` to the socket if that can be; return whether the core has to
        ``tend`` what is left."""
        with self._lock:
            if not directly or self._fd < 0 or self._writing or self._waiting or self._direct:
                self._waiting += data
                return True
            self._took.clear()
            self._direct = data
            try:  # no signal handler runs between the call and the count
                self._took.extend(map(os.write, (self._fd,), (data,)))
            except OSError:
                return True  # the core tries again, and sees why
            if self._took[0] != len(data):
                return True
            self._direct = b""
            return False

    # The core's thread

    def open(self, stream: trio.abc.Stream) -> None:
        """Begin to write to ``stream``."""
        self._stream = stream
        if isinstance(stream, trio.SocketStream):
            self._fd = stream.socket.fileno()

    def close(self) -> None:
        """Take no more; wake whatever waits."""
        with self._lock:  # never write to a number that the kernel may give to another socket
            self._closed, self._fd = True, -1
        self._drained.unpark_all()

    def post(self, data: bytes, *, is_answer: bool = False) -> OSError | None:
        """Add a frame, and write it if that can be done without waiting.

        ``is_answer`` says that the server has asked for it.
        """
        error = None
        with self._lock:
            self._settle()
            is_idle = not (self._waiting or self._writing or self.bursts)
            self._waiting += data
            if is_answer:
                self._answer_bytes += len(data)
            if is_idle:
                error = self._write()
        self._go_on()
        return error

    def tend(self) -> OSError | None:
        """Write what other threads have left."""
        error = None
        with self._lock:
            self._settle()
            if not self._writing:
                error = self._write()
        self._go_on()
        return error

    def _settle(self) -> None:
        """Put what a thread did not write in front of the rest."""
        if self._direct:
            self._waiting[:0] = self._direct[self._took[0] if self._took else 0 :]
            self._direct = b""

    def _write(self) -> OSError | None:
        if self._fd >= 0 and self._waiting:
            try:
                del self._waiting[: os.write(self._fd, self._waiting)]
                if not self._waiting:
                    self._answer_bytes = 0
            except BlockingIOError:
                pass
            except OSError as error:
                return error
        return None

    def _go_on(self) -> None:
        if self._waiting:
            if not self._writing:
                self._writer.unpark_all()
        elif self._drained:
            self._drained.unpark_all()

    async def write_all(self) -> None:
        """Write what could not be written at once; runs until cancelled.

        Raises ``OSError``, ``trio.BrokenResourceError`` and ``trio.ClosedResourceError``.
        """
        stream = self._stream
        assert stream is not None
        while True:
            with self._lock:
                self._settle()
                data, self._waiting = self._waiting, bytearray()
                self._written_answer_bytes, self._answer_bytes = self._answer_bytes, 0
                self._writing = bool(data)
            if data:
                await stream.send_all(data)
                self._writing = False
            else:
                self._drained.unpark_all()
                await self._writer.park()

    async def room(self) -> None:
        """Wait until something was written, or for ``close``."""
        await self._drained.park()

    async def flushed(self) -> None:
        """Wait until everything added so far is with the kernel, or for ``close``."""
        while not (self._closed or self.is_empty):
            await self._drained.park()
