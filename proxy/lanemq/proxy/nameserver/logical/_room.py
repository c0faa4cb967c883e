"""The room for brokers' logical queues, which outlive the connection: no peer's account limits
them."""

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple, final

from ...net.limits._quotas import HOST_SHARE
from ._registration import LogicalRegistration

KEPT_MAX_BYTES: Final = 64 << 20
"""The most that all brokers' logical queues take; those of further brokers are left out."""


class Held(NamedTuple):
    """The memory that a broker's logical queues of one topic take, about."""

    host: str
    """The address of the peer that registered them."""
    size_bytes: int


@final
class Room:
    """The memory that is taken, by topic and broker."""

    def __init__(self) -> None:
        self._by_topic: dict[str, Mapping[str, Held]] = {}
        self._of_broker = Counter[str]()
        self._of_host = Counter[str]()
        self.taken_bytes = 0

    def of_broker(self, broker_name: str) -> int:
        """Return the memory that a broker's logical queues take, of all topics."""
        return self._of_broker[broker_name]

    def keep(self, topic: str, held: Mapping[str, Held]) -> None:
        """Note what the brokers of a topic take now, by name; nothing for one that is gone."""
        for sign, by_broker in ((-1, self._by_topic.pop(topic, {})), (1, held)):
            for broker_name, one in by_broker.items():
                self.taken_bytes += sign * one.size_bytes
                for table, key in ((self._of_broker, broker_name), (self._of_host, one.host)):
                    table[key] += sign * one.size_bytes
                    if not table[key]:
                        del table[key]
        if held:
            self._by_topic[topic] = held

    def has_room(self, said: LogicalRegistration, most_bytes: int) -> bool:
        """Return whether there is room for the logical queues that a master says now, beside those
        that it leaves as they are: one address gets three quarters at most."""
        name = said.broker_name
        more_bytes = sum(said.sizes.values())
        if said.is_whole:
            more_bytes -= self._of_broker[name]
        else:
            for topic in {*said.topics, *said.sizes}:
                before = self._by_topic.get(topic, {}).get(name)
                more_bytes -= 0 if before is None else before.size_bytes
        of_host_bytes = self._of_host[said.host] + more_bytes
        return more_bytes <= 0 or (
            self.taken_bytes + more_bytes <= most_bytes
            and of_host_bytes * (1 + HOST_SHARE) <= most_bytes
        )
