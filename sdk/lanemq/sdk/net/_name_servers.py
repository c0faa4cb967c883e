"""Name servers: one is asked at a time, the same one until it fails.

All of them hold the same routes sooner or later.
Source: RocketMQ 4.9.8, NettyRemotingClient.getAndCreateNameserverChannel.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, final

import trio

from lanemq.wire.frame import Frame

from .._errors import BrokerUnreachable, RequestTimedOut
from ..observe._log import get_logger
from ._remoting import RemotingClient

LOGGER = get_logger("lanemq.sdk.routes")

SUSPECT_S: Final = 1.0
"""Seconds after which a caller that gives up has the next name server asked first."""

Discover = Callable[[], Awaitable[tuple[str, ...]]]


@final
class NameServers:
    """Asks one of several name servers, and the next when one fails.

    ``discover`` finds their addresses where they are not given; it is called when they are
    first needed, and by ``refresh``.
    """

    def __init__(
        self,
        remoting: RemotingClient,
        addresses: Sequence[str],
        *,
        timeout_s: float,
        discover: Discover | None = None,
    ) -> None:
        assert addresses or discover is not None
        self.addresses = tuple(addresses)
        """The route known now; empty before ``discover`` was called."""
        self.discovers = discover is not None
        self._discover = discover
        self._discovering = trio.Lock()
        self._remoting = remoting
        self._timeout_s = timeout_s
        self._current = ""  # the one that is asked first

    async def refresh(self) -> None:
        """Find the addresses again. If that fails, the known ones stay, and the error says why."""
        assert self._discover is not None
        async with self._discovering:
            found = await self._discover()
        if found != self.addresses:
            LOGGER.info("name servers: %s", ", ".join(found))
            self.addresses = found

    async def call(self, frame: Frame) -> Frame:
        """Return the first answer. Raises ``RefusedByBroker``, or the last failure if none
        answers."""
        if not self.addresses:
            await self.refresh()
        addresses = self.addresses
        first = addresses.index(self._current) if self._current in addresses else 0
        for attempt in range(1, len(addresses) + 1):
            address = addresses[(first + attempt - 1) % len(addresses)]
            following = addresses[(first + attempt) % len(addresses)]
            asked_s = trio.current_time()
            try:
                return await self._remoting.call(address, frame, self._timeout_s)
            except trio.Cancelled:
                if trio.current_time() - asked_s >= SUSPECT_S:
                    self._current = following  # or calls with less time would never get there
                raise
            except (BrokerUnreachable, RequestTimedOut) as error:
                self._current = following
                if attempt == len(addresses):
                    error.add_note(f"name servers tried: {', '.join(addresses)}")
                    raise
                LOGGER.warning("name server %s failed, trying the next: %s", address, error)
        raise AssertionError("unreachable: there is at least one name server")
