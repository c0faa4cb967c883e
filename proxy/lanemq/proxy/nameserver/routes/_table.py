"""The route table: the brokers with their addresses and topics.

Pure: it reads no clock and knows no socket. Times come in as ``now_s``, and a connection is
any hashable value that stands for it.

Source: RocketMQ 4.9.8, RouteInfoManager.
"""

from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from typing import Final, final

from lanemq.wire import KV_PREFIX
from lanemq.wire.bodies import (
    MASTER_ID,
    ClusterInfo,
    DataVersion,
    QueueData,
    RouteData,
    TopicConfig,
)

from ...net._turns import all_steps
from ._broker_shares import BrokerShares
from ._brokers import Alive, Broker
from ._registration import MasterAddresses, RegisteredTopic, Registration, is_changed
from ._rows import ROWS_OF_A_STEP, Owner, Row, Rows, bounded

BROKER_BYTES: Final = 2048
BROKERS_OF_A_STEP: Final = 64
"""Brokers that one step looks at, of which each may have to be removed, and named in the log."""
FILTER_SERVERS_MAX: Final = 64
"""Most filter servers of one broker: all are in the route of each of its topics."""


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
        self._brokers: dict[str, Broker] = {}
        self._alive: dict[str, Alive] = {}
        self._rows = Rows()
        self._filter_servers: dict[str, list[str]] = {}
        self._shares = BrokerShares()

    @property
    def is_quick(self) -> bool:
        """True if ``matching`` has one step only."""
        return self._rows.is_quick

    @property
    def registered(self) -> int:
        """The number of addresses under which brokers are registered."""
        return len(self._alive)

    def no_room(self, address: str, *, connection: Hashable, host: str) -> str | None:
        """Return why no further broker may register over a connection of a peer; None if it may."""
        return self._shares.problem(address, connection=connection, host=host)

    def register(
        self, registration: Registration, *, now_s: float, connection: Hashable
    ) -> MasterAddresses:
        """Register a broker, until it is silent or ``connection`` ends.

        Topics are added or replaced, never removed: a broker registers a single topic when
        one is created. Only a master's topics count, and only when its data version is not
        the one known already.
        """
        return all_steps(self.register_in_steps(registration, now_s=now_s, connection=connection))

    def register_in_steps(
        self, registration: Registration, *, now_s: float, connection: Hashable
    ) -> Generator[None, None, MasterAddresses]:
        """Do ``register`` in steps of some hundred topics.

        The broker is registered after the first one; its data version is the new one after the
        last. One that is forgotten in between gets no more topics. One registration of a broker
        name at a time.
        """
        address, name = registration.address, registration.broker_name
        known = self._alive.get(address)
        if known is not None and known.broker_name != name:
            self._remove_address(address)  # the same port came back under another name
            known = None
        if name not in self._brokers:
            self._brokers[name] = Broker(registration.cluster, Owner(name))
        broker = self._brokers[name]
        broker.cluster, broker.shown = registration.cluster, None
        for broker_id, other in list(broker.addresses.items()):
            if other == address and broker_id != registration.broker_id:
                del broker.addresses[broker_id]  # a slave that became master, or the reverse
        replaced = broker.addresses.get(registration.broker_id)
        broker.addresses[registration.broker_id] = address
        if replaced is not None and replaced != address:
            self._forget(replaced)
        is_new = known is None or replaced is None
        self.changes += is_new or replaced != address
        self._shares.take(address, connection=connection, host=registration.host)
        alive = self._alive[address] = Alive(
            name,
            connection,
            registration.ha_address,
            None if known is None else known.data_version,
            now_s,
        )
        filter_servers = registration.filter_servers
        if filter_servers:
            self._filter_servers[address] = list(filter_servers[:FILTER_SERVERS_MAX])
        elif filter_servers is not None:
            self._filter_servers.pop(address, None)
        if registration.broker_id == MASTER_ID and (
            is_new or is_changed(alive.data_version, registration.data_version)
        ):
            for number, topic in enumerate(registration.topics):
                if number and number % ROWS_OF_A_STEP == 0:
                    yield
                    if not broker.rows.is_here:
                        break
                self._put_topic(broker.rows, topic)
        alive.data_version = registration.data_version
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

    def expire(self, *, now_s: float, timeout_s: float) -> Iterator[list[str]]:
        """Forget every broker not heard from for longer than ``timeout_s``, in steps; iterates over
        the addresses of each step."""
        addresses = list(self._alive)
        for begin in range(0, len(addresses), BROKERS_OF_A_STEP):
            some, alive = addresses[begin : begin + BROKERS_OF_A_STEP], self._alive
            gone = [a for a in some if a in alive and now_s - alive[a].heard_s > timeout_s]
            for address in gone:
                self._remove_address(address)
            yield gone

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
        queues = self._rows.of_topic(topic)
        if not queues:
            return None
        brokers = [(name, self._brokers[name]) for name in queues]
        return RouteData(
            queue_datas=tuple(queues.values()),
            broker_datas=tuple(broker.data(name) for name, broker in brokers),
            filter_server_table={
                address: tuple(self._filter_servers[address])
                for _, broker in brokers
                for address in broker.addresses.values()
                if address in self._filter_servers
            },
        )

    def queue_datas(self, topic: str) -> Mapping[str, QueueData]:
        """Return the queues of a topic by broker name; empty if no broker has it."""
        return self._rows.of_topic(topic)

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
            broker_addr_table={n: b.data(n) for n, b in self._brokers.items()},
            cluster_addr_table={cluster: tuple(names) for cluster, names in clusters.items()},
        )

    def wipe_write_permission(self, broker_name: str) -> int:
        """Make every topic of a broker read-only; returns how many topics it has.

        It lasts until the broker registers with another data version.
        """
        self.changes += 1
        broker = self._brokers.get(broker_name)
        if broker is None:
            return 0
        broker.rows.wipe_write()
        return len(broker.rows.topics)

    def add_write_permission(self, broker_name: str) -> int:
        """Make every topic of a broker readable and writable; returns how many it has."""
        self.changes += 1
        broker = self._brokers.get(broker_name)
        if broker is None:
            return 0
        broker.rows.open_all()
        return len(broker.rows.topics)

    def delete_topic(
        self, topic: str, *, cluster: str | None = None, broker: str | None = None
    ) -> None:
        """Forget a topic, only in a cluster or at a broker if given; an unknown one is no error."""
        names = self._rows.of_topic(topic)
        self.changes += bool(names)
        for name in names:
            known = self._brokers[name]
            if cluster in (None, known.cluster) and broker in (None, name):
                self._rows.remove(known.rows, topic)

    def topics(self) -> list[str]:
        """Return every topic but the logs of keys."""
        return all_steps(self.topics_in_steps())

    def topics_in_steps(self) -> Generator[None, None, list[str]]:
        """Do ``topics`` in steps of some thousand rows."""
        return self.matching(lambda topic, rows: not topic.startswith(KV_PREFIX))

    def matching(
        self, wanted: Callable[[str, Mapping[str, Row]], bool]
    ) -> Generator[None, None, list[str]]:
        """Find the topics that are ``wanted``, by their names and rows, in such steps."""
        return self._rows.matching(wanted)

    def brokers_of(self, cluster: str) -> set[str]:
        """Return the names of the brokers of a cluster."""
        return {name for name, broker in self._brokers.items() if broker.cluster == cluster}

    def logs_at(self, broker_name: str) -> list[str]:
        """Return the logs of keys that a broker has."""
        broker = self._brokers.get(broker_name)
        return [] if broker is None else list(broker.rows.logs)

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
        rows_bytes = broker.rows.size_bytes if broker.addresses.get(MASTER_ID) == address else 0
        filters = self._filter_servers.get(address, ())
        names_bytes = len(address) + len(alive.broker_name) + len(broker.cluster)
        names_bytes += len(alive.ha_address) + sum(len(name) + 100 for name in filters)
        return BROKER_BYTES + rows_bytes + names_bytes

    def _put_topic(self, rows: Owner, topic: TopicConfig | RegisteredTopic) -> None:
        self.changes += 1
        read, write = bounded(topic.read_queue_nums), bounded(topic.write_queue_nums)
        row = Row(rows, read, write, topic.topic_sys_flag, topic.perm, rows.changes)
        self._rows.put(topic.topic_name, row)

    def _forget(self, address: str) -> None:
        self._shares.give_back(address)
        self._alive.pop(address, None)
        self._filter_servers.pop(address, None)

    def _remove_address(self, address: str) -> None:
        name = self._alive[address].broker_name
        self.changes += 1
        self._forget(address)
        broker = self._brokers[name]
        broker.addresses = {i: a for i, a in broker.addresses.items() if a != address}
        broker.shown = None
        if broker.addresses:
            return
        del self._brokers[name]
        self._rows.leave(broker.rows)
