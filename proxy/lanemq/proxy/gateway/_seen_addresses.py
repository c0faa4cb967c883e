"""Addresses at proxies of brokers that no route of the cluster has."""

from collections.abc import Callable, Mapping
from typing import final

from lanemq.wire import Refused, ResponseCode
from lanemq.wire.bodies import MASTER_ID, RouteData

from ._brokers import UpstreamBrokers
from ._numbers import BrokerKey
from ._peers import Peers
from .order import QueueOrder, QueueOrders, added_number


@final
class SeenAddresses:
    """The addresses that clients are told."""

    def __init__(self, peers: Peers, brokers: UpstreamBrokers, orders: QueueOrders | None) -> None:
        self._peers = peers
        self._brokers = brokers
        self._orders = orders

    def gone(self, order: QueueOrder, told: RouteData) -> Mapping[str, str]:
        """Return the addresses of an order's brokers that are drained and gone: name servers did
        not list them at the last look, or do not in the route that they have ``told`` since.

        Raises ``Refused`` while one has no port here: without its queues clients would divide the
        others again.
        """
        there = {one.broker_name for one in told.broker_datas if MASTER_ID in one.broker_addrs}
        there -= set(self._brokers.gone)
        drained = self._brokers.drained
        names = [name for name in drained if name not in there and order.has_left(name)]
        seen = self._peers.addresses() if names else {}
        for name in names:
            if BrokerKey(name, MASTER_ID) not in seen:
                remark = f"this proxy has no port yet for {name}, which is drained and gone"
                raise Refused(ResponseCode.SYSTEM_ERROR, remark)
        return {name: seen[BrokerKey(name, MASTER_ID)] for name in names}

    def added(self, told: RouteData) -> Callable[[str], Mapping[int, str]]:
        """Return what gives the addresses of an added broker by its name: one for each member of
        any broker behind it, in whatever topic."""
        seen, orders, members = self._peers.addresses(), self._orders, self._brokers.members
        assert orders is not None, "there is an order"
        of_topic = {number for one in told.broker_datas for number in one.broker_addrs}

        def addresses(name: str) -> Mapping[int, str]:
            number = added_number(name)
            assert number is not None, "the name of an added broker"
            # Of a topic that has just got it, the log's reader has not told yet.
            ids = members.ids(orders.behind_one(number)) or of_topic
            keys = (BrokerKey(name, one) for one in sorted(ids))
            return {key.broker_id: seen[key] for key in keys if key in seen}

        return addresses
