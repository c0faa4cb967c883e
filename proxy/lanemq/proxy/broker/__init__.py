"""The broker: takes messages, keeps them, and gives them to those who subscribe."""

from .._settings import ConfigError
from ._broker import Broker
from .context._context import BrokerContext
from .settings._config import BrokerConfig

__all__ = [
    "Broker",
    "BrokerConfig",
    "BrokerContext",
    "ConfigError",
]
