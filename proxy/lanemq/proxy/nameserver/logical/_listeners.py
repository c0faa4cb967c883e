"""Logical listeners: the addresses at which servers translate for older clients.

Such a client sees the logical queues of all its topics at a few brokers that do not exist, and has
one address for each. So a name server gives each of them to one of the cluster's listeners, and
every name server to the same: they are dealt out in turn, in the order of the names of the brokers
whose processes listen. A new topic's queues are laid out in the same order, so that mostly a queue
is on the broker that serves it. While a listener is gone, the others stand for its brokers.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import final

from lanemq.wire.logical import LogicalListenerReport


@final
@dataclass(frozen=True, slots=True)
class Listener:
    """One listener, and the broker that reported it."""

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
    queues until it is back would make them read everything again.
    """

    def __init__(self) -> None:
        self._by_broker: dict[tuple[str, int], Listener] = {}

    def report(
        self,
        broker_name: str,
        broker_id: int,
        *,
        cluster: str,
        broker_address: str,
        listener: LogicalListenerReport | None,
    ) -> None:
        """Take over a broker's registration, with a listener or without one (any longer)."""
        if listener is None:
            self._by_broker.pop((broker_name, broker_id), None)
        else:
            self._by_broker[broker_name, broker_id] = Listener(cluster, broker_address, listener)

    def forget(self, broker_name: str) -> None:
        """Forget the listener of a broker that will not come back."""
        for key in [key for key in self._by_broker if key[0] == broker_name]:
            del self._by_broker[key]

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
