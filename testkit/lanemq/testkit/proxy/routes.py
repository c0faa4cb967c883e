"""The invariants of a name server's route table."""

from collections.abc import Iterable, Mapping

from lanemq.proxy.nameserver import RouteTable
from lanemq.proxy.nameserver.routes._table import ROW_BYTES


def check_invariants(table: RouteTable) -> None:
    """Assert what must hold between any two calls."""
    brokers, alive, topics = table._brokers, table._alive, table._topics
    pairs: Iterable[tuple[str, str]] = (
        (address, name) for name, broker in brokers.items() for address in broker.addresses.values()
    )
    owners: Mapping[str, str] = dict(pairs)
    assert len(owners) == sum(len(broker.addresses) for broker in brokers.values())
    assert owners == {address: live.broker_name for address, live in alive.items()}
    for name, broker in brokers.items():
        rows = [topic for topic, queues in topics.items() if name in queues]
        assert broker.rows_bytes == sum(ROW_BYTES + len(topic) for topic in rows)
    assert all(broker.addresses for broker in brokers.values())
    assert all(topics.values())
    assert all(set(queues) <= set(brokers) for queues in topics.values())
    assert set(table._filter_servers) <= set(alive)
