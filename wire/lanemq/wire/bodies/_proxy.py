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
class QueuePart(Body):
    """Messages of a moved queue that are in one broker's queue."""

    broker_name: str
    queue_id: int
    begin: int = 0
    """The offset in the numbers of clients at which it begins."""
    end: int = -1
    """The same of its end; -1 while messages are written there."""
    lost: int = 0
    """The number of its last messages that its broker has lost, and readers pass over."""


@dataclass(frozen=True, slots=True)
class ProxiedMove(Body):
    """A queue that has moved between brokers, or is on its way."""

    topic: str
    index: int
    """The queue's place in the list that clients see."""
    parts: tuple[QueuePart, ...] = ()
    target: str = ""
    """The broker that it is on its way to; empty where it is on none."""
    sealing: bool = False
    """True while nothing is written, so that its end can be read."""


@dataclass(frozen=True, slots=True)
class ProxyLeaseStatus(Body):
    """A proxy, or one of its workers, for which a queue that moves waits."""

    name: str
    """Its address for routes."""
    done: int = 0
    """Records of the log of orders up to which it has carried out all."""


@dataclass(frozen=True, slots=True)
class ProxiedStand(Body):
    """A broker that is drained, or is to be, and who stands in for it."""

    broker_name: str
    at: str
    """The broker that lends the locks of its queues."""
    target: str = ""
    """The one that is to do so, and does it besides; empty where it stays as it is."""
    done: bool = False
    """True once nobody has anything to read there, or it will not come back."""
    forgotten: bool = False
    """True once it will not come back; one of its name that does is taken for another one."""


@dataclass(frozen=True, slots=True)
class ProxyMoves(Body):
    """The report of a proxy with ``--moves`` about queues that move."""

    lease_seconds: int = 0
    """Seconds for which it trusts in its own lease yet."""
    problem: str = ""
    """The reason why its lease was not renewed the last time; empty if it was."""
    leases: tuple[ProxyLeaseStatus, ...] = ()
    """The leases of all proxies, as far as this one knows."""
    sent_again: int = 0
    """Messages that came behind a queue's end, and that this process sent to its open end."""
    passed_over: int = 0
    """Messages that came behind an end, and that their clients had sent again before it did."""
    queues: tuple[ProxiedMove, ...] = ()
    """The queues, 1,000 of them at most."""
    stands: tuple[ProxiedStand, ...] = ()
    """The drained brokers."""


@dataclass(frozen=True, slots=True)
class ProxiedQueues(Body):
    """The brokers to which the queues of a topic are written."""

    topic: str
    brokers: tuple[str, ...] = ()
    """One for each queue, in the order in which clients sort them."""
    problem: str = ""
    """The reason why they cannot move; empty if they can."""
    targets: tuple[str, ...] = ()
    """The broker to which each of them is on its way, if it is on one; empty without."""


@dataclass(frozen=True, slots=True)
class UnreadPart(Body):
    """Messages at a drained broker that a group has not read."""

    topic: str
    group: str
    count: int = 0


@dataclass(frozen=True, slots=True)
class BrokerDrain(Body):
    """The drain of a broker, as it is now."""

    broker_name: str
    state: str
    """``draining``; ``standing`` once another one stands in, and queues are still written here;
    ``drained`` or ``forgotten``."""
    stand_in: str = ""
    what: str = ""
    """The reason why it is not at its end yet, or why nobody knows who needs the broker."""
    written: int = 0
    """Queues that are still written there, or are on their way there."""
    unread: tuple[UnreadPart, ...] = ()
    """The groups that have messages to read there, 1,000 at most."""
    behind: int = 0
    """Messages that came behind the ends of queues there, and are not sent on yet."""


@dataclass(frozen=True, slots=True)
class LostPart(Body):
    """Messages before the end of a part of a moved queue that its broker has no longer."""

    topic: str
    index: int
    """The queue's place in the list that clients see."""
    queue_id: int = 0
    """The broker's own number of the queue."""
    begin: int = 0
    """The offset in the numbers of clients of the first that is lost."""
    end: int = 0
    """The same behind the last."""


@dataclass(frozen=True, slots=True)
class LostMessages(Body):
    """Messages that a broker has lost before the ends of parts."""

    broker_name: str
    state: str
    """``looking``; ``shown`` or ``passed`` at the end, where readers go on behind them."""
    parts: tuple[LostPart, ...] = ()
    """Their places, 1,000 parts at most."""
    what: str = ""
    """The reason why it is not at its end yet."""


@dataclass(frozen=True, slots=True)
class QueueMove(Body):
    """The move of a queue, as it is now."""

    topic: str
    index: int
    state: str
    """``moving``, ``moved`` or ``aborted``."""
    broker_name: str = ""
    queue_id: int = 0
    begin: int = 0
    """The offset in the numbers of clients from which on its messages are at the new broker."""
    what: str = ""
    """The reason why it is not at its end yet."""


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
    moves: ProxyMoves | None = None
    """The queues that move; None without ``--moves``."""
    workers: tuple[ProxyWorker, ...] = ()
    """The processes that share the ports, whose numbers are together in the rest; none where there
    is one."""
