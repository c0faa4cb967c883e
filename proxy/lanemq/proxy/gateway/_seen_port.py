"""A port at which clients see a broker, and their links to what is behind it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

import trio

from lanemq.wire import HostAddress, ResponseCode, Version
from lanemq.wire.frame import FLAG_ONEWAY, Frame
from lanemq.wire.requests import Port

from ..net._dispatch import Handlers, Outcome
from ..net._server import Server
from ..net._session import Session
from ..net.limits._budget import Budget
from ..net.limits._limits import Limits
from ..net.transport._tls import ServerTls
from ._connecting import Connecting
from ._counts import Counts
from ._link import BrokerLink

KNOWS_GO_AWAY: Final = Version.V5_2_0
"""The first version of clients that go elsewhere, and ask again there, when they are told to."""


class SeenPort(ABC):
    """The service at one port. A subclass says which link a request goes to."""

    def __init__(
        self,
        name: str,
        *,
        address: HostAddress,
        nursery: trio.Nursery,
        limits: Limits,
        budget: Budget,
        tls: ServerTls,
    ) -> None:
        self.name = name
        self.address = address
        """The address for clients."""
        self.counts = Counts()
        self.is_leaving = False
        """True once clients that know how are told to go elsewhere."""
        self._nursery = nursery
        self._links: set[BrokerLink] = set()
        self._posted: list[BrokerLink] = []
        self.server = Server(
            Handlers(Port.BROKER),
            name=f"proxy of {name}",
            after_batch=[self._flush],
            limits=limits,
            budget=budget,
            tls=tls,
        )
        self.server.unsupported = self.take

    @property
    @abstractmethod
    def upstream(self) -> str:
        """The address of what is behind the port, or the names."""

    @property
    @abstractmethod
    def problem(self) -> str:
        """The reason why the last connection to a broker could not be made; empty since one
        could."""

    @property
    def links(self) -> int:
        """The number of connections to brokers."""
        return len(self._links)

    @property
    def waiting(self) -> int:
        """The number of requests that brokers are to answer at once, and have not yet."""
        return sum(link.waiting for link in self._links)

    def take(self, frame: Frame, session: Session) -> Outcome:
        """Pass a request on; its answer comes later. Raises ``Refused``."""
        if self.is_leaving and session.version >= KNOWS_GO_AWAY and not frame.flag & FLAG_ONEWAY:
            self.counts.refused += 1
            return frame.reply(ResponseCode.GO_AWAY, remark="the proxy stops: go to another one")
        return self._pass_on(frame, session)

    @abstractmethod
    def _pass_on(self, frame: Frame, session: Session) -> Outcome:
        """Post a request to its link, or answer it. Raises ``Refused``."""

    def _start(
        self, link: BrokerLink, connecting: Connecting, ended: Callable[[], None] | None = None
    ) -> None:
        """Run a link, and call ``ended`` at its end."""

        def forget() -> None:
            self._links.discard(link)
            if ended is not None:
                ended()

        self._links.add(link)
        self._nursery.start_soon(link.run, connecting, forget)

    async def _end_links(self, address: str, reason: str) -> None:
        """End the links to an address at which no broker is any more."""
        for link in tuple(self._links):
            if link.address == address:
                await link.end_in_turn(reason)

    def _post(self, link: BrokerLink, frame: Frame, start: int = 0) -> None:
        """Post a request to a link; ``_flush`` sends it."""
        self.counts.requests += 1
        link.post(frame, start)
        posted = self._posted
        if not posted or posted[-1] is not link:
            posted.append(link)
        if link.is_behind:
            link.session.held_by = link.caught_up

    def _flush(self) -> None:
        posted, self._posted = self._posted, []
        for link in posted:
            link.flush()
