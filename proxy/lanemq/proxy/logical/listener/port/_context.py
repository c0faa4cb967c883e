"""The context of a listener's port, from which its handlers take what they need."""

from dataclasses import dataclass
from typing import final

from lanemq.wire import HostAddress

from ....broker.context._context import BrokerContext
from ....broker.handlers.pulls._reads import Reads
from ....broker.handlers.sends._send import Sends
from ..brokers._brokers import Brokers
from ..brokers._questions import Questions
from ..brokers._routes import LogicalRoutes
from ._queues import SeenQueues
from ._records import SeenRecords


@final
@dataclass(frozen=True, slots=True)
class ListenerContext:
    """The context of one port. Only ``register`` and the port take it; others take its parts."""

    broker: BrokerContext
    """The context of this process's broker, which keeps the clients, their groups and their
    locks."""
    sends: Sends
    """The sends that store messages at that broker."""
    reads: Reads
    """The reads of its message queues."""
    brokers: Brokers
    questions: Questions
    queues: SeenQueues
    records: SeenRecords
    address: HostAddress
    """The address of the port for clients."""

    @property
    def routes(self) -> LogicalRoutes:
        """The places of all segments."""
        return self.queues.routes
