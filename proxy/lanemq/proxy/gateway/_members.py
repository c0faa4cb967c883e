"""The members of each broker, a master and its slaves, as name servers list them. All pure.

Clients have one list of addresses for an added broker, whatever topic they use: a member for each
of any broker behind it. Where one of these brokers lacks a member, another one of it does the work.

Source: RocketMQ 4.9.8 and 5.3.3, MQClientInstance.findBrokerAddressInSubscribe.
"""

from collections.abc import Iterable, Mapping
from typing import final

from lanemq.wire.bodies import MASTER_ID, BrokerData

from ._numbers import BrokerKey


@final
class Members:
    """The members of all brokers, by the last answer about the cluster."""

    def __init__(self) -> None:
        self._ids: Mapping[str, frozenset[int]] = {}

    def note(self, brokers: Iterable[BrokerData]) -> None:
        """Take all brokers of the cluster."""
        self._ids = {one.broker_name: frozenset(one.broker_addrs) for one in brokers}

    def ids(self, brokers: Iterable[str]) -> set[int]:
        """Return the numbers of members that any of some brokers has."""
        return {number for name in brokers for number in self._ids.get(name, ())}

    def in_place_of(self, key: BrokerKey, *, is_read: bool) -> BrokerKey:
        """Return the member to ask: the one that a client has chosen, if it is there.

        In place of a slave it is the master; a slave is asked in place of a master, or of another
        slave, for reads alone. Clients choose in the same way where they know who is there.
        """
        ids = self._ids.get(key.name, frozenset())
        if not ids or key.broker_id in ids:
            return key
        if MASTER_ID in ids:
            return BrokerKey(key.name, MASTER_ID)
        return BrokerKey(key.name, min(ids)) if is_read else key
