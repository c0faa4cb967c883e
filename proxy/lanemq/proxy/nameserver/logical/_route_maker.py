"""The routes of a topic with logical queues, for each kind of client."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import final

from lanemq.wire import ROUTE_QUEUES_MAX, Permission
from lanemq.wire.bodies import MASTER_ID, BrokerData, QueueData, RouteData
from lanemq.wire.logical import (
    LOGICAL_BROKERS_MEMBER,
    LOGICAL_QUEUES_MEMBER,
    Chain,
    LogicalQueues,
    Segment,
    logical_broker,
)

from ._listeners import ListenerAddress


@final
class Asker(Enum):
    """The kind of client that asks for a route."""

    OLD = "old"
    """A client that knows nothing of logical queues."""
    FLAGGED = "flagged"
    """A client that asks for them."""
    FLAGGED_JAVA = "flagged Java"
    """A Java client that asks for them; ``serveLogicalQueueToJava`` decides whether it gets
    them."""


@final
@dataclass(slots=True)
class _Share:
    """The logical queues that older clients see at one broker."""

    last: int
    writable: int = -1
    """The last one that takes messages."""
    late: list[tuple[int, float]] = field(default_factory=list)
    """Those behind it, which take none, with the times from which on they did not."""
    ends: set[str] = field(default_factory=set)
    """The brokers at which they end, as far as they take messages."""


@final
@dataclass(frozen=True, slots=True)
class Made:
    """The part of routes that is made once of some logical queues: it takes microseconds each."""

    queues: LogicalQueues
    brokers: int = 0
    told: LogicalQueues = field(default_factory=LogicalQueues)
    """The queues as a client that asks for them is told of them."""
    json: Mapping[str, object] = field(default_factory=dict)
    shares: Mapping[int, _Share] = field(default_factory=dict)
    """The queues for older clients, by the number of a broker."""


@final
class RouteMaker:
    """The maker of one topic's routes, which remembers facts that keep them steady."""

    def __init__(self) -> None:
        self._unwritable_since_s: dict[int, float] = {}
        self._made: dict[Asker, Made] = {}

    def has_made(self, asker: Asker, queues: LogicalQueues, brokers: int) -> bool:
        """Return whether ``make`` was called with this very object for such a client."""
        made = self._made.get(asker)
        return made is not None and made.queues is queues and made.brokers == brokers

    def make(self, asker: Asker, queues: LogicalQueues, brokers: int, now_s: float) -> Made:
        """Make what routes for such clients have of ``queues``, which are seen at ``brokers``.

        Clients of 5.0.0-PREVIEW are told no numbers of migrations, and times by which they find the
        segments to search.
        """
        if self.has_made(asker, queues, brokers):
            return self._made[asker]
        if asker is Asker.OLD:
            made = Made(queues, brokers, shares=self._shares(queues, brokers, now_s))
        else:
            told = queues
            if asker is Asker.FLAGGED_JAVA:
                told = LogicalQueues(
                    Chain(c.index, (s.for_clients() for s in _timed(c))) for c in queues.values()
                )
            made = Made(queues, brokers, told, told.to_json())
        self._made[asker] = made
        return made

    def forget_made(self) -> None:
        """Drop what was made of former queues, which may be many more."""
        self._made = {}

    def _shares(self, queues: LogicalQueues, brokers: int, now_s: float) -> dict[int, _Share]:
        shares: dict[int, _Share] = {}
        since_s: dict[int, float] = {}
        for index, chain in queues.items():
            share = shares.setdefault(index % brokers, _Share(index))
            share.last, end = index, chain.writable
            if end is None:
                since_s[index] = self._unwritable_since_s.get(index, now_s)
                share.late.append((index, since_s[index]))
            else:
                share.writable, share.late = index, []
                share.ends.add(end.broker_name)
        self._unwritable_since_s = since_s
        return shares

    def translated(
        self,
        physical: RouteData,
        made: Made,
        listener_of: Callable[[int], ListenerAddress | None],
        now_s: float,
        wait_s: float,
    ) -> RouteData | None:
        """Make the route for an older client: the brokers that share the logical queues, each at
        the listener that ``listener_of`` gives for its number; those without any queue are left
        out.

        None where nobody stands for one of them: to leave it out would make its queues vanish.
        A queue that takes no messages is still offered for ``wait_s``: mostly it is being
        migrated. Then it is left out if it is one of the last.
        """
        queue_datas, broker_datas, brokers = [], [], made.brokers
        for number, share in sorted(made.shares.items()):
            here = listener_of(number)
            if here is None:
                return None
            late = share.late
            while late and now_s - late[-1][1] >= wait_s:
                late.pop()
            writable = late[-1][0] if late else share.writable
            queue_datas.append(
                QueueData(
                    broker_name=logical_broker(number),
                    read_queue_nums=_queues_up_to(share.last, brokers),
                    write_queue_nums=_queues_up_to(writable, brokers) if writable >= 0 else 0,
                    perm=_permission(physical, share.ends),
                    topic_sys_flag=(
                        physical.queue_datas[0].topic_sys_flag if physical.queue_datas else 0
                    ),
                )
            )
            broker_datas.append(_broker(here, number))
        return RouteData(queue_datas=tuple(queue_datas), broker_datas=tuple(broker_datas))


