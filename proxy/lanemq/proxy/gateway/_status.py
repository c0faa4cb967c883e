"""The status of a proxy, which its port for routes reports (310431)."""

from collections.abc import Awaitable
from itertools import islice
from typing import Final, final

from lanemq.wire import RemoteProtocolError, RequestCode
from lanemq.wire.bodies import (
    AddedQueues,
    KeyLogStatus,
    OtherProxy,
    ProxiedBroker,
    ProxiedMove,
    ProxiedStand,
    ProxiedTopic,
    ProxyLeaseStatus,
    ProxyMoves,
    ProxyStatus,
    QueuePart,
)
from lanemq.wire.frame import Frame

from ..net._dispatch import Handlers
from ..net._loop_watch import loop_watch
from ..net._session import Session
from ..net._turns import reply_with
from ..net.limits._budget import Budget
from ._brokers import UpstreamBrokers
from ._direct_members import DirectMembers
from ._name_servers import NameServers
from ._peers import Peers
from ._workers import Workers
from .kv import KeyNamespaces
from .moves import LeftBehind, MovingQueues, leases_in
from .order import MovedQueue, QueueOrders

ORDER_LOG: Final = "(order of queues)"
TOPICS_SHOWN: Final = 1000
"""Most topics in another order than the cluster's that are listed."""


@final
class StatusRequests:
    """The handler of PROXY_STATUS."""

    def __init__(
        self,
        name_servers: NameServers,
        brokers: UpstreamBrokers,
        peers: Peers,
        budget: Budget,
        namespaces: KeyNamespaces | None,
        orders: QueueOrders | None,
        members: DirectMembers | None,
        moving: MovingQueues | None = None,
        left: LeftBehind | None = None,
    ) -> None:
        self._name_servers = name_servers
        self._brokers = brokers
        self._peers = peers
        self._budget = budget
        self._namespaces = namespaces
        self._orders = orders
        self._members = members
        self._moving = moving
        self._left = left
        self.workers: Workers | None = None
        """The processes that share the ports; None where there is one."""

    def add_to(self, handlers: Handlers) -> None:
        """Register the handler."""
        handlers.add(RequestCode.PROXY_STATUS, self.answer)

    def answer(self, frame: Frame, session: Session) -> Frame | Awaitable[Frame]:
        """Return the status, of all workers where there are several."""
        if self.workers is None:
            return _reply(frame, session, self.own())
        return self._of_all(self.workers, frame, session)

    async def _of_all(self, workers: Workers, frame: Frame, session: Session) -> Frame:
        reply = _reply(frame, session, await workers.all())
        return reply if isinstance(reply, Frame) else await reply

    def own(self) -> ProxyStatus:
        """Return all that is to be known about this process now."""
        watch, brokers, peers = loop_watch(), self._brokers, self._peers
        return ProxyStatus(
            name=peers.own_name,
            leaving=peers.is_leaving,
            name_servers=tuple(self._name_servers.addresses),
            problem=self._name_servers.why_unanswered,
            connections=self._budget.peers,
            longest_turn_ms=round(watch.peak_s * 1000),
            held_turns=watch.held,
            brokers=tuple(
                ProxiedBroker(
                    broker_name=key.name,
                    broker_id=key.broker_id,
                    address=str(port.address),
                    upstream=port.upstream,
                    listed=key in brokers.listed,
                    problem=port.problem,
                    links=port.links,
                    requests=port.counts.requests,
                    answers=port.counts.answers,
                    refused=port.counts.refused,
                )
                for key, port in sorted(brokers.ports.items())
            ),
            proxies=tuple(OtherProxy(*one) for one in peers.known()),
            keys=self._keys(),
            queue_log=self._queue_log(),
            topics_in_other_order=0 if self._orders is None else len(self._orders.others),
            topics=self._topics(),
            moves=self._moves(),
            direct_groups=() if self._members is None else self._members.groups,
        )

    def _queue_log(self) -> KeyLogStatus | None:
        orders = self._orders
        if orders is None:
            return None
        one = orders.log
        why = orders.why_unknown or one.problem or orders.why_unseen
        return KeyLogStatus(ORDER_LOG, one.partition, one.applied, one.end, one.snapshot, why)

    def _topics(self) -> tuple[ProxiedTopic, ...]:
        others = {} if self._orders is None else self._orders.others
        return tuple(
            ProxiedTopic(
                topic,
                order.count,
                tuple(
                    AddedQueues(run.name, run.count, run.broker, run.start) for run in order.runs
                ),
            )
            for topic, order in sorted(islice(others.items(), TOPICS_SHOWN))
        )

    def _moves(self) -> ProxyMoves | None:
        moving, orders = self._moving, self._orders
        if moving is None or orders is None:
            return None
        lease = moving.lease
        leases: tuple[ProxyLeaseStatus, ...] = ()
        problem = lease.problem
        try:
            leases = tuple(ProxyLeaseStatus(one.name, one.done) for one in leases_in(orders))
        except RemoteProtocolError as error:
            problem = str(error)
        return ProxyMoves(
            lease_seconds=int(lease.left_s),
            problem=problem,
            leases=leases,
            sent_again=0 if self._left is None else self._left.sent,
            passed_over=0 if self._left is None else self._left.passed_over,
            queues=tuple(_moved(orders, *one) for one in islice(moving.all(), TOPICS_SHOWN)),
            stands=tuple(
                ProxiedStand(name, stand.at, stand.target, stand.is_done, stand.is_forgotten)
                for name, stand in sorted(moving.stands.known.items())
            ),
        )

    def _keys(self) -> tuple[KeyLogStatus, ...]:
        if self._namespaces is None:
            return ()
        return tuple(
            KeyLogStatus(namespace, one.partition, one.applied, one.end, one.snapshot, one.problem)
            for namespace, keys in sorted(self._namespaces.opened.items())
            for one in keys.statuses()
        )


def _moved(orders: QueueOrders, topic: str, moved: MovedQueue) -> ProxiedMove:
    order = orders.of(topic)
    seen = None if order is None else order.seen(*moved.place)
    index = -1 if order is None or seen is None else order.index_of(seen)
    return ProxiedMove(
        topic,
        index,
        parts=tuple(
            QueuePart(
                part.broker,
                part.queue_id,
                begin,
                begin + part.end if part.end >= 0 else -1,
                part.lost,
            )
            for part, begin in zip(moved.parts, moved.begins, strict=True)
        ),
        target="" if moved.target is None else moved.target.broker,
        sealing=moved.is_sealing,
    )


def _reply(frame: Frame, session: Session, status: ProxyStatus) -> Frame | Awaitable[Frame]:
    lists = status.brokers, status.proxies, status.keys, status.topics, status.direct_groups
    return reply_with(frame, session, status, sum(map(len, lists)))
