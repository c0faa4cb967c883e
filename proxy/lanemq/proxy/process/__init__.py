"""A broker's process: a broker and its logical listener, put together over sockets and a disk.

The only part that knows both: brokers know nothing of listeners, and listeners ask their broker.
"""

from ._open import RunningBroker, open_broker
from ._pages import broker_pages
from ._run import LogicalPorts, Parts, run_broker

__all__ = ["LogicalPorts", "Parts", "RunningBroker", "broker_pages", "open_broker", "run_broker"]
