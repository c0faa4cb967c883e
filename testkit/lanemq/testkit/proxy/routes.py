"""The invariants of a name server's route table."""

from collections import Counter
from collections.abc import Iterable, Mapping

from lanemq.proxy.nameserver import RouteTable
from lanemq.proxy.nameserver.routes._rows import ROW_BYTES


def check_invariants(table: RouteTable) -> None:
    """Assert what must hold between any two calls."""
    brokers, alive = table._brokers, table._alive
    topics = {
        topic: {name for name, row in rows.items() if row.owner.is_here}
        for topic, rows in table._rows._rows.items()
    }
    pairs: Iterable[tuple[str, str]] = (
        (address, name) for name, broker in brokers.items() for address in broker.addresses.values()
    )
    owners: Mapping[str, str] = dict(pairs)
    assert len(owners) == sum(len(broker.addresses) for broker in brokers.values())
    assert owners == {address: live.broker_name for address, live in alive.items()}
    for name, broker in brokers.items():
        rows = [topic for topic, queues in topics.items() if name in queues]
        assert set(broker.rows.topics) == set(rows)
        assert broker.rows.size_bytes == sum(ROW_BYTES + len(topic) for topic in rows)
    assert all(broker.addresses for broker in brokers.values())
    assert all(table._rows._rows.values())
    assert table._rows._count == sum(map(len, table._rows._rows.values()))
    assert all(set(queues) <= set(brokers) for queues in topics.values())
    assert set(table._filter_servers) <= set(alive)
    assert table._shares.of_connection == Counter(live.connection for live in alive.values())
    assert len(table._shares.of_host) == len(alive)
