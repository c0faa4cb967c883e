"""The routes of a topic with logical queues, for each kind of client."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
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
class RouteMaker:
    """The maker of one topic's routes, which remembers facts that keep them steady."""

    def __init__(self) -> None:
        self._unwritable_since_s: dict[int, float] = {}
        self._for_java: tuple[LogicalQueues, LogicalQueues] | None = None

    def has_for_java(self, queues: LogicalQueues) -> bool:
        """Return whether ``for_java`` was made from this very object."""
        return self._for_java is not None and self._for_java[0] is queues

    def for_java(self, queues: LogicalQueues) -> LogicalQueues:
        """Return the logical queues for clients of 5.0.0-PREVIEW: without numbers of migrations,
        and with times by which they find the segments to search. They are made once."""
        if self._for_java is None or self._for_java[0] is not queues:
            chains = (Chain(c.index, (s.for_clients() for s in _timed(c))) for c in queues.values())
            self._for_java = queues, LogicalQueues(chains)
        return self._for_java[1]

    def flagged(
        self,
        physical: RouteData,
        queues: LogicalQueues,
        listener: ListenerAddress | None,
        indices: Collection[int] | None = None,
        *,
        seen_at: int = 0,
        with_numbers: bool = True,
    ) -> RouteData:
        """Make the route for a client that asks for logical queues: these, and all brokers.

        Numbers of migrations are for brokers and tools of lanemq alone; a client of
        5.0.0-PREVIEW gets segments ``for_java``.

        A listener is one broker more: there such clients keep offsets and locks, by logical
        index. ``orderTopicConf`` would make them use physical queues. Neither member for
        logical queues may ever be null. ``seen_at`` is for servers: how many brokers clients of
        old see the topic at. It is left out while it is not known, since they keep what they
        are told: to call it one would change the names of queues that clients have.
        """
        if not with_numbers:
            queues = self.for_java(queues)
        shown = [chain for index, chain in queues.items() if indices is None or index in indices]
        brokers = physical.broker_datas
        if listener is not None:
            brokers = (*brokers, _broker(listener))
        extra = {**physical.extra, LOGICAL_QUEUES_MEMBER: LogicalQueues(shown).to_json()}
        if seen_at:
            extra[LOGICAL_BROKERS_MEMBER] = seen_at
        return replace(physical, broker_datas=brokers, order_topic_conf=None, extra=extra)

    def translated(
        self,
        physical: RouteData,
        queues: LogicalQueues,
        brokers: int,
        listener_of: Callable[[int], ListenerAddress | None],
        now_s: float,
        wait_s: float,
    ) -> RouteData | None:
        """Make the route for an older client: ``brokers`` brokers that share the logical queues,
        each at the listener that ``listener_of`` gives for its number; brokers without any
        queue are left out.

        None where nobody stands for one of them: to leave it out would make its queues vanish.
        A queue that takes no messages is still offered for ``wait_s``: mostly it is being
        migrated. Then it is left out if it is one of the last.
        """
        queue_datas, broker_datas = [], []
        shares = defaultdict[int, list[Chain]](list)
        for index, chain in queues.items():
            shares[index % brokers].append(chain)
        for number, own in sorted(shares.items()):
            here = listener_of(number)
            if here is None:
                return None
            writable = [chain.index for chain in own if self._takes(chain, now_s, wait_s)]
            queue_datas.append(
                QueueData(
                    broker_name=logical_broker(number),
                    read_queue_nums=_queues_up_to(own[-1].index, brokers),
                    write_queue_nums=_queues_up_to(writable[-1], brokers) if writable else 0,
                    perm=_permission(physical, own),
                    topic_sys_flag=(
                        physical.queue_datas[0].topic_sys_flag if physical.queue_datas else 0
                    ),
                )
            )
            broker_datas.append(_broker(here, number))
        return RouteData(queue_datas=tuple(queue_datas), broker_datas=tuple(broker_datas))

    def _takes(self, chain: Chain, now_s: float, wait_s: float) -> bool:
        if chain.writable is not None:
            self._unwritable_since_s.pop(chain.index, None)
            return True
        since_s = self._unwritable_since_s.setdefault(chain.index, now_s)
        return now_s - since_s < wait_s


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


def _permission(physical: RouteData, chains: Iterable[Chain]) -> int:
    """Return the permission of the brokers on which these logical queues end; full while none is
    known."""
    ends = {chain.writable.broker_name for chain in chains if chain.writable is not None}
    here = [data for data in physical.queue_datas if data.broker_name in ends]
    permission = 0
    for data in here or physical.queue_datas:
        permission |= data.perm
    return permission & Permission.READ_WRITE


def _queues_up_to(index: int, brokers: int) -> int:
    """Return how many queues older clients see at one of their brokers up to a logical one."""
    return min(index // brokers + 1, ROUTE_QUEUES_MAX)
