"""Places of one table that connections take, of which an address gets a part only."""

from typing import final

from ._session import Session
from .limits._quotas import HOST_SHARE, PeerQuota


@final
class SessionPlaces:
    """The places of one table, counted by connections and by their addresses: a client that opens
    further connections gets no more than its address may have. Pure.

    The caller gives back what it has taken, at the end of a connection at the latest.
    """

    __slots__ = ("_of_host", "_of_session")

    def __init__(self, most: int) -> None:
        self._of_session = PeerQuota[Session](most)
        self._of_host = PeerQuota[str](most, share=HOST_SHARE)

    def why_full(self, session: Session, what: str) -> str:
        """Return the reason why there is no more place for a connection; empty where there is one.

        ``what`` says what takes a place, and how: "watches wait".
        """
        of_session, of_host, host = self._of_session, self._of_host, session.peer.host
        if not of_session.has_room(session):
            held, whose = of_session.held_by(session), "this connection"
        elif not of_host.has_room(host):
            held, whose = of_host.held_by(host), f"the connections from {host}"
        else:
            return ""
        return (
            f"{held} {what} for {whose}, its share of {of_host.most}, of which {len(of_host)} "
            "are taken"
        )

    def take(self, session: Session) -> None:
        """Take a place, whether or not there is room."""
        self._of_session.take(session)
        self._of_host.take(session.peer.host)

    def give_back(self, session: Session) -> None:
        """Give back a place of a connection."""
        self._of_session.give_back(session)
        self._of_host.give_back(session.peer.host)
