"""The bounds on the brokers of one connection, of one address and of a name server."""

from collections import Counter
from collections.abc import Hashable
from typing import Final, final

from ...net.limits._quotas import HOST_SHARE, PeerQuota

BROKERS_MAX: Final = 4096
"""Most brokers that are registered, each master and slave counted."""
BROKERS_OF_CONNECTION_MAX: Final = 64
"""Most brokers that are registered over one connection; a broker of a container, of 5.x, may have
one with others."""


@final
class BrokerShares:
    """The places of brokers, by the addresses under which they are registered."""

    def __init__(self) -> None:
        self.of_connection = Counter[Hashable]()
        self.of_host = PeerQuota[str](BROKERS_MAX, share=HOST_SHARE)
        self._taken: dict[str, tuple[Hashable, str]] = {}

    def problem(self, address: str, *, connection: Hashable, host: str) -> str | None:
        """Return why a peer gets no place for ``address``; None if it gets one, or has it."""
        of_connection, of_host = self._taken.get(address, (None, None))
        others = self.of_connection[connection] - (of_connection == connection)
        if others >= BROKERS_OF_CONNECTION_MAX:
            return f"{others} brokers are registered over this connection, as many as may be"
        if of_host != host and not self.of_host.has_room(host):
            return (
                f"{self.of_host.held_by(host)} brokers are registered from {host}, of "
                f"{len(self.of_host)} at this name server, which has room for {BROKERS_MAX}"
            )
        return None

    def take(self, address: str, *, connection: Hashable, host: str) -> None:
        """Take the place of an address, in place of one that it has."""
        self.give_back(address)
        self._taken[address] = connection, host
        self.of_connection[connection] += 1
        self.of_host.take(host)

    def give_back(self, address: str) -> None:
        """Give back the place of an address, if it has one."""
        if address not in self._taken:
            return
        connection, host = self._taken.pop(address)
        self.of_host.give_back(host)
        self.of_connection[connection] -= 1
        if not self.of_connection[connection]:
            del self.of_connection[connection]