def flagged(
    physical: RouteData,
    made: Made,
    listener: ListenerAddress | None,
    indices: Collection[int] | None = None,
    *,
    seen_at: int = 0,
) -> RouteData:
    """Make the route for a client that asks for logical queues: these, and all brokers.

    A listener is one broker more: there such clients keep offsets and locks, by logical
    index. ``orderTopicConf`` would make them use physical queues. Neither member for
    logical queues may ever be null. ``seen_at`` is for servers: how many brokers clients of
    old see the topic at. It is left out while it is not known, since they keep what they
    are told: to call it one would change the names of queues that clients have.
    """
    told, queues = made.json, made.told
    if indices is not None:
        told = LogicalQueues(queues[i] for i in sorted(indices) if i in queues).to_json()
    brokers = physical.broker_datas
    if listener is not None:
        brokers = (*brokers, _broker(listener))
    extra = {**physical.extra, LOGICAL_QUEUES_MEMBER: told}
    if seen_at:
        extra[LOGICAL_BROKERS_MEMBER] = seen_at
    return replace(physical, broker_datas=brokers, order_topic_conf=None, extra=extra)


def _timed(chain: Chain) -> Iterator[Segment]:
    """Iterate over segments whose first times leave no time out before the open end's.

    A client of 5.0.0-PREVIEW searches for a time in the sealed segment whose first and last times
    it is between, and in the open one if there is none: also for times before the first message, or
    between two segments. The broker of a segment answers such a time by its first message.
    Source: RocketMQ 5.0.0-PREVIEW, MQAdminImpl.searchLogicalQueueRouteByTimestamp.
    """
    begin_ms = 0
    for segment in chain:
        if segment.is_readable and segment.is_sealed and segment.last_time_ms > 0:
            segment = replace(segment, first_time_ms=min(begin_ms, segment.first_time_ms))
            begin_ms = segment.last_time_ms + 1
        yield segment


def _broker(listener: ListenerAddress, number: int = 0) -> BrokerData:
    return BrokerData(
        cluster=listener.cluster,
        broker_name=logical_broker(number),
        broker_addrs={MASTER_ID: listener.address},
    )


def _permission(physical: RouteData, ends: Collection[str]) -> int:
    """Return the permission of the brokers on which logical queues end; full while none is
    known."""
    here = [data for data in physical.queue_datas if data.broker_name in ends]
    permission = 0
    for data in here or physical.queue_datas:
        permission |= data.perm
    return permission & Permission.READ_WRITE


def _queues_up_to(index: int, brokers: int) -> int:
    """Return how many queues older clients see at one of their brokers up to a logical one."""
    return min(index // brokers + 1, ROUTE_QUEUES_MAX)
