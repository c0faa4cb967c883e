"""The consumers of this process, by group: all members of a group must subscribe alike.

Brokers keep one set of subscriptions for a group. Where its members differ, each heartbeat replaces
what the other said, and messages of both are lost to the group.
"""

import weakref
from collections.abc import Hashable, Mapping
from typing import Final, final

from lanemq.wire import retry_topic
from lanemq.wire.bodies import SubscriptionData

from ..._errors import WrongUse


@final
class Membership:
    """One consumer's membership in its group, until ``end``. Any thread may make one."""

    def __init__(
        self,
        group: str,
        cluster: Hashable,
        subscriptions: Mapping[str, SubscriptionData],
    ) -> None:
        self._group = group
        self._key = group, cluster
        self._subscriptions = subscriptions
        _MEMBERS.add(self)

    def end(self) -> None:
        """Leave the group; a repeat is harmless."""
        _MEMBERS.discard(self)

    def _others(self) -> list["Membership"]:
        return [one for one in tuple(_MEMBERS) if one is not self and one._key == self._key]

    def differs_at(self, wanted: SubscriptionData) -> str | None:
        """Return the expression that another consumer of the group has for the same topic."""
        for other in self._others():
            there = other._subscriptions.get(wanted.topic)
            if there is not None and terms(there) != terms(wanted):
                return there.sub_string
        return None

    def check(self, wanted: SubscriptionData) -> None:
        """Raise ``WrongUse`` if another consumer has another expression for the same topic."""
        there = self.differs_at(wanted)
        if there is not None:
            raise WrongUse(
                f"group {self._group!r} has a consumer in this process that subscribes to"
                f" {wanted.topic!r} with {there[:80]!r}, and this one with"
                f" {wanted.sub_string[:80]!r}: all consumers of a group must subscribe alike; take"
                " another group for another subscription"
            )

    def check_topics(self) -> None:
        """Raise ``WrongUse`` if another consumer subscribes to other topics."""
        for other in self._others():
            ours, theirs = self._topics(), other._topics()
            if theirs and ours != theirs:
                raise WrongUse(
                    f"group {self._group!r} has a consumer in this process that subscribes to"
                    f" {sorted(theirs)}, and this one to {sorted(ours)}: all consumers of a group"
                    " must subscribe alike; take another group for other topics"
                )

    def _topics(self) -> set[str]:
        retries = retry_topic(self._group)
        return {topic for topic in self._subscriptions if topic != retries}


def terms(wanted: SubscriptionData) -> tuple[str, str]:
    """Return the type and text of a subscription's expression, without its version."""
    return wanted.expression_type, wanted.sub_string


_MEMBERS: Final = weakref.WeakSet[Membership]()
