"""Registrations that take a while: read beside the event loop, taken over in turns."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, final

import trio

from lanemq.wire import Refused, ResponseCode
from lanemq.wire.frame import Frame
from lanemq.wire.headers import RegisterBroker

from ..net._session import Session
from ..net._turns import beside
from ._requests import RegistrationRead, is_compressed, reading_bytes, registration

READING_THREADS: Final = 2
"""Threads for long registrations; the disk of a broker in the same process needs threads, too."""


@final
class LongRegistrations:
    """The threads that read them, and the order in which they are taken over."""

    def __init__(self) -> None:
        self._reading = trio.CapacityLimiter(READING_THREADS)
        # Each takes many times its length.
        self._unpacking = trio.CapacityLimiter(1)
        self._one_at_a_time = trio.Lock()
        self._names = Counter[str | None]()

    def is_taking(self, broker_name: str | None) -> bool:
        """Return whether a registration of this broker name, or (None) any, is being taken over."""
        return bool(self._names) if broker_name is None else broker_name in self._names

    @asynccontextmanager
    async def taking(self, broker_name: str | None) -> AsyncIterator[None]:
        """Take over a registration in turns: one at a time of all, and of a broker name.

        Also for what concerns the rows of that broker, or (None) of all brokers.
        """
        self._names[broker_name] += 1
        try:
            async with self._one_at_a_time:
                yield
        finally:
            self._names[broker_name] -= 1
            if not self._names[broker_name]:
                del self._names[broker_name]

    async def read(
        self, header: RegisterBroker, frame: Frame, session: Session
    ) -> RegistrationRead:
        """Read one; it counts, while it is read, for what its values take in memory.

        Raises as ``registration``, and ``Refused`` (SYSTEM_BUSY) where the peer has no memory left.
        """
        read = partial(registration, header, frame)
        measure = partial(reading_bytes, header, frame)
        size_bytes = await beside(session, measure, self._reading)
        if not session.account.admits(size_bytes):
            remark = f"this registration takes {size_bytes} bytes to read: try again later"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        session.account.add(size_bytes)
        try:
            threads = self._unpacking if is_compressed(header, frame) else self._reading
            return await beside(session, read, threads)
        finally:
            session.account.add(-size_bytes)
