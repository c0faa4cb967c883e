"""The port of an added broker: a client's requests go to the brokers of the cluster behind it."""

import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, final

import trio
from msgspec.structs import replace

from lanemq.wire import HostAddress, Refused, RequestCode, ResponseCode
from lanemq.wire.frame import FLAG_ONEWAY, Frame

from ..net._dispatch import Outcome
from ..net._session import Session
from ..net.limits._budget import Budget
from ..net.limits._limits import Limits
from ..net.transport._tls import ServerTls
from ._answers import SeenAnswers
from ._broker_port import BrokerPort
from ._client_links import ClientLinks
from ._link import NO_LEASE, BrokerLink
from ._members import Members
from ._numbers import BrokerKey
from ._seen_port import SeenPort
from .moves import LOCKS, LocksOf
from .order import BY_NAME, READS, AddedRequests, Passed, PortQueues, QueueOrders, Split

_LINKS: Final = "links to brokers"
Behind = Callable[[BrokerKey], BrokerPort | None]
"""Gives the port of a broker of the cluster; None where it has none."""


@final
class AddedPort(SeenPort):
    """The service at one port."""

    def __init__(
        self,
        key: BrokerKey,
        *,
        address: HostAddress,
        nursery: trio.Nursery,
        limits: Limits,
        budget: Budget,
        tls: ServerTls,
        hosts: Mapping[bytes, bytes],
        orders: QueueOrders,
        rng: random.Random,
        behind: Behind,
        members: Members,
    ) -> None:
        super().__init__(
            key.name, address=address, nursery=nursery, limits=limits, budget=budget, tls=tls
        )
        self._member = key.broker_id
        self._members = members
        self._hosts = hosts
        self._orders = orders
        self._behind = behind
        self._requests = AddedRequests(orders, key.name, rng)
        self._answers: dict[str, SeenAnswers] = {}

    @property
    def upstream(self) -> str:
        """The names of the brokers behind it, in place of one broker's own address."""
        return ",".join(self._requests.behind)

    @property
    def problem(self) -> str:
        """The reason why a broker behind it could not be reached; empty if all could."""
        keys = (self._key(name, is_read=False) for name in self._requests.behind)
        found = ((key.name, self._behind(key)) for key in keys)
        problems = (f"{name}: {port.problem}" for name, port in found if port and port.problem)
        return next(problems, "")

    def _pass_on(self, frame: Frame, session: Session) -> Outcome:
        if self._requests.is_long(frame):
            return self._take_long(frame, session)
        links = self._links_of(session)
        try:
            if frame.code == RequestCode.HEART_BEAT:
                self._heartbeat(frame, session, links)
                return None
            return self._passed(frame, session, self._requests.request(frame, links.groups))
        except Refused:
            self.counts.refused += 1
            raise

    async def _take_long(self, frame: Frame, session: Session) -> Frame | None:
        """Pass on a request that takes several turns. Raises ``Refused``."""
        try:
            passed = await self._requests.long_request(frame)
            if session.closed:
                return None
            answer = self._passed(frame, session, passed)
            if isinstance(answer, Awaitable):
                answer = await answer
        except Refused:
            self.counts.refused += 1
            raise
        self._flush()
        return answer

    def _passed(
        self, frame: Frame, session: Session, passed: Split | Passed | Frame
    ) -> Frame | Awaitable[Frame | None] | None:
        if isinstance(passed, Frame):
            return passed
        locked = self._locked(frame, passed)
        if locked is not None:
            return locked
        if isinstance(passed, Passed):
            self.post(self._link_of(session, passed), passed.frame, passed.start)
            return None
        found = [(self._link_of(session, part), part) for part in passed.parts]
        self._links_of(session).gather(frame, len(found))
        for link, part in found:
            self.post(link, part.frame, part.start)
        return None

    def _locked(self, frame: Frame, passed: Split | Passed) -> Awaitable[Frame | None] | None:
        """Return what answers a request for locks that are not at the queues' brokers alone."""
        if self.moved is None or frame.code not in LOCKS:
            return None
        parts = passed.parts if isinstance(passed, Split) else (passed,)
        locks = self.moved.locks
        if not locks.is_elsewhere([part.broker for part in parts]):
            return None
        asked = [LocksOf(part.broker, part.frame) for part in parts]
        return locks.answer(
            frame, asked, lambda broker, answer: self._answers_of(broker).answer(frame.code, answer)
        )

    def _heartbeat(self, frame: Frame, session: Session, links: ClientLinks) -> None:
        """Keep the links of a client alive. The answer has the version of one broker."""
        empty, groups = self._requests.heartbeat(frame)
        links.note_groups(groups, len(frame.body))
        keys = list(links.living()) or self._reachable()[:1]
        if not keys:
            raise Refused(
                ResponseCode.SERVICE_NOT_AVAILABLE, f"no broker is known behind {self.name} yet"
            )
        for key in keys:
            self.post(self._link(session, key), empty)
            empty = replace(empty, flag=empty.flag | FLAG_ONEWAY)

    def _reachable(self) -> list[BrokerKey]:
        """Return the brokers behind it, at the end those that could not be reached."""
        keys = (self._key(name, is_read=True) for name in self._requests.behind)
        found = [(port, key) for key in keys if (port := self._behind(key))]
        return [key for port, key in sorted(found, key=lambda one: bool(one[0].problem))]

    def _key(self, broker: str, *, is_read: bool) -> BrokerKey:
        """Return the member of a broker to ask at this port, or of one that stands in for it."""
        if self.moved is not None:
            broker = self.moved.standing_in(broker)
        return self._members.in_place_of(BrokerKey(broker, self._member), is_read=is_read)

    def _links_of(self, session: Session) -> ClientLinks:
        links = session.attributes.get(_LINKS)
        if links is None:
            links = session.attributes[_LINKS] = ClientLinks(session, self._nursery)
        assert isinstance(links, ClientLinks)
        return links

    def _link_of(self, session: Session, passed: Passed) -> BrokerLink:
        """Return the client's link for a request. Raises ``Refused``."""
        code = passed.frame.code
        key = self._key(passed.broker, is_read=code in READS)
        if key.name != passed.broker and code not in BY_NAME:
            # It names a queue or a place in a log by the numbers of the broker that is gone.
            raise Refused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"{self.name}: broker {passed.broker} is drained and gone: request {code} is for "
                "what only it had",
            )
        return self._link(session, key)

    def _link(self, session: Session, key: BrokerKey) -> BrokerLink:
        """Return the client's link to a broker. Raises ``Refused``."""
        links = self._links_of(session)
        link = links.find(key)
        if link is not None and not link.renew():
            link.end(NO_LEASE)  # as at a broker's own port
            link = None
        if link is not None:
            return link
        port, broker = self._behind(key), key.name
        if port is None:
            raise Refused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"{self.name}: broker {broker}, which has the queue, is not known to be anywhere",
            )
        answers = self._answers_of(broker)
        what = f"{self.name}, {key if key.broker_id else broker}"
        link = BrokerLink(
            session, port.upstream, answers, self.counts, what, links.receive, self._era
        )
        self.start_link(link, port.connecting, partial(links.discard, key, link))
        links.add(key, link)
        return link

    def _answers_of(self, broker: str) -> SeenAnswers:
        answers = self._answers.get(broker)
        if answers is None:
            queues = PortQueues(self._orders, self.name, broker)
            answers = self._answers[broker] = SeenAnswers(self.address, self._hosts, queues)
        return answers
