"""The context of a listener's port, from which its handlers take what they need."""

from dataclasses import dataclass
from typing import final

from lanemq.wire import HostAddress

from ..brokers._brokers import Brokers
from ..brokers._routes import LogicalRoutes
from ._host import ListenerHost
from ._queues import SeenQueues
from ._records import SeenRecords


@final
@dataclass(frozen=True, slots=True)
class ListenerContext:
    """The context of one port. Only ``register`` and the port take it; others take its parts."""

    host: ListenerHost
    """The process, which keeps the clients and their groups."""
    brokers: Brokers
    queues: SeenQueues
    records: SeenRecords
    address: HostAddress
    """The address of the port for clients."""

    @property
    def routes(self) -> LogicalRoutes:
        """The places of all segments."""
        return self.queues.routes
