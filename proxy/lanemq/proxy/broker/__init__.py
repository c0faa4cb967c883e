"""The broker: takes messages, keeps them, and gives them to those who subscribe."""

from .._settings import ConfigError
from ._broker import Broker
from ._config import BrokerConfig
from ._context import BrokerContext

__all__ = [
    "Broker",
    "BrokerConfig",
    "BrokerContext",
    "ConfigError",
]
