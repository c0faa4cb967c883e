"""The port at which clients see one broker of the cluster."""

from collections.abc import Mapping
from functools import partial
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.sdk import Dial
from lanemq.wire import HostAddress, Refused, RequestCode, ResponseCode
from lanemq.wire.frame import Frame

from ..net._dispatch import check_body
from ..net._session import Session
from ..net.limits._budget import Budget
from ..net.limits._limits import Limits
from ..net.transport._tls import ServerTls
from ._answers import SeenAnswers
from ._connecting import Connecting
from ._link import NO_LEASE, BrokerLink
from ._seen_port import SeenPort, end_in_turns
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
        links = [(link, reason) for link in self._links if link.address == before]
        self._nursery.start_soon(end_in_turns, links)

    def _pass_on(self, frame: Frame, session: Session) -> None:
        if self._keeps_order and frame.code == RequestCode.HEART_BEAT and not is_signed(frame):
            check_body(frame, is_json=True)
            frame = replace(frame, body=with_producer_group(frame.body, PROXIED))
        link = session.attributes.get(_LINK)
        if link is None or link.is_over:
            link = self._open(session, is_first=link is None)
        elif not link.renew():
            # It ends at the broker's next answer: what is sent now would be stored, and refused.
            link.end(NO_LEASE)
            if not self._is_outlived():
                raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, NO_LEASE)
            link = self._open(session, is_first=False)
        self.post(link, frame)

    def _open(self, session: Session, *, is_first: bool) -> BrokerLink:
        link = BrokerLink(
            session,
            self._upstream,
            self._answers,
            self.counts,
            self.name,
            era=self._era,
            is_outlived=self._is_outlived,
        )
        self.start_link(link, self.connecting)
        session.attributes[_LINK] = link
        session.on_answer = partial(self.post_answer, link)
        if is_first:
            session.on_close.append(_end_link)
        return link

    def _is_outlived(self) -> bool:
        """Return whether clients stay at the port without the broker: another one stands in."""
        return self.moved is not None and self.moved.is_stood_in


def _end_link(session: Session) -> None:
    session.attributes[_LINK].end("the client is gone")
