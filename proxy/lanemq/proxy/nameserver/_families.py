"""A name server's status for Prometheus."""

from collections.abc import Iterator
from typing import final

from attrs import define

from ..net._loop_watch import loop_watch
from ..net.http._exposition import Family
from ..net.limits._budget import Budget
from .routes._table import RouteTable


@final
@define(eq=False, kw_only=True, repr=False)
class NameServerFamilies:
    """The metrics of one name server."""

    _budget: Budget
    _routes: RouteTable

    def all(self) -> Iterator[Family]:
        """Iterate over the metrics."""
        watch, info, budget = loop_watch(), self._routes.cluster_info(), self._budget
        addresses = sum(len(broker.broker_addrs) for broker in info.broker_addr_table.values())
        for name, text, value in (
            ("topic_number", "Topics with a route.", len(self._routes.topics())),
            ("broker_number", "Registered brokers.", addresses),
            ("loop_longest_turn_seconds", "Since the start.", watch.longest_s),
            ("loop_held_total", "Turns longer than 100 ms.", watch.held),
            ("peer_memory_bytes", "Memory kept for all peers.", budget.used_bytes),
            ("peer_memory_limit_bytes", "Its bound.", budget.limit_bytes),
            ("connections", "Connections of the process.", budget.peers),
        ):
            yield Family(f"lanemq_nameserver_{name}", text, (), [((), value)])
