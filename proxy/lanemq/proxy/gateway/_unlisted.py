"""Brokers that have ports, and that name servers do not list: added, and drained ones."""

from collections.abc import Collection, Iterator, Sequence

from lanemq.wire.bodies import MASTER_ID, BrokerData

from .order import QueueOrders, added_name


def added_brokers(
    orders: QueueOrders | None, brokers: Sequence[BrokerData]
) -> Iterator[BrokerData]:
    """Iterate over the added brokers, each with a master and slaves as these brokers have."""
    ids = {number for one in brokers for number in one.broker_addrs}
    for number in range(0 if orders is None else orders.width):
        yield BrokerData("", added_name(number), dict.fromkeys(ids, ""))


def gone_brokers(drained: Collection[str], brokers: Sequence[BrokerData]) -> Iterator[BrokerData]:
    """Iterate over drained brokers that are not there, without addresses: they keep their ports."""
    names = {one.broker_name for one in brokers if MASTER_ID in one.broker_addrs}
    for name in drained:
        if name not in names:
            yield BrokerData("", name, {MASTER_ID: ""})
