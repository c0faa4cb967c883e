"""The part of a broker's registration about logical queues."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import final

from lanemq.wire.bodies import DataVersion
from lanemq.wire.logical import LogicalQueueReport, LogicalQueues

from ..routes._table import RouteTable


@final
@dataclass(frozen=True, kw_only=True, slots=True)
class LogicalRegistration:
    """The part of a registration about logical queues."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    data_version: DataVersion
    topics: Collection[str] = ()
    """The names of the broker's topics."""
    queues: Mapping[str, LogicalQueues] | None = None
    """The broker's logical queues; None if it knows nothing of them."""
    report: LogicalQueueReport | None = None
    """The report of lanemq's brokers; None from others."""
    size_bytes: int = 0
    """The size of the logical queues in memory, about."""
    is_compressed: bool = False
    """True if it came in the compressed form, which has no room for logical queues."""

    def deleted_logs_of_keys(self, routes: RouteTable) -> list[str]:
        """Return the logs of namespaces of keys that the broker had, and has deleted since.

        Only a broker of lanemq says that it names all its topics.
        """
        if self.report is None or not self.report.is_whole:
            return []
        logs = routes.logs_at(self.broker_name)
        return [name for name in logs if name not in self.topics]
