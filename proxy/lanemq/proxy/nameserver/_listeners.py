"""Logical listeners: the addresses at which servers translate for clients of old.

Such a client has one address for the one broker that it sees, for all its topics. So a name
server names one listener of a cluster, and every name server the same: the one that has been
listening longest. When that one is gone, the next oldest is named; an older one that
comes back is younger then, so clients move once only.
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
    address: str
    since_ms: int


@final
class Listeners:
    """Every listener that was reported and not taken back.

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
        """A broker registers, with a listener or (any longer) without one."""
        if listener is None:
            self._by_broker.pop((broker_name, broker_id), None)
        else:
            self._by_broker[broker_name, broker_id] = Listener(
                cluster, broker_address, listener.address, listener.since_ms
            )

    def forget(self, broker_name: str) -> None:
        """The broker will not come back."""
        for key in [key for key in self._by_broker if key[0] == broker_name]:
            del self._by_broker[key]

    def named(
        self, clusters: Collection[str], is_registered: Callable[[str], bool]
    ) -> Listener | None:
        """The listener for topics of ``clusters``; None if there has been none.

        ``is_registered`` tells of a broker's address whether it is.
        """
        candidates = [one for one in self._by_broker.values() if one.cluster in clusters]
        return min(
            candidates,
            key=lambda one: (not is_registered(one.broker_address), one.since_ms, one.address),
            default=None,
        )
