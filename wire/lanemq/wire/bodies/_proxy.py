"""The status of a proxy in front of an Apache cluster (lanemq's own request 310431)."""

from dataclasses import dataclass

from .._numbers import Int
from ._body import Body


@dataclass(frozen=True, slots=True)
class ProxiedBroker(Body):
    """A broker of the cluster, and the port of the proxy at which clients see it."""

    broker_name: str
    broker_id: Int = 0
    address: str = ""
    """The address for clients."""
    upstream: str = ""
    """The broker's own address."""
    listed: bool = True
    """False if the name servers' last answer does not have it."""
    problem: str = ""
    """The reason why the last connection to it could not be made; empty since one could."""
    links: Int = 0
    """Number of connections to it, one for each connection of a client."""
    requests: int = 0
    answers: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class OtherProxy(Body):
    """Another proxy of the cluster. ``address`` is what it was configured as."""

    address: str
    name: str = ""
    """The address that it gives itself; empty while it does not answer, or stops."""
    problem: str = ""
    """The reason why clients should not go to both; empty if all is well."""


@dataclass(frozen=True, slots=True)
class KeyLogStatus(Body):
    """The log of a partition of keys, and how far a proxy has applied it. Counts are of records."""

    namespace: str
    partition: Int = 0
    applied: int = 0
    end: int = 0
    """The end of the log, by the last answer of its broker."""
    snapshot: int | None = None
    """Number of records that the latest snapshot has; None without one."""
    problem: str = ""
    """The reason why nothing is served; empty if all is well."""

    @property
    def lag(self) -> int:
        """Number of records that are in the log, and not applied."""
        return max(0, self.end - self.applied)


@dataclass(frozen=True, slots=True)
class AddedQueues(Body):
    """Queues of a broker that clients see at an added one, from number 0 on."""

    added_broker: str
    count: Int
    broker_name: str
    start: Int = 0
    """The broker's own number of the first."""


@dataclass(frozen=True, slots=True)
class ProxiedTopic(Body):
    """A topic whose queues clients of proxies sort in another way than those of the cluster."""

    topic: str
    queues: Int = 0
    added: tuple[AddedQueues, ...] = ()


@dataclass(frozen=True, slots=True)
class DirectGroup(Body):
    """A group with members who go direct, and sort a topic's queues in the cluster's order."""

    topic: str
    group: str
    direct: Int = 0
    """Number of its members who go direct."""
    proxied: Int = 0
    """Number of its members who come through proxies."""
    direct_ids: tuple[str, ...] = ()
    """The client ids of those who go direct, ten at most."""


@dataclass(frozen=True, slots=True)
class ProxyWorker(Body):
    """One of several processes that share a proxy's ports."""

    number: Int
    pid: int = 0
    connections: Int = 0
    """Number of connections of clients."""
    longest_turn_ms: Int = 0
    held_turns: int = 0
    """Number of turns longer than 100 ms."""
    problem: str = ""
    """The reason why it has not told its status; empty if it has."""


@dataclass(frozen=True, slots=True)
class ProxyStatus(Body):
    """All that a proxy reports about itself."""

    name: str
    """Its address for routes."""
    leaving: bool = False
    """True if it stops, and sends clients to other proxies."""
    name_servers: tuple[str, ...] = ()
    """The name servers of the cluster."""
    problem: str = ""
    """The reason why no name server answers; empty while one does."""
    connections: Int = 0
    """Number of connections of clients."""
    longest_turn_ms: Int = 0
    """The longest turn of the event loop since the start, of those that are timed."""
    held_turns: int = 0
    """Number of turns longer than 100 ms."""
    brokers: tuple[ProxiedBroker, ...] = ()
    proxies: tuple[OtherProxy, ...] = ()
    """The other proxies."""
    keys: tuple[KeyLogStatus, ...] = ()
    """The logs of keys that are followed; none without ``--keys``."""
    queue_log: KeyLogStatus | None = None
    """The log of the orders of queues; None without ``--logical``."""
    topics_in_other_order: int = 0
    """Number of topics whose queues are in another order than the cluster's."""
    topics: tuple[ProxiedTopic, ...] = ()
    """These topics, 1,000 of them at most."""
    direct_groups: tuple[DirectGroup, ...] = ()
    """The groups that read them and have members who go direct."""
    workers: tuple[ProxyWorker, ...] = ()
    """The processes that share the ports, whose numbers are together in the rest; none where there
    is one."""
