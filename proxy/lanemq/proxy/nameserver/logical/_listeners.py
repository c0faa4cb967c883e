"""Logical listeners: the addresses at which servers translate for older clients.

Such a client sees the logical queues of all its topics at a few brokers that do not exist, and has
one address for each. So a name server gives each of them to one of the cluster's listeners, and
every name server to the same: they are dealt out in turn, in the order of the names of the brokers
whose processes listen. A new topic's queues are laid out in the same order, so that mostly a queue
is on the broker that serves it. While a listener is gone, the others stand for its brokers.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, final

from lanemq.wire.logical import LogicalListenerReport

from ...net.limits._quotas import HOST_SHARE, PeerQuota

LISTENERS_MAX: Final = 256
"""Most listeners that are known: a route looks at each of them for each broker that clients see."""


@final
@dataclass(frozen=True, slots=True)
class Listener:
    """One listener, and the broker that reported it."""

    host: str
    """The address of the peer that registers the broker."""
    cluster: str
    broker_address: str
    said: LogicalListenerReport


@final
@dataclass(frozen=True, slots=True)
class ListenerAddress:
    """The address of a logical listener that clients are sent to."""

    cluster: str
    address: str


@final
class Listeners:
    """The listeners that were reported and not withdrawn.

    One whose broker is gone is still named while there is no other: to show clients physical
    queues until it is back would make them read everything again. Where there is no room, the
    oldest of those that are gone gives way; of one peer there are three quarters at most.
    """

    def __init__(self, is_registered: Callable[[str], bool]) -> None:
        """``is_registered`` tells of a broker's address whether it is."""
        self._is_registered = is_registered
        self._by_broker: dict[tuple[str, int], Listener] = {}
        self._of_host = PeerQuota[str](LISTENERS_MAX, share=HOST_SHARE)

    def report(
        self,
        broker_name: str,
        broker_id: int,
        cluster: str,
        broker_address: str,
        listener: LogicalListenerReport | None,
        host: str,
    ) -> bool:
        """Take over a broker's registration, with a listener or without one (any longer); returns
        False where there is no room for it."""
        key = broker_name, broker_id
        known = self._remove(key)
        if listener is None:
            return True
        if known is None and not self._of_host.has_room(host):
            gone = self._remove_gone(host)
            is_in_its_place = gone is not None and gone.host == host
            if not is_in_its_place and not self._of_host.has_room(host):
                return False
        self._by_broker[key] = Listener(host, cluster, broker_address, listener)
        self._of_host.take(host)
        return True

    def _remove(self, key: tuple[str, int]) -> Listener | None:
        known = self._by_broker.pop(key, None)
        if known is not None:
            self._of_host.give_back(known.host)
        return known

    def _remove_gone(self, host: str) -> Listener | None:
        """Remove the oldest listener whose broker is gone: the peer's own, if it has one."""
        known = self._by_broker.items()
        gone = [key for key, one in known if not self._is_registered(one.broker_address)]
        own = [key for key in gone if self._by_broker[key].host == host]
        found = own or gone
        return self._remove(found[0]) if found else None

    def forget(self, broker_name: str) -> None:
        """Forget the listener of a broker that will not come back."""
        for key in [key for key in self._by_broker if key[0] == broker_name]:
            self._remove(key)

    def whole(
        self, clusters: Collection[str], is_registered: Callable[[str], bool]
    ) -> ListenerAddress | None:
        """Find the listener that serves all queues of topics of ``clusters`` by logical index, the
        one that has been listening longest; one that is gone comes last. None if there has been
        none.

        ``is_registered`` tells of a broker's address whether it is.
        """
        oldest = min(
            (one for one in self._by_broker.values() if one.cluster in clusters),
            key=lambda one: (
                not is_registered(one.broker_address),
                one.said.since_ms,
                one.said.address,
            ),
            default=None,
        )
        return None if oldest is None else ListenerAddress(oldest.cluster, oldest.said.address)

    def numbered(
        self,
        number: int,
        brokers: int,
        clusters: Collection[str],
        is_registered: Callable[[str], bool],
    ) -> ListenerAddress | None:
        """Find the listener for broker ``number`` of the ``brokers`` that older clients see.

        None if nobody stands for it.
        """
        # Queue ids have another meaning at listeners that stand for one broker only.
        able = [
            one
            for _, one in sorted(self._by_broker.items())
            if one.cluster in clusters and len(one.said.addresses) > number
        ]
        live = [one for one in able if is_registered(one.broker_address)]
        if brokers == 1 and not live:
            return self.whole(clusters, is_registered)
        if not able:
            return None
        round_number, at_home = divmod(number, len(able))
        one = able[at_home]
        if live and one not in live:
            one = live[(round_number + at_home) % len(live)]
        return ListenerAddress(one.cluster, one.said.address_of(number) or one.said.address)
