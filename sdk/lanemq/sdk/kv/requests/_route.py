"""The brokers of a namespace, as name servers tell it at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from lanemq.wire import ResponseCode
from lanemq.wire.bodies import BrokerData
from lanemq.wire.kv import kv_topic

from ..._errors import NoRoute, RefusedByBroker
from ...admin._client import AdminClient, chosen_address


@final
@dataclass(frozen=True, slots=True)
class Holder:
    """The broker that has a partition."""

    broker: str
    address: str | None
    """The address that it had when it said so."""


@final
@dataclass(frozen=True, slots=True)
class KvRoute:
    """A namespace as name servers know it."""

    brokers: Mapping[str, BrokerData]
    """All brokers that are registered now."""
    holders: Mapping[int, Holder | None] | None
    """The holder of each partition that is listed, None while nobody takes its writes; None for
    all where no logical queues are known."""
    listed: tuple[str, ...]
    """Without logical queues: the brokers that have the topic, by name."""

    @property
    def names(self) -> list[str]:
        """The names of the brokers that have something of the namespace."""
        if self.holders is None:
            return list(self.listed)
        return sorted({one.broker for one in self.holders.values() if one is not None})

    @property
    def partitions(self) -> int:
        """The number of partitions, as far as it can be seen here."""
        return max(1, len(self.holders or ()))

    def address_of(self, broker: str) -> str | None:
        """Return the present address of a broker; None where it is not registered."""
        data = self.brokers.get(broker)
        return chosen_address(data) if data is not None else None


async def find_route(admin: AdminClient, namespace: str) -> KvRoute:
    """Ask the name servers where a namespace is."""
    brokers = (await admin.cluster()).broker_addr_table
    topic = kv_topic(namespace)
    try:
        queues = await admin.routed_logical_queues(topic)
    except RefusedByBroker as error:
        if error.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return KvRoute(brokers, None, ())
    if queues is not None:
        tails = {index: chain.tail for index, chain in queues.items()}
        holders = {
            index: None if tail is None else Holder(tail.broker_name, tail.broker_address)
            for index, tail in tails.items()
        }
        return KvRoute(brokers, holders, ())
    try:
        route = await admin.route(topic)
    except NoRoute:
        return KvRoute(brokers, None, ())
    return KvRoute(brokers, None, tuple(sorted(one.broker_name for one in route.broker_datas)))
