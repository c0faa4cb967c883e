"""The proxy in front of an Apache cluster: clients see its brokers at addresses of the proxy.

A connection of a client has one connection of its own to the broker that it asks for, so that
heartbeats, membership, notifications, transaction checks and locks keep their meaning there. What
passes through stays as the client wrote it, its signature included; addresses of brokers in answers
become those of the proxy.
"""

from ._config import GatewayConfig
from ._families import GatewayFamilies
from ._numbers import BrokerNumbers
from ._open import RunningGateway, open_gateway

__all__ = ["BrokerNumbers", "GatewayConfig", "GatewayFamilies", "RunningGateway", "open_gateway"]
