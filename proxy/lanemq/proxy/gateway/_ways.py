"""The ways from a port to brokers of the cluster, for requests that are not for its own one."""

from collections.abc import Callable, Mapping
from typing import Protocol, final

from lanemq.wire import HostAddress, Refused, ResponseCode
from lanemq.wire.bodies import MASTER_ID

from ..net._session import Session
from ._answers import SeenAnswers
from ._connecting import Connecting
from ._counts import Counts
from ._link import BrokerLink
from ._members import Members
from ._numbers import BrokerKey
from .moves import Receive


class BrokerAt(Protocol):
    """The port of a broker of the cluster."""

    @property
    def upstream(self) -> str:
        """The broker's own address."""

    @property
    def connecting(self) -> Connecting:
        """The tries to connect to it."""


Start = Callable[[BrokerLink, Connecting, Callable[[], None]], None]
"""Runs a link, and calls the last argument at its end."""


@final
class Way:
    """The way to one broker."""

    def __init__(self, ways: "Ways", key: BrokerKey, at: BrokerAt) -> None:
        self._ways = ways
        self.key = key
        self._at = at

    @property
    def upstream(self) -> str:
        """The broker's own address."""
        return self._at.upstream

    def open(self, session: Session, receive: Receive, ended: Callable[[], None]) -> BrokerLink:
        """Open a link of a client; its end is told by ``ended``. Raises ``Refused``."""
        ways = self._ways
        name = f"{ways.name}, {self.key} for moved queues"
        answers, counts = ways.answers, ways.counts
        link = BrokerLink(session, self.upstream, answers, counts, name, receive, lambda: 0)
        ways.start(link, self._at.connecting, ended)
        return link


@final
class Ways:
    """The ways from one port."""

    def __init__(
        self,
        key: BrokerKey,
        address: HostAddress,
        *,
        hosts: Mapping[bytes, bytes],
        counts: Counts,
        start: Start,
        behind: Callable[[BrokerKey], BrokerAt | None],
        members: Members,
    ) -> None:
        self.name = key.name
        self.counts = counts
        self.start = start
        self.answers = SeenAnswers(address, hosts)
        self._behind = behind
        self._members = members

    def to(self, broker: str, *, is_read: bool) -> Way:
        """Return the way to a broker: to its master, and for reads to a slave where name servers
        list no master. Raises ``Refused``.

        This holds at the port of a slave, too. Clients that have lost one broker's master come
        there for parts at another broker, whose slave may have less, and keeps no progress: it
        takes its master's every ten seconds.
        """
        key = self._members.in_place_of(BrokerKey(broker, MASTER_ID), is_read=is_read)
        found = self._behind(key)
        if found is None:
            raise Refused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"broker {broker}, where the queue goes on, is not known to be anywhere",
            )
        return Way(self, key, found)
