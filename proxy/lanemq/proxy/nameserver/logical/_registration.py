"""The part of a broker's registration about logical queues."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
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
    host: str = ""
    """The address of the peer that registers it."""
    data_version: DataVersion
    topics: Collection[str] = ()
    """The names of the broker's topics."""
    queues: Mapping[str, LogicalQueues] | None = None
    """The broker's logical queues; None if it knows nothing of them."""
    report: LogicalQueueReport | None = None
    """The report of lanemq's brokers; None from others."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The size of the logical queues in memory in bytes, about, by topic."""
    is_compressed: bool = False
    """True if it came in the compressed form, which has no room for logical queues."""

    @property
    def is_whole(self) -> bool:
        """True if the broker has no logical queues of topics that it does not name.

        Those of 5.0.0-PREVIEW do not say it. One that is whole has the system's topics too; one
        about a change has a single topic.
        """
        return len(self.topics) > 1 if self.report is None else self.report.is_whole

    def deleted_logs_of_keys(self, routes: RouteTable) -> list[str]:
        """Return the logs of namespaces of keys that the broker had, and has deleted since.

        Only a broker of lanemq says that it names all its topics.
        """
        if self.report is None or not self.report.is_whole:
            return []
        logs = routes.logs_at(self.broker_name)
        return [name for name in logs if name not in self.topics]
