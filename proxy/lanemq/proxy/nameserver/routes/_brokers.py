"""Brokers of a route table: what is known of a broker name, and of each of its addresses."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import final

from lanemq.wire.bodies import BrokerData, DataVersion

from ._rows import Owner


@final
@dataclass(slots=True)
class Broker:
    """A broker name."""

    cluster: str
    rows: Owner
    addresses: dict[int, str] = field(default_factory=dict)
    shown: BrokerData | None = None
    """The addresses as routes have them; None after a change."""

    def data(self, name: str) -> BrokerData:
        """Return the addresses as routes have them."""
        if self.shown is None:
            self.shown = BrokerData(
                cluster=self.cluster,
                broker_name=name,
                broker_addrs=dict(sorted(self.addresses.items())),
            )
        return self.shown


@final
@dataclass(slots=True)
class Alive:
    """An address from which a broker registers."""

    broker_name: str
    connection: Hashable
    ha_address: str
    data_version: DataVersion | None
    """The version of the topics that are in the table; None while the first come in."""
    heard_s: float
