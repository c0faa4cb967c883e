"""The interface to ports and their connections to brokers."""

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from lanemq.wire.frame import Frame

from ...net._session import Session

Receive = Callable[[Sequence[Frame]], None]


class Link(Protocol):
    """A client's connection to a broker."""

    @property
    def is_over(self) -> bool:
        """True once it has ended."""

    @property
    def mark(self) -> Callable[[], int]:
        """Returns a mark of what is asked by now."""

    @property
    def waits_since(self) -> Callable[[int], bool]:
        """Returns whether a send or a pull from before a mark has no answer yet."""

    @property
    def sends_since(self) -> Callable[[int], bool]:
        """Returns whether a send from before a mark has no answer yet."""

    def end(self, reason: str) -> None:
        """End it."""

    async def end_in_turn(self, reason: str) -> None:
        """End it in a turn of the loop that has time for it."""


class Way(Protocol):
    """The way from a port to a broker of the cluster."""

    @property
    def key(self) -> Hashable:
        """The member of the broker that is asked."""

    @property
    def upstream(self) -> str:
        """Its own address."""

    def open(self, session: Session, receive: Receive, ended: Callable[[], None]) -> Link:
        """Open a link of a client; its end is told by ``ended``."""


class ClientPort(Protocol):
    """The port at which clients' requests come in."""

    @property
    def name(self) -> str:
        """The broker that clients see there."""

    def way(self, broker: str, *, is_read: bool) -> Way:
        """Return the way to a broker. Raises ``Refused``."""

    def post_aside(self, link: Link, frame: Frame) -> None:
        """Post a request to a link that a way has opened."""

    def take_late(self, frame: Frame, session: Session) -> None:
        """Take a request that has waited, and send it."""
