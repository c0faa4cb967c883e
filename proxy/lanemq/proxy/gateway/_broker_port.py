"""The port at which clients see one broker of the cluster."""

from collections.abc import Mapping
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.sdk import Dial
from lanemq.wire import HostAddress, RequestCode
from lanemq.wire.frame import Frame

from ..net._session import Session
from ..net.limits._budget import Budget
from ..net.limits._limits import Limits
from ..net.transport._tls import ServerTls
from ._answers import SeenAnswers
from ._connecting import Connecting
from ._link import BrokerLink
from ._seen_port import SeenPort
from .order import PROXIED, PortQueues
from .rewrites import is_signed, with_producer_group

_LINK: Final = "link to the broker"


@final
class BrokerPort(SeenPort):
    """The service at one port. ``upstream`` is the broker's own address, and may change."""

    def __init__(
        self,
        name: str,
        upstream: str,
        *,
        address: HostAddress,
        nursery: trio.Nursery,
        dial: Dial,
        limits: Limits,
        budget: Budget,
        tls: ServerTls,
        hosts: Mapping[bytes, bytes],
        queues: PortQueues | None = None,
    ) -> None:
        super().__init__(
            name, address=address, nursery=nursery, limits=limits, budget=budget, tls=tls
        )
        self._upstream = upstream
        self.connecting = Connecting(dial)
        self._answers = SeenAnswers(address, hosts, queues)
        self._keeps_order = queues is not None

    @property
    def upstream(self) -> str:
        """The broker's own address."""
        return self._upstream

    @property
    def problem(self) -> str:
        """The reason why the last connection to the broker could not be made; empty since one
        could."""
        return self.connecting.problem

    def moved_to(self, upstream: str) -> None:
        """Note where the broker is now, and end the connections to where it was."""
        if upstream == self._upstream:
            return
        before, self._upstream = self._upstream, upstream
        self.connecting.moved()
        reason = f"the broker is no longer at {before}"
        self._nursery.start_soon(self._end_links, before, reason)

    def _pass_on(self, frame: Frame, session: Session) -> None:
        link = session.attributes.get(_LINK)
        if link is None:
            link = self._open(session)
        if self._keeps_order and frame.code == RequestCode.HEART_BEAT and not is_signed(frame):
            frame = replace(frame, body=with_producer_group(frame.body, PROXIED))
        self._post(link, frame)

    def _open(self, session: Session) -> BrokerLink:
        link = BrokerLink(session, self._upstream, self._answers, self.counts, self.name)
        session.attributes[_LINK] = link
        session.on_answer = link.post_answer
        session.on_close.append(lambda _: link.end("the client is gone"))
        self._start(link, self.connecting)
        return link
