"""The route table: the brokers with their addresses and topics.

Pure: it reads no clock and knows no socket. Times come in as ``now_s``, and a connection is
any hashable value that stands for it.

Source: RocketMQ 4.9.8, RouteInfoManager.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, final

from lanemq.wire import KV_PREFIX, Permission, TopicSysFlag
from lanemq.wire.bodies import (
    MASTER_ID,
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    RouteData,
    TopicConfig,
)

from ._registration import MasterAddresses, Registration, is_changed

ROW_BYTES: Final = 512
"""The size of a broker's row for a topic in memory, without its name."""
BROKER_BYTES: Final = 2048


@dataclass(slots=True)
class _Broker:
    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)
    rows_bytes: int = 0
    """The size of its rows for topics."""


@dataclass(slots=True)
class _Alive:
    broker_name: str
    connection: Hashable
    ha_address: str
    data_version: DataVersion
    heard_s: float


@final
class RouteTable:
    """The tables of one name server, kept consistent by every method.

    Invariants: an address belongs to one (broker name, id); a broker name has at least one
    address; a topic has at least one queue data, and each names a broker that is there.
    """

    def __init__(self) -> None:
        self.changes = 0
        """Number that grows with every change in the results of ``route`` and
        ``master_address``."""
        self._brokers: dict[str, _Broker] = {}
        self._alive: dict[str, _Alive] = {}
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._filter_servers: dict[str, list[str]] = {}

    def register(
        self, registration: Registration, *, now_s: float, connection: Hashable
    ) -> MasterAddresses:
        """Register a broker, until it is silent or ``connection`` ends.

        Topics are added or replaced, never removed: a broker registers a single topic when
        one is created. Only a master's topics count, and only when its data version is not
        the one known already.
        """
        address, name = registration.address, registration.broker_name
        known = self._alive.get(address)
        if known is not None and known.broker_name != name:
            self._remove_address(address)  # the same port came back under another name
            known = None
        broker = self._brokers.setdefault(name, _Broker(registration.cluster))
        broker.cluster = registration.cluster
        for broker_id, other in list(broker.addresses.items()):
            if other == address and broker_id != registration.broker_id:
                del broker.addresses[broker_id]  # a slave that became master, or the reverse
        replaced = broker.addresses.get(registration.broker_id)
        broker.addresses[registration.broker_id] = address
        if replaced is not None and replaced != address:
            self._forget(replaced)
        is_new = known is None or replaced is None
        self.changes += is_new or replaced != address
        self._alive[address] = _Alive(
            name, connection, registration.ha_address, registration.data_version, now_s
        )
        if registration.broker_id == MASTER_ID and (
            is_new or known is None or is_changed(known.data_version, registration.data_version)
        ):
            for topic in registration.topics:
                self._put_topic(name, topic)
        if registration.filter_servers:
            self._filter_servers[address] = list(registration.filter_servers)
        elif registration.filter_servers is not None:
            self._filter_servers.pop(address, None)
        if registration.broker_id == MASTER_ID:
            return MasterAddresses()
        master = broker.addresses.get(MASTER_ID)
        if master is None or master not in self._alive:
            return MasterAddresses()
        return MasterAddresses(master, self._alive[master].ha_address)

    def unregister(self, *, broker_name: str, address: str) -> None:
        """Forget a broker that unregisters.

        It goes by the address: 4.9.8 removes the broker that has the id now, so a master that left
        late took its successor with it (5.x goes by the address too).
        """
        broker = self._brokers.get(broker_name)
        if broker is not None and address in broker.addresses.values():
            self._remove_address(address)

    def connection_closed(self, connection: Hashable) -> list[str]:
        """Forget every broker that last registered over ``connection``; returns their addresses."""
        gone = [a for a, alive in self._alive.items() if alive.connection == connection]
        for address in gone:
            self._remove_address(address)
        return gone

    def expire(self, *, now_s: float, timeout_s: float) -> list[str]:
        """Forget every broker not heard from for longer than ``timeout_s``; returns addresses."""
        gone = [a for a, alive in self._alive.items() if now_s - alive.heard_s > timeout_s]
        for address in gone:
            self._remove_address(address)
        return gone

    def data_version(self, address: str) -> DataVersion | None:
        """Return the data version of the last registration from ``address``."""
        alive = self._alive.get(address)
        return None if alive is None else alive.data_version

    def heard_from(self, address: str, *, now_s: float) -> None:
        """Note a sign of life of a registered broker."""
        alive = self._alive.get(address)
        if alive is not None:
            alive.heard_s = now_s

    def route(self, topic: str) -> RouteData | None:
        """Return the route of ``topic``, or None if no broker has it."""
        queues = self._topics.get(topic)
        if queues is None:
            return None
        brokers = [(name, self._brokers[name]) for name in queues]
        return RouteData(
            queue_datas=tuple(queues.values()),
            broker_datas=tuple(_broker_data(name, broker) for name, broker in brokers),
            filter_server_table={
                address: tuple(self._filter_servers[address])
                for _, broker in brokers
                for address in broker.addresses.values()
                if address in self._filter_servers
            },
        )

    def queue_datas(self, topic: str) -> Mapping[str, QueueData]:
        """Return the queues of a topic by broker name; empty if no broker has it."""
        return self._topics.get(topic, {})

    def master_address(self, broker_name: str) -> str | None:
        """Return the address of a registered master, or None."""
        broker = self._brokers.get(broker_name)
        return None if broker is None else broker.addresses.get(MASTER_ID)

    def is_registered(self, address: str) -> bool:
        """Return whether a broker is registered with this address."""
        return address in self._alive

    def cluster_info(self) -> ClusterInfo:
        """Return every broker, by name and by cluster."""
        clusters: dict[str, list[str]] = {}
        for name, broker in self._brokers.items():
            clusters.setdefault(broker.cluster, []).append(name)
        return ClusterInfo(
            broker_addr_table={n: _broker_data(n, b) for n, b in self._brokers.items()},
            cluster_addr_table={cluster: tuple(names) for cluster, names in clusters.items()},
        )

    def wipe_write_permission(self, broker_name: str) -> int:
        """Make every topic of a broker read-only; returns how many topics it has.

        It lasts until the broker registers with another data version.
        """
        return self._change_permission(broker_name, keep=~Permission.WRITE, add=0)

    def add_write_permission(self, broker_name: str) -> int:
        """Make every topic of a broker readable and writable; returns how many it has."""
        return self._change_permission(broker_name, keep=0, add=Permission.READ | Permission.WRITE)

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Forget a topic, in one cluster only if it is given. An unknown one is not an error."""
        queues = self._topics.get(topic)
        if queues is None:
            return
        self.changes += 1
        for name in list(queues):
            if cluster is None or self._brokers[name].cluster == cluster:
                del queues[name]
                self._brokers[name].rows_bytes -= ROW_BYTES + len(topic)
        if not queues:
            del self._topics[topic]

    def topics(self) -> list[str]:
        """Return the name of every topic but the logs of keys."""
        return [topic for topic in self._topics if not topic.startswith(KV_PREFIX)]

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Return the topics that a broker of ``cluster`` has; none for an unknown cluster."""
        names = {name for name, broker in self._brokers.items() if broker.cluster == cluster}
        return [
            topic
            for topic, queues in self._topics.items()
            if not names.isdisjoint(queues) and not topic.startswith(KV_PREFIX)
        ]

    def topics_by_unit(self, *, unit: bool | None, unit_sub: bool | None) -> list[str]:
        """Return the topics whose unit flags are as given (None: either), judged by their first
        broker."""

        def matches(flag: int, bit: int, wanted: bool | None) -> bool:
            return wanted is None or bool(flag & bit) == wanted

        return [
            topic
            for topic, queues in self._topics.items()
            if matches(flag := next(iter(queues.values())).topic_sys_flag, TopicSysFlag.UNIT, unit)
            and matches(flag, TopicSysFlag.UNIT_SUB, unit_sub)
        ]

    def system_topics(self) -> tuple[list[str], str | None]:
        """Return the topics named like clusters and brokers, and the address of some broker to ask
        further."""
        clusters = self.cluster_info().cluster_addr_table
        names = [name for cluster in clusters for name in (cluster, *clusters[cluster])]
        addresses = (next(iter(broker.addresses.values())) for broker in self._brokers.values())
        return list(dict.fromkeys(names)), next(addresses, None)

    def kept_bytes(self, address: str) -> int:
        """Return how many bytes are kept for the broker at ``address``, about; 0 without one."""
        alive = self._alive.get(address)
        if alive is None:
            return 0
        broker = self._brokers[alive.broker_name]
        rows_bytes = broker.rows_bytes if broker.addresses.get(MASTER_ID) == address else 0
        filters = self._filter_servers.get(address, ())
        return BROKER_BYTES + rows_bytes + sum(len(name) + 100 for name in filters)

    def _put_topic(self, broker_name: str, topic: TopicConfig) -> None:
        self.changes += 1
        queues = self._topics.setdefault(topic.topic_name, {})
        if broker_name not in queues:
            self._brokers[broker_name].rows_bytes += ROW_BYTES + len(topic.topic_name)
        queues[broker_name] = QueueData(
            broker_name=broker_name,
            read_queue_nums=topic.read_queue_nums,
            write_queue_nums=topic.write_queue_nums,
            perm=topic.perm,
            topic_sys_flag=topic.topic_sys_flag,
        )

    def _change_permission(self, broker_name: str, *, keep: int, add: int) -> int:
        changed = 0
        self.changes += 1
        for queues in self._topics.values():
            queue = queues.get(broker_name)
            if queue is not None:
                queues[broker_name] = replace(queue, perm=queue.perm & keep | add)
                changed += 1
        return changed

    def _forget(self, address: str) -> None:
        self._alive.pop(address, None)
        self._filter_servers.pop(address, None)

    def _remove_address(self, address: str) -> None:
        name = self._alive[address].broker_name
        self.changes += 1
        self._forget(address)
        broker = self._brokers[name]
        broker.addresses = {i: a for i, a in broker.addresses.items() if a != address}
        if broker.addresses:
            return
        del self._brokers[name]
        for topic, queues in list(self._topics.items()):
            if queues.pop(name, None) is not None and not queues:
                del self._topics[topic]


def _broker_data(name: str, broker: _Broker) -> BrokerData:
    return BrokerData(
        cluster=broker.cluster,
        broker_name=name,
        broker_addrs=dict(sorted(broker.addresses.items())),
    )
