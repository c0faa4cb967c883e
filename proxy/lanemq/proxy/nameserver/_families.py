"""A name server's status for Prometheus."""

from collections.abc import Iterator
from typing import final

from attrs import define

from ..net._loop_watch import loop_watch
from ..net.http._exposition import CHUNK_LOOKS, Family, Samples
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
        watch, budget = loop_watch(), self._budget
        name, text = "lanemq_nameserver_topic_number", "Topics with a route."
        yield Family(name, text, (), self._topics())
        for name, text, value in (
            ("broker_number", "Registered brokers.", self._routes.registered),
            ("loop_longest_turn_seconds", "Since the start.", watch.longest_s),
            ("loop_held_total", "Turns longer than 100 ms.", watch.held),
            ("peer_memory_bytes", "Memory kept for all peers.", budget.used_bytes),
            ("peer_memory_limit_bytes", "Its bound.", budget.limit_bytes),
            ("connections", "Connections of the process.", budget.peers),
        ):
            yield Family(f"lanemq_nameserver_{name}", text, (), [((), value)])

    def _topics(self) -> Samples:
        steps = self._routes.topics_in_steps()
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                yield (), float(len(stop.value))
                return
            yield CHUNK_LOOKS  # one step is as long as a turn may be
