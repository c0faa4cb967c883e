"""The name server: where brokers register and clients ask for routes."""

from ._config import NameServerConfig
from ._open import NameServer, open_nameserver, run_nameserver
from ._routes import MasterAddresses, Registration, RouteTable

__all__ = [
    "MasterAddresses",
    "NameServer",
    "NameServerConfig",
    "Registration",
    "RouteTable",
    "open_nameserver",
    "run_nameserver",
]
