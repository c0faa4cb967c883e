"""The name server, at which brokers register and clients ask for routes."""

from ._config import NameServerConfig
from ._families import NameServerFamilies
from ._open import NameServer, open_nameserver, run_nameserver
from .routes._registration import MasterAddresses, Registration
from .routes._table import RouteTable

__all__ = [
    "MasterAddresses",
    "NameServer",
    "NameServerConfig",
    "NameServerFamilies",
    "Registration",
    "RouteTable",
    "open_nameserver",
    "run_nameserver",
]
