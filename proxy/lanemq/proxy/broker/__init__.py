"""The broker: takes messages, keeps them, and gives them to those who subscribe."""

from ._broker import Broker
from ._config import BrokerConfig
from ._context import BrokerContext
from ._open import LogicalPorts, open_broker, run_broker

__all__ = [
    "Broker",
    "BrokerConfig",
    "BrokerContext",
    "LogicalPorts",
    "open_broker",
    "run_broker",
]
