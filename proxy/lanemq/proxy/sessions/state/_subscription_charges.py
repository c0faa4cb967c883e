"""The charges for the subscriptions of groups: each is its bringer's while the group keeps it.

What the members of a group name is one table of topics, which they overwrite; of two texts for a
topic that of the higher version is kept, whoever was heard from last.
"""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar, final

from lanemq.wire.bodies import ConsumerData

from ._members import ConsumerGroup, subscription_bytes

SessionT = TypeVar("SessionT")
Leave = Callable[[SessionT, ConsumerGroup[SessionT], Mapping[str, int]], None]
"""Told of a member that leaves subscriptions to its group, with the bytes of each topic's."""


@final
class SubscriptionCharges(Generic[SessionT]):
    """The charges of one registry. Pure."""

    def __init__(self, charge: Callable[[SessionT, int], None], leave: Leave[SessionT]) -> None:
        self._charge, self._leave = charge, leave

    def charge(self, group: ConsumerGroup[SessionT], session: SessionT, data: ConsumerData) -> None:
        """Charge a member for what it brings and its group will keep, instead of who brought it
        before, and nobody for topics that are no longer named."""
        kept: dict[str, int] = {}
        for one in data.subscription_data_set:
            size_bytes = subscription_bytes(one)
            if group.will_keep(one, size_bytes):
                kept[one.topic] = max(size_bytes, kept.get(one.topic, 0))
        mine, added_bytes = group.paid.setdefault(session, {}), 0
        for topic, size_bytes in kept.items():
            if group.payers.get(topic) != session:
                self._end(group, topic)
                group.payers[topic] = session
            added_bytes += size_bytes - mine.get(topic, 0)
            mine[topic] = size_bytes
        named = {one.topic for one in data.subscription_data_set}
        for topic in [topic for topic in group.subscriptions if topic not in named]:
            self._end(group, topic)
        if not mine:
            group.paid.pop(session, None)
        if added_bytes:
            self._charge(session, added_bytes)

    def leave(self, group: ConsumerGroup[SessionT], session: SessionT) -> None:
        """End the charges of a member that has left; those of all, where it was the last one."""
        paid = group.paid.pop(session, {})
        for topic in paid:
            del group.payers[topic]
        if paid:
            self._charge(session, -sum(paid.values()))
        if not group.clients:
            for topic in list(group.left):
                self._end(group, topic)
        elif paid:
            self._leave(session, group, paid)

    def _end(self, group: ConsumerGroup[SessionT], topic: str) -> None:
        payer = group.payers.pop(topic, None)
        if payer is not None:
            theirs = group.paid[payer]
            self._charge(payer, -theirs.pop(topic))
            if not theirs:
                del group.paid[payer]
        elif (give_back := group.left.pop(topic, None)) is not None:
            give_back()
