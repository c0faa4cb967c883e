"""The last registrations of masters."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, final

from lanemq.wire.bodies import DataVersion

from ..routes._broker_shares import BROKERS_MAX
from ._registration import LogicalRegistration
from ._room import Room

HEARD_MAX: Final = 2 * BROKERS_MAX
"""Masters that are remembered; beyond it those go that have left, and had no logical queues."""


@final
@dataclass(frozen=True, slots=True)
class Heard:
    """The last registration of a master that was accepted."""

    address: str
    connection: Hashable
    data_version: DataVersion


@final
class HeardMasters:
    """The masters by name."""

    def __init__(self, is_registered: Callable[[str], bool], room: Room) -> None:
        self._is_registered = is_registered
        self._room = room
        self._heard: dict[str, Heard] = {}

    def __contains__(self, broker_name: str) -> bool:
        return broker_name in self._heard

    def __len__(self) -> int:
        return len(self._heard)

    def get(self, broker_name: str) -> Heard | None:
        """Return what was heard last; None of one that is new."""
        return self._heard.get(broker_name)

    def put(self, said: LogicalRegistration, connection: Hashable) -> None:
        """Remember a registration."""
        self._heard[said.broker_name] = Heard(said.address, connection, said.data_version)
        if len(self._heard) > HEARD_MAX:
            gone = [
                name
                for name, one in self._heard.items()
                if not self._room.of_broker(name) and not self._is_registered(one.address)
            ]
            for name in gone:
                del self._heard[name]

    def forget(self, broker_name: str) -> None:
        """Forget a master that will not come back."""
        self._heard.pop(broker_name, None)
