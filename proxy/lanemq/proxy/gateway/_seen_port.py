"""A port at which clients see a broker, and their links to what is behind it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Final

import trio

from lanemq.wire import ACCESS_KEY_FIELD, HostAddress, Refused, ResponseCode, Version
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
from ._own_topics import own_topic
from ._ways import Way, Ways
from .moves import Link, MovedRequests, Onward
from .rewrites import is_signed

KNOWS_GO_AWAY: Final = Version.V5_2_0
"""The first version of clients that go elsewhere, and ask again there, when they are told to."""
UNSIGNED: Final = (
    "the request names an account and has no signature: through a proxy, no account's list of "
    "addresses lets it in"
)
"""A broker sees the proxy's address in place of the client's."""
OWN: Final = "topic {} is for the proxies' own records, and takes no messages of clients"


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
        self.moved: MovedRequests | None = None
        """The requests for queues that move between brokers; None where none does."""
        self.ways: Ways | None = None
        """The ways to all brokers, where queues move."""
        self._nursery = nursery
        self._places = budget.places
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
    def all_links(self) -> Collection[BrokerLink]:
        """The connections to brokers."""
        return self._links

    @property
    def _era(self) -> Callable[[], int] | None:
        """The era of the proxy's lease, for links; None where it needs none."""
        moved = self.moved
        return None if moved is None else moved.era

    @property
    def waiting(self) -> int:
        """The number of requests that brokers are to answer at once, and have not yet."""
        return sum(link.waiting for link in self._links)

    def take(self, frame: Frame, session: Session) -> Outcome:
        """Pass a request on; its answer comes later. Raises ``Refused``."""
        if self.is_leaving and session.version >= KNOWS_GO_AWAY and not frame.flag & FLAG_ONEWAY:
            self.counts.refused += 1
            return frame.reply(ResponseCode.GO_AWAY, remark="the proxy stops: go to another one")
        moved = self.moved
        try:
            if ACCESS_KEY_FIELD in frame.fields and not is_signed(frame):
                raise Refused(ResponseCode.NO_PERMISSION, UNSIGNED)
            topic = own_topic(frame)
            if topic:
                raise Refused(ResponseCode.NO_PERMISSION, OWN.format(topic[:255]))
            if moved is not None:
                taken = moved.take(frame, session)
                if not isinstance(taken, Onward):
                    return taken
                frame = taken.frame
        except Refused:
            self.counts.refused += 1
            raise
        return self._pass_on(frame, session)

    def take_late(self, frame: Frame, session: Session) -> None:
        """Take a request that has waited, and send it."""
        try:
            answer = self.take(frame, session)
        except Refused as error:
            if not frame.flag & FLAG_ONEWAY:
                session.answer(frame, error)
            return
        if isinstance(answer, Frame):
            session.send(answer)
        self._flush()

    def way(self, broker: str, *, is_read: bool) -> Way:
        """Return the way to a broker. Raises ``Refused``."""
        assert self.ways is not None, "queues may move"
        return self.ways.to(broker, is_read=is_read)

    def post_aside(self, link: Link, frame: Frame) -> None:
        """Post a request to a link that a way has opened."""
        assert isinstance(link, BrokerLink), "a way opens these"
        self.post(link, frame)

    @abstractmethod
    def _pass_on(self, frame: Frame, session: Session) -> Outcome:
        """Post a request to its link, or answer it. Raises ``Refused``."""

    def start_link(
        self, link: BrokerLink, connecting: Connecting, ended: Callable[[], None] | None = None
    ) -> None:
        """Run a link, and call ``ended`` at its end. Raises ``Refused`` (SYSTEM_BUSY) where its
        client has no place for one more."""
        places, host = self._places, link.session.peer.host
        if not places.has_room(host):
            remark = f"no connection to a broker is left for clients at {host}: close some"
            raise Refused(ResponseCode.SYSTEM_BUSY, remark)
        places.take(host)

        def forget() -> None:
            places.give_back(host)
            self._links.discard(link)
            if ended is not None:
                ended()

        self._links.add(link)
        self._nursery.start_soon(link.run, connecting, forget)

    def post(self, link: BrokerLink, frame: Frame, start: int = 0) -> None:
        """Post a request to a link; ``_flush`` sends it."""
        self.counts.requests += 1
        link.post(frame, start)
        posted = self._posted
        if not posted or posted[-1] is not link:
            posted.append(link)
        if link.is_behind:
            link.session.held_by = link.caught_up

    def post_answer(self, link: BrokerLink, frame: Frame) -> None:
        """Post the client's answer to a request of the broker, as ``post``."""
        link.post_answer(frame)
        posted = self._posted
        if not posted or posted[-1] is not link:
            posted.append(link)
        if link.is_behind:
            link.session.held_by = link.caught_up

    def _flush(self) -> None:
        posted, self._posted = self._posted, []
        for link in posted:
            link.flush()


async def end_in_turns(links: Sequence[tuple[BrokerLink, str]]) -> None:
    """End links for a reason each, in turns of the loop that have time for it."""
    for link, reason in links:
        await link.end_in_turn(reason)
